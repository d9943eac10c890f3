"""The plain definitions of combined costs on arrays small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from stereo_bp_ros import ConfigError, MatcherConfig
from stereo_bp_ros.config import quantisation
from test.engines.support import naive_bp, naive_costs


def test_a_pair_of_columns_by_hand():
    """|L - R| of grey values, weight 0.5, bound 8; the label beyond the image costs 20."""
    left = np.array([[10, 30]], np.uint8)
    right = np.array([[13, 70]], np.uint8)
    config = MatcherConfig(grey_weight=0.5, grey_bound=8, disparity_range=2, outside_cost=20)
    cost = naive_costs.combined_cost(left, right, config)
    # 0.5 * 3 rounded half up; 0.5 * 8, cut from 40; and 0.5 * 8, cut from 17.
    assert cost.tolist() == [[[2, 20], [4, 4]]]


def test_the_census_of_a_corner():
    grey = np.array([[5, 1], [7, 5]], np.uint8)
    bits = naive_costs.census(grey, '5x5')
    assert bits.shape == (2, 2, 24)
    # 5 at the upper left: of its window the 1 and its two replicas in each of three rows are less.
    assert bits[0, 0].sum() == 2 * 3
    assert bits[0, 1].sum() == 0


def test_path_sums_of_a_row_by_hand():
    cost = np.array([[[0, 9], [9, 0]]], np.uint8)
    config = MatcherConfig(grey_weight=1, path_sums=True, path_step_penalty=3,
                           path_jump_penalty=5, disparity_range=2)
    # From the left the second pixel has 9 + 0, 0 + 3; from the right the first 0 + 3, 9 + 0.
    # Each adds its own cost on the other three ways (a single row: above and below alike).
    first = np.array([3 * 0 + 3, 3 * 9 + 9])
    second = np.array([3 * 9 + 9, 3 * 0 + 3])
    want = [(v - v.min() + 2) // 4 for v in (first, second)]
    assert naive_costs.path_sums(cost, config)[0].tolist() == [v.tolist() for v in want]


def test_fractions_of_a_slope_by_hand():
    """All pixels alike: sums are 25 times as much, and the steeper side has the slope."""
    def fraction(*cost: int) -> list[list[int]]:
        volume = np.broadcast_to(np.array(cost, np.uint8), (2, 3, 3))
        return naive_costs.fractions(volume, np.ones((2, 3), np.int16)).tolist()

    # Lines of slope 8 through (-1, 6) and (1, 8) meet at -1/8: two sixteenths to the left.
    assert fraction(6, 0, 8) == [[-2] * 3] * 2
    assert fraction(8, 0, 6) == [[2] * 3] * 2
    assert fraction(5, 5, 9) == [[-8] * 3] * 2
    assert fraction(9, 5, 5) == [[8] * 3] * 2
    # 8 * 1 / 16 is half a sixteenth, which is rounded up.
    assert fraction(16, 0, 15) == [[1] * 3] * 2
    assert fraction(15, 0, 16) == [[0] * 3] * 2
    assert fraction(5, 5, 5) == fraction(4, 5, 9) == fraction(9, 5, 4) == [[0] * 3] * 2


def test_fractions_sum_up_a_window_with_replicated_borders():
    cost = np.zeros((1, 5, 3), np.uint8)
    cost[0, :, 0] = cost[0, :, 2] = 10
    cost[0, 0, 2] = 50
    # Windows of the first pixels have the 50 thrice, twice and once, five rows of each.
    expected = [int(np.floor(8 * (50 - sums) / sums + 0.5)) for sums in (170, 130, 90)]
    assert naive_costs.fractions(cost, np.ones((1, 5), int)).tolist() == [[*expected, 0, 0]]
    for label in (-1, 0, 2):
        assert not naive_costs.fractions(cost, np.full((1, 5), label)).any()


def test_no_message_can_tell_that_coarse_costs_are_cut():
    """Beyond four truncations above the least a label is never what a message or belief needs."""
    rng = np.random.default_rng(0)
    truncation, slope, first = 40, 12, 5
    cost = rng.integers(0, 1000, (200, 12))
    kept = np.minimum(cost - cost.min(-1, keepdims=True), 4 * truncation)
    arriving = rng.integers(0, truncation + 1, (200, 3, 12)).sum(1)
    assert np.array_equal(*(naive_costs.envelope(c + arriving, first, slope, truncation)
                            for c in (cost, kept)))


def test_the_envelope_with_a_first_step_of_the_slope_is_that_of_the_scans():
    h = np.random.default_rng(1).integers(0, 200, (50, 16))
    scanned = np.minimum(h, h.min(-1, keepdims=True) + 60)
    for label in range(1, 16):
        scanned[:, label] = np.minimum(scanned[:, label], scanned[:, label - 1] + 7)
    for label in reversed(range(15)):
        scanned[:, label] = np.minimum(scanned[:, label], scanned[:, label + 1] + 7)
    scanned -= h.min(-1, keepdims=True)
    assert np.array_equal(naive_costs.envelope(h, 7, 7, 60), scanned)


@pytest.mark.parametrize(('first_step', 'slope', 'truncation'), [
    (10, 20, 120), (0, 31, 250), (7, 7, 60), (1, 127, 90), (60, 200, 900)])
@pytest.mark.parametrize('disparities', [3, 16, 50])
def test_neighbouring_labels_of_a_message_differ_by_the_slope_at_most(
        first_step, slope, truncation, disparities):
    """So a first step needs no wider differences. The messages of BP are these envelopes."""
    h = np.random.default_rng(disparities).integers(0, 3 * truncation, (300, disparities))
    h[::2] //= 1 + truncation // slope
    sent = naive_costs.envelope(h, first_step, slope, truncation)
    assert np.abs(np.diff(sent)).max() <= slope
    assert np.abs(np.diff(sent)).max() > first_step or first_step == slope
    assert np.array_equal(naive_bp.message(h, slope, truncation, first_step), sent)


@pytest.mark.parametrize(('changes', 'says'), [
    ({'census_weight': 1.0, 'message_type': 'float32'}, 'needs stereo_algorithm bp'),
    ({'path_sums': True}, 'needs a weight above 0'),
    ({'discontinuity_first_step': 9.0}, 'at most discontinuity_slope'),
    ({'discontinuity_edge_threshold': 16}, 'needs a weight above 0'),
    ({'census_weight': 1.0, 'discontinuity_edge_threshold': 16,
      'discontinuity_edge_truncation': 6.5}, 'at most discontinuity_truncation'),
    ({'level_iterations': '3,x'}, 'whole numbers'),
    ({'level_iterations': '1,2,3', 'levels': 2}, 'at most levels'),
    ({'grey_weight': 1.0, 'path_sums': True, 'path_step_penalty': 9, 'path_jump_penalty': 5},
     'at most path_jump_penalty')])
def test_what_is_refused(changes, says):
    with pytest.raises(ConfigError, match=says):
        MatcherConfig(**changes)


def test_iterations_of_levels_repeat_the_last():
    assert MatcherConfig(levels=4, level_iterations='3, 5').iterations_of_levels == (3, 5, 5, 5)
    assert MatcherConfig(levels=2, iterations=6).iterations_of_levels == (6, 6)


def test_combined_costs_are_messages_as_they_are():
    config = MatcherConfig(census_weight=0.8, discontinuity_slope=20, discontinuity_truncation=120,
                           discontinuity_first_step=10)
    assert quantisation.message_smoothness(config) == (20, 120)
    assert quantisation.first_step(config) == 10
