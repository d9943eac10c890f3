"""Scores against figures that can be counted by hand."""

import json
import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stereo_bp_ros.evaluation.metrics import THRESHOLDS, Score, score
from test.cases import every

TRUTH = np.array([[10.0, 10.0, 10.0, 10.0], [20.0, 20.0, np.nan, np.inf]], np.float32)
ESTIMATE = np.array([[10.0, 11.0, 11.5, 14.0], [20.0, -1.0, 5.0, 5.0]], np.float32)
VALID = ESTIMATE >= 0

maps = hnp.arrays(np.float32, (4, 5), elements=st.one_of(
    st.floats(-5, 70, width=32), st.sampled_from([float('nan'), float('inf')])))
masks = hnp.arrays(np.bool_, (4, 5))


def test_a_pixel_is_bad_only_where_its_error_exceeds_the_threshold_and_its_truth_is_known():
    result = score(ESTIMATE, TRUTH, VALID)
    assert result.bad == (3, 2, 1, 1, 0)
    assert (result.known, result.estimated, result.pixels, result.matched) == (6, 5, 8, 7)
    # Holes count as bad only over all known pixels.
    assert result.bad_estimated(1.0) == pytest.approx(100 * 2 / 5)
    assert result.bad_all(1.0) == pytest.approx(100 * 3 / 6)
    assert result.density == pytest.approx(100 * 5 / 6)
    assert result.coverage == pytest.approx(100 * 7 / 8)
    assert result.mae == pytest.approx((1 + 1.5 + 4) / 5)
    assert result.rms == pytest.approx(math.sqrt((1 + 1.5 ** 2 + 16) / 5))
    # An estimate that is not finite is a hole without a mask, too.
    estimate = np.where(VALID, ESTIMATE, np.nan)
    assert score(estimate, TRUTH) == result
    assert json.loads(json.dumps(result.as_dict()))['bad_1_all'] == 50.0


def test_an_outlier_exceeds_3_pixels_and_5_per_cent_of_the_truth():
    # Errors of 3.5 and 3 pixels at 10, of 3.5 and 5.5 at 100, which is less and more than 5 %.
    truth = np.array([[10, 10, 100, 100, 100, np.nan]], np.float32)
    estimate = np.array([[13.5, 13, 96.5, 105.5, -1, 7]], np.float32)
    result = score(estimate, truth, estimate >= 0)
    assert result.outliers == 2
    assert result.d1_estimated == pytest.approx(100 * 2 / 4)
    assert result.d1_all == pytest.approx(100 * 3 / 5)
    zero = np.zeros((1, 2), np.float32)
    assert score(np.array([[2.9, 3.1]], np.float32), zero).outliers == 1


@pytest.mark.parametrize('kind', [bool, np.uint8])
def test_only_pixels_of_the_mask_are_looked_at(kind):
    result = score(ESTIMATE, TRUTH, VALID, mask=(7 * (TRUTH == 20)).astype(kind))
    assert (result.pixels, result.known, result.estimated) == (2, 2, 1)


def test_nothing_to_judge_gives_no_value_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        unknown = score(ESTIMATE, np.full_like(TRUTH, np.nan), VALID)
        empty = score(np.empty((0, 0), np.float32), np.empty((0, 0), np.float32))
    for result in (unknown, empty, Score()):
        assert every(math.isnan(value) for value in (
            result.mae, result.rms, result.bad_estimated(1.0), result.bad_all(1.0),
            result.density))
    assert unknown.coverage == pytest.approx(100 * 7 / 8)
    assert json.loads(json.dumps(Score().as_dict(), allow_nan=False))['mae'] is None


@given(maps, maps, masks)
def test_the_scores_of_two_halves_add_up_to_the_score_of_the_whole(disparity, truth, mask):
    whole = score(disparity, truth)
    parts = score(disparity, truth, mask=mask) + score(disparity, truth, mask=~mask)
    assert (parts.pixels, parts.known, parts.estimated, parts.bad, parts.outliers) == (
        whole.pixels, whole.known, whole.estimated, whole.bad, whole.outliers)
    assert parts.absolute_error == pytest.approx(whole.absolute_error)
    assert parts.squared_error == pytest.approx(whole.squared_error)


@pytest.mark.parametrize('name', ['truth', 'valid', 'mask'])
def test_what_does_not_fit_together_is_refused_by_name(name):
    arguments = {'disparity': ESTIMATE, 'truth': TRUTH, name: np.ones((2, 3), np.float32)}
    with pytest.raises(ValueError, match=name):
        score(**arguments)
    with pytest.raises(KeyError, match=r'2\.5'):
        score(ESTIMATE, TRUTH).bad_all(2.5)
    with pytest.raises(ValueError, match='thresholds'):
        score(ESTIMATE, TRUTH, thresholds=(1.0,)) + score(ESTIMATE, TRUTH)


def test_the_page_of_metrics_has_every_key(repository):
    page = (repository / 'docs/reference/metrics.md').read_text()
    keys = {re.sub(r'^bad_[\d.]+', 'bad_N', key) for key in Score().as_dict()}
    assert [key for key in keys if f'`{key}`' not in page] == []
    assert 'N = ' + ', '.join(f'{value:g}' for value in THRESHOLDS) in page
