"""Errors in metres against figures computed by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stereo_bp_ros import Calibration
from stereo_bp_ros.evaluation import depth_errors, frame_scores, regions
from stereo_bp_ros.evaluation.depth_errors import ERRORS, DepthError, DepthErrorMap

nan, inf = np.nan, np.inf
CALIBRATION = Calibration(200, 0.5, 60, 60, 24)         # 100 metres over a pixel
TRUTH = np.array([[10, 10, 20, 20, nan, 5, 0]], np.float32)     # 10, 10, 5, 5, -, 20, inf m
MAP = np.array([[12.5, 10, 10, -1, 7, 4, 3]], np.float32)       # 8, 10, 10, -, -, 25, - m


def compared(disparity=MAP, truth=TRUTH, calibration=CALIBRATION):
    return depth_errors.compare(disparity, disparity >= 0, truth, calibration)


def test_the_error_is_a_difference_of_distances_up_to_the_farthest():
    found = compared().part()
    assert found.compared == 4
    assert found.mean_m == pytest.approx((2 + 0 + 5 + 5) / 4)
    assert found.relative_mean == pytest.approx(100 * (0.2 + 0 + 1 + 0.25) / 4)
    assert found.percentile_m(100) == pytest.approx(5, rel=0.075)
    assert found.percentile_m(50) == pytest.approx(2, rel=0.075)
    found = compared(np.array([[0, 0.05, 0.5]], np.float32), np.full((1, 3), 10, np.float32))
    assert found.error.tolist() == [990, 990, 190]
    found = compared(np.array([[1, 1]], np.float32), np.array([[0.09, 0.11]], np.float32))
    assert found.compared.tolist() == [[False, True]]


def test_the_error_of_a_bin_is_that_of_its_pixels():
    frame = frame_scores.score_frame(MAP, MAP >= 0, TRUTH, calibration=CALIBRATION,
                                     regions=regions.find_regions(TRUTH, None, CALIBRATION))
    found = {name: one.depth for name, one in frame.regions.items() if one.depth.compared}
    assert found['8_16_m'].mean_m == pytest.approx(1)
    assert found['4_8_m'].relative_mean == pytest.approx(100)
    assert found['16_32_m'].as_dict()['mean_m'] == pytest.approx(5)
    assert '64_inf_m' not in found
    assert frame.as_dict()['depth']['compared'] == 4
    assert (frame + frame).regions['8_16_m'].depth.compared == 4
    assert (frame + frame).whole.depth.mean_m == pytest.approx(3)


def test_nothing_to_compare_gives_no_value():
    found = compared(truth=np.full_like(TRUTH, nan)).part()
    assert found == DepthError()
    assert set(found.as_dict().values()) == {0, None}
    assert frame_scores.score_frame(MAP, MAP >= 0, TRUTH).whole.depth is None
    known = compared().part()
    assert known + found == known


@given(st.lists(st.floats(0.002, 900), min_size=1, max_size=40), st.sampled_from([10, 50, 90]))
def test_a_percentile_is_at_most_a_bin_from_the_exact_one(values, share):
    errors = np.array(values)
    found = DepthErrorMap(np.ones(errors.size, bool), errors, errors,
                          np.digitize(errors, ERRORS[1:-1])).part()
    exact = np.percentile(values, share, method='inverted_cdf')
    assert found.percentile_m(share) == pytest.approx(exact, rel=0.075)


def test_errors_outside_of_the_bins_count_in_the_first_and_the_last():
    assert DepthError(4, counts=(2, *[0] * 190, 2)).percentile_m(50) == pytest.approx(ERRORS[1])
    exact = compared(MAP, np.where(MAP > 0, MAP, nan).astype(np.float32)).part()
    assert exact.counts[0] == exact.compared > 0
    far = compared(np.full((1, 3), 1e-9, np.float32), np.full((1, 3), 5, np.float32)).part()
    assert far.counts[-1] == 3
    assert math.isnan(DepthError().percentile_m(50))


def test_the_page_of_metrics_has_every_key(repository):
    page = (repository / 'docs/reference/metrics.md').read_text()
    assert depth_errors.MEANINGS.keys() == DepthError().as_dict().keys()
    assert [key for key in depth_errors.MEANINGS if f'`{key}`' not in page] == []
    assert f'{(ERRORS.size - 1) // 6} bins a decade' in page
