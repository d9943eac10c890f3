"""What is said of the rows of pairs that are sequences, follow no other, or both."""

from __future__ import annotations

import types
from typing import Any

import pytest

from stereo_bp_ros.cameras.row_correction import RowCorrection
from stereo_bp_ros.cameras.row_estimator import RowState
from stereo_bp_ros.evaluation.results import PairRows
from stereo_bp_ros.evaluation.row_report import sequences_of

ESTIMATE = RowCorrection((1.0, 0, 0, 0, 0), 320.0, 160.0, 80.0)


def results(pairs: str) -> list[Any]:
    """A pair for each letter: B begins, f follows, s has no stamp; of inputs apart by spaces."""
    return [types.SimpleNamespace(
        name=str(place), input=str(number), matchers={'own': types.SimpleNamespace(
            rows=PairRows(RowState(ESTIMATE, max_px=float(place)), 1.0, letter != 'f',
                          letter == 's'))})
            for number, letters in enumerate(pairs.split())
            for place, letter in enumerate(letters, 1)]


@pytest.mark.parametrize(('pairs', 'found'), [
    ('Bfff', [('1', 4, False)]),
    ('BBB', [('1', 3, True)]),
    ('sss', [('1', 3, True)]),
    ('B', [('1', 1, False)]),
    ('BBBff', [('1', 2, True), ('3', 3, False)]),
    ('BfBBBf', [('1', 2, False), ('3', 2, True), ('5', 2, False)]),
    ('BfB', [('1', 2, False), ('3', 1, False)]),
    ('BB Bf', [('1', 2, True), ('1', 2, False)])])
def test_a_pair_belongs_to_the_sequence_that_it_begins(
        pairs: str, found: list[tuple[str, int, bool]]) -> None:
    sequences = sequences_of(results(pairs))
    assert [(one.first, one.pairs, one.is_alone) for one in sequences] == found
    assert [one.corrected for one in sequences] == [pairs for _, pairs, _ in found]
    assert [one.range_px[0] for one in sequences] == [float(first) for first, *_ in found]
