"""Rows of pairs that are evaluated: undone along a sequence, or by one pair, by every matcher."""

from __future__ import annotations

import dataclasses
import functools

import pytest

pytest.importorskip('numba')
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.sources.pairs import Pair, pair_of_street
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import RoadSequence

CONFIG = MatcherConfig(backend='cpu', stereo_algorithm='sad', disparity_range=32,
                       row_correction='correct')
LOWER_PX = 1.5


@functools.cache
def street(lower_px: float = LOWER_PX, frames: int = 8) -> tuple[Pair, ...]:
    scene = RoadSequence(width=320, height=160, max_disparity=30, rate_hz=5, frames=frames,
                         misalignment=Misalignment(vertical_offset_px=lower_px))
    return tuple(pair_of_street(scene, place) for place in range(frames))


def undone(*pairs: Pair, config: MatcherConfig = CONFIG) -> list[float | None]:
    """Rows that are undone in each pair, anywhere at most."""
    with Evaluation({'own': config}, method=Method(1)) as evaluation:
        return [evaluation.judge(pair).result.matchers['own'].row_correction_px for pair in pairs]


def test_rows_of_a_sequence_are_undone_from_its_first_pair_on() -> None:
    assert undone(*street()) == pytest.approx([LOWER_PX] * 8, abs=0.15)
    assert undone(*street(0.0)) == [0.0] * 8
    assert undone(*street()[:2], config=CONFIG.replace(row_correction='measure')) == [None] * 2


def test_a_pair_without_a_stamp_is_measured_by_itself() -> None:
    lower, right = (dataclasses.replace(street(rows)[0], stamp_ns=None)
                    for rows in (LOWER_PX, 0.0))
    found = undone(lower, right, lower)
    assert found == [pytest.approx(LOWER_PX, abs=0.15), 0.0, found[0]]


def test_a_new_input_begins_anew() -> None:
    moved, right = street()[:4], street(0.0)[4:]
    assert undone(*moved, *right)[4] == pytest.approx(LOWER_PX, abs=0.15)
    other = [dataclasses.replace(pair, input='other') for pair in right]
    assert undone(*moved, *other)[4:] == [0.0] * 4


def test_a_matcher_that_undoes_rows_has_fewer_wrong_pixels_and_says_what_it_undoes() -> None:
    off = CONFIG.replace(row_correction='off')
    with Evaluation({'own': CONFIG, 'off': off}, method=Method(1)) as evaluation:
        result = evaluation.judge(street()[0]).result
    own, other = result.matchers['own'], result.matchers['off']
    assert own.row_correction_px == pytest.approx(LOWER_PX, abs=0.15)
    assert other.row_correction_px is None
    assert own.frame.whole.filled.bad_all(3) < 0.7 * other.frame.whole.filled.bad_all(3)
