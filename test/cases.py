"""Cases of parametrised tests."""

from __future__ import annotations

import pytest


def slow(*cases: object) -> list[object]:
    """Cases for ``make test-all`` alone: ``[2, 16, *slow(3, 512)]``; a tuple has all arguments."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
            for case in cases]
