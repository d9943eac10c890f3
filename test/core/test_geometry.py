"""Sizes, windows and the memory plan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.geometry import ALIGNMENT, MemoryPlan, pyramid, valid_window
from stereo_bp_ros.errors import MemoryLimitError


def test_each_level_has_half_the_nodes_rounded_up():
    assert pyramid(17, 10, 4) == [(17, 10), (9, 5), (5, 3), (3, 2)]


@given(width=st.integers(1, 40), height=st.integers(1, 40), first=st.integers(-30, 30),
       count=st.integers(2, 30), algorithm=st.sampled_from(['bp', 'tiled_bp', 'sad']),
       window=st.sampled_from([1, 3, 9]), reference=st.sampled_from(['left', 'right']))
def test_the_valid_window_is_where_range_and_window_fit(width, height, first, count, algorithm,
                                                        window, reference):
    config = MatcherConfig(stereo_algorithm=algorithm, min_disparity=first,
                           disparity_range=count, correlation_window_size=window,
                           reference_image=reference)
    margin = {'bp': 1, 'tiled_bp': 0, 'sad': window // 2}[algorithm]
    inside = np.zeros((height, width), bool)
    sign = -1 if reference == 'left' else 1
    for y in range(height):
        for x in range(width):
            partners = [x + sign * d for d in (first, first + count - 1)]
            if algorithm == 'bp':
                fits = all(0 <= p < width for p in partners) and margin <= x < width - margin
            else:
                fits = all(margin <= p < width - margin for p in (x, *partners))
            inside[y, x] = fits and margin <= y < height - margin
    expected = np.zeros_like(inside)
    expected[valid_window(config, width, height).slices] = True
    assert np.array_equal(inside, expected)


@given(width=st.integers(1, 40), height=st.integers(1, 9), first=st.integers(-50, 50),
       count=st.integers(2, 30), reference=st.sampled_from(['left', 'right']))
def test_with_combined_costs_the_valid_window_is_where_one_partner_exists(width, height, first,
                                                                          count, reference):
    config = MatcherConfig(census_weight=1.0, min_disparity=first, disparity_range=count,
                           reference_image=reference)
    sign = -1 if reference == 'left' else 1
    inside = np.zeros((height, width), bool)
    for x in range(1, width - 1):
        inside[1:-1, x] = any(0 <= x + sign * (first + d) < width for d in range(count))
    expected = np.zeros_like(inside)
    expected[valid_window(config, width, height).slices] = True
    assert np.array_equal(inside, expected)


def test_arrays_of_a_plan_are_aligned_and_do_not_overlap():
    plan = MemoryPlan.lay_out([('a', (3, 5), 'u1'), ('b', (7,), 'f4'), ('c', (2, 2), 'i2')])
    assert [a.offset % ALIGNMENT for a in plan.arrays] == [0, 0, 0]
    assert [a.nbytes for a in plan.arrays] == [15, 28, 8]
    for before, after in zip(plan.arrays, plan.arrays[1:], strict=False):
        assert before.offset + before.nbytes <= after.offset
    assert plan.total >= plan.arrays[-1].offset + plan.arrays[-1].nbytes


def test_a_plan_above_the_limit_says_how_much_is_needed():
    plan = MemoryPlan.lay_out([('a', (1000,), 'f8')])
    plan.check(plan.total)
    with pytest.raises(MemoryLimitError) as error:
        plan.check(plan.total - 1)
    assert (error.value.needed, error.value.allowed) == (plan.total, plan.total - 1)
