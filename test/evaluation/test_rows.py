"""Rows of pairs that are evaluated: undone along a sequence, whoever matches, or by one pair."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np
import pytest

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation import rows
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.rows import RowTracker
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.evaluation.scenes.misalignment import Misalignment
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence
from stereo_bp_ros.evaluation.sources import Pair, pair_of_street
from stereo_bp_ros.row_correction import RowCorrection, undo_rows

CONFIG = MatcherConfig(backend='cpu', disparity_range=32, levels=2, iterations=2,
                       row_correction='correct')
CONFIGS = {'own': CONFIG}
LOWER_PX = 1.5
SMALLER = np.zeros((120, 320), np.uint8)


@functools.cache
def street(lower_px: float = LOWER_PX, frames: int = 16) -> tuple[Pair, ...]:
    scene = RoadSequence(width=320, height=160, max_disparity=30, rate_hz=5, frames=frames,
                         misalignment=Misalignment(vertical_offset_px=lower_px))
    return tuple(pair_of_street(scene, place) for place in range(frames))


def undone(tracker: RowTracker, pairs: tuple[Pair, ...] | list[Pair]) -> list[float]:
    """Rows that are undone in each pair, in its middle."""
    found = []
    for pair in pairs:
        correction = tracker.corrections(pair, CONFIGS)['own']
        middle = np.array([160.0]), np.array([80.0])
        found.append(0.0 if correction is None else float(correction.rows(*middle)[0]))
    return found


def without_stamps(pairs: tuple[Pair, ...]) -> Iterator[Pair]:
    return (dataclasses.replace(pair, stamp_ns=None) for pair in pairs)


def test_rows_of_a_sequence_are_undone_within_two_seconds_and_stay_so() -> None:
    found = undone(RowTracker(), street())
    assert found[0] == 0
    assert found[10] == pytest.approx(LOWER_PX, abs=0.1)
    assert np.ptp(found[10:]) < 0.1
    assert undone(RowTracker(), street(0.0)) == [0.0] * 16


def test_a_pair_without_a_stamp_is_left_as_it_is_unless_it_is_asked_for() -> None:
    pairs = list(without_stamps(street()[:3]))
    assert undone(RowTracker(), pairs) == [0, 0, 0]
    assert undone(RowTracker(['other']), pairs) == [0, 0, 0]
    assert undone(RowTracker(['own']), pairs) == pytest.approx([LOWER_PX] * 3, abs=0.1)
    assert undone(RowTracker(['own']), list(without_stamps(street(0.0)[:3]))) == [0, 0, 0]


@pytest.mark.parametrize(('terms', 'words'), [
    ((0, 0, 0, 0, 4), 'pitch +1.00 px at the upper and lower edges'),
    ((0, 0, 0, 2, 0), 'keystone +0.50 px in the corners'),
    ((-0.5, 0, 0, 0, 0), '0.50 px higher'), ((0, 0, 0, 0, 0), 'not moved')])
def test_every_term_is_told_by_what_it_does_in_the_image(terms: tuple[float, ...], words: str
                                                         ) -> None:
    assert rows.describe(RowCorrection(terms, 320.0, 160.0, 160.0)) == words


@pytest.mark.parametrize('change', ['a gap', 'a jump back', 'another size'])
def test_what_does_not_follow_starts_over(change: str) -> None:
    *pairs, last = street()
    pair = {'a gap': dataclasses.replace(last, stamp_ns=(pairs[-1].stamp_ns or 0)
                                         + rows.FOLLOWS_NS + 1),
            'a jump back': pairs[0],
            'another size': dataclasses.replace(last, left=SMALLER, right=SMALLER)}[change]
    tracker = RowTracker()
    assert undone(tracker, pairs)[-1] > 1
    assert undone(tracker, [pair]) == [0]
    assert tracker.known['own'].begins


def test_pairs_are_measured_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    measure = rows.measure_rows

    def counted(pair: Pair, config: MatcherConfig) -> np.ndarray:
        measured.append(pair.name)
        return measure(pair, config)

    monkeypatch.setattr(rows, 'measure_rows', counted)
    tracker = RowTracker()
    for pair in street():
        tracker.corrections(pair, {'own': CONFIG, 'same': CONFIG.replace(levels=3),
                                   'off': CONFIG.replace(row_correction='off')})
    assert len(measured) <= 6
    assert measured[:2] == ['000000', '000001']


def test_a_matcher_that_undoes_rows_has_fewer_wrong_pixels_and_says_what_it_undoes() -> None:
    pytest.importorskip('numba')
    off = CONFIG.replace(row_correction='off')
    pairs = list(without_stamps(street()[:1]))
    with Evaluation({'own': CONFIG, 'off': off},
                    method=Method(1, alone=('own',))) as evaluation:
        result = evaluation.judge(pairs[0]).result
    own, other = result.matchers['own'], result.matchers['off']
    assert own.row_correction_px == pytest.approx(LOWER_PX, abs=0.15)
    assert other.row_correction_px is None
    assert own.frame.whole.filled.bad_known(3) < 0.7 * other.frame.whole.filled.bad_known(3)


def test_grey_values_are_those_of_an_image_whose_rows_match() -> None:
    lower, = without_stamps(street()[:1])
    correction = RowTracker(['own']).corrections(lower, CONFIGS)['own']
    assert isinstance(lower.right, np.ndarray)
    right = street(0.0)[0].right
    assert isinstance(right, np.ndarray)
    difference = [np.abs(image[20:140, 20:300].astype(float) - right[20:140, 20:300]).mean()
                  for image in (undo_rows(lower.right, correction), lower.right)]
    assert difference[0] < 0.4 * difference[1]
    assert undo_rows(right, None) is right


def test_another_input_begins_anew_although_its_stamps_go_on() -> None:
    pytest.importorskip('numba')
    first, *others = street()[:3]
    with Evaluation({'own': CONFIG}, method=Method(1)) as evaluation:
        begins = [evaluation.judge(dataclasses.replace(pair, input=name)).result.matchers[
            'own'].rows.begins for pair, name in zip((first, *others), 'aab', strict=True)]
    assert begins == [True, False, True]
