"""Filling before scoring: the rule of the product's own filling, over the whole picture."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.evaluation.filling import fill_background

nan = np.nan
maps = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=7),
                  elements=st.one_of(st.floats(-5, 70, width=32), st.just(np.float32(nan))))


def naive(disparity):
    """The definition, pixel by pixel."""
    def line(values):
        known = [x for x, value in enumerate(values) if np.isfinite(value)]
        result = list(values)
        for x, value in enumerate(values):
            if not np.isfinite(value):
                places = [k for k in known if k < x][-1:] + [k for k in known if k > x][:1]
                result[x] = min([values[k] for k in places], default=nan)
        return result
    rows = np.array([line(row) for row in disparity], np.float32)
    return np.array([line(column) for column in rows.T], np.float32).T


def test_holes_get_the_smaller_neighbour_of_their_row_and_empty_rows_that_of_their_column():
    disparity = np.array([[nan, 5, nan, nan, 3, nan], [nan, 2, nan, 9, 1, 1]], np.float32)
    assert fill_background(disparity).tolist() == [[5, 5, 3, 3, 3, 3], [2, 2, 2, 9, 1, 1]]
    disparity = np.array([[nan, nan], [4, 6], [nan, nan], [5, 1], [nan, nan]], np.float32)
    assert fill_background(disparity).tolist() == [[4, 6], [4, 6], [4, 1], [5, 1], [5, 1]]
    # What is not valid counts as a hole, whatever its value.
    disparity = np.array([[-1, 5, np.inf, 7]], np.float32)
    assert fill_background(disparity, disparity == 5).tolist() == [[5, 5, 5, 5]]
    assert np.isnan(fill_background(disparity, disparity == 99)).all()
    with pytest.raises(ValueError, match='cannot be filled'):
        fill_background(np.zeros((2, 3), np.float32), np.zeros((3, 2), bool))


@given(maps)
def test_filling_is_the_naive_definition(disparity):
    filled = fill_background(disparity)
    assert filled.dtype == np.float32
    np.testing.assert_array_equal(filled, naive(disparity))


def test_inside_the_valid_window_it_is_what_the_product_itself_fills(textured_pair):
    pytest.importorskip('numba')
    left, right = textured_pair(120, 60, 6)
    left[20:40, 60:90] = 128                # matches nothing: holes
    config = MatcherConfig(disparity_range=16, levels=3, iterations=4, disp12_max_diff=1,
                           texture_threshold=1000, backend='cpu')
    with StereoMatcher(config) as matcher:
        open_ = matcher.compute(left, right)
        matcher.reconfigure(config.replace(filling='background'))
        closed = matcher.compute(left, right)
    window = open_.valid_window.slices
    assert not open_.valid[window].all()
    np.testing.assert_array_equal(fill_background(open_.disparity, open_.valid)[window],
                                  closed.disparity[window])
