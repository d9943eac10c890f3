"""Cases of parametrised tests, and what holds for every one of many."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

#: Whether Hypothesis has the profile of ``make test``; ``conftest.py`` knows.
is_quick = False


def examples(count: int) -> int:
    """How many examples Hypothesis takes: all in ``make test-all``, a fifth in ``make test``."""
    return max(5, count // 5) if is_quick else count


def slow(*cases: object) -> list[object]:
    """Cases for ``make test-all`` alone: ``[2, 16, *slow(3, 512)]``; a tuple has all arguments."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
            for case in cases]


def every(values: Iterable[object]) -> bool:
    """As ``all``, but of something: that nothing is wrong with nothing proves nothing."""
    found = list(values)
    assert found, 'there is nothing to judge'
    return all(found)
