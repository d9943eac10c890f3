"""Pairs judged one after another: what one has to do with the next."""

import dataclasses

import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.evaluation import rows, runs
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.evaluation.sources import Pair

CONFIG = MatcherConfig(backend='cpu', disparity_range=16, levels=3, iterations=4)


@pytest.fixture
def pairs(textured_pair):
    """Three pairs of a sequence; a block of the second is so bright that it is wrong there."""
    pytest.importorskip('numba')
    left, right = textured_pair(96, 48, 6)
    changed = right.copy()
    changed[16:32, 40:60] = np.random.default_rng(5).integers(0, 255, (16, 20))
    return [Pair(str(index), left, image, stamp_ns=10**18 + index * 10**8)
            for index, image in enumerate((right, changed, right))]


def judged(evaluation, pairs):
    return [{name: one.frame.consistency for name, one in
             evaluation.judge(pair).result.matchers.items()} for pair in pairs]


@pytest.fixture
def evaluation():
    with Evaluation({'bp': CONFIG}, ['sgbm'], Method(1, consistency=True)) as found:
        yield found


def test_a_pair_is_compared_with_the_one_before(evaluation, pairs):
    found = judged(evaluation, [pairs[0], pairs[2], pairs[1]])
    for name in ('bp', 'sgbm'):
        first, same, changed = (one[name] for one in found)
        assert (first.followed, first.static) == (0, 0)
        assert same.static > 0.8 * 48 * 80
        assert same.flickering == 0
        # Where the right image has changed nothing is static.
        assert changed.static < same.static - 16 * 16


def test_a_part_of_a_sequence_has_the_figures_of_the_whole_one(evaluation, pairs):
    whole = judged(evaluation, pairs)
    evaluation.follow(pairs[1])
    assert judged(evaluation, pairs[2:]) == whole[2:]
    evaluation.follow(None)
    assert judged(evaluation, pairs[2:])[0]['bp'].followed == 0
    assert whole[2]['bp'].followed > 0


def test_figures_without_a_truth_cost_nothing_unless_they_are_asked_for(pairs, monkeypatch):
    monkeypatch.setattr(runs, 'judge_consistency', None)
    with Evaluation({'bp': CONFIG}, ['bm'], Method(1)) as evaluation:
        assert judged(evaluation, pairs[:1]) == [{'bp': None, 'bm': None}]


def test_pairs_of_no_sequence_or_another_size_do_not_follow_each_other(evaluation, pairs,
                                                                       textured_pair):
    larger = Pair('', *textured_pair(112, 48, 6), stamp_ns=pairs[1].stamp_ns)
    for other in (larger, *(dataclasses.replace(pairs[2], stamp_ns=stamp) for stamp in (
            None, 10**18, 10**18 + rows.FOLLOWS_NS + 1))):
        assert judged(evaluation, [pairs[0], other])[1]['bp'].followed == 0
