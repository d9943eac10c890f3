"""Cases of parametrised tests, and what holds for every one of many."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def slow(*cases: object) -> list[object]:
    """Cases for ``make test-all`` alone: ``[2, 16, *slow(3, 512)]``; a tuple has all arguments."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
            for case in cases]


def every(values: Iterable[object]) -> bool:
    """As ``all``, but of something: that nothing is wrong with nothing proves nothing."""
    found = list(values)
    assert found, 'there is nothing to judge'
    return all(found)
