"""OpenCV's matchers as they are compared with."""

import cv2
import numpy as np
import pytest

from stereo_bp_ros import BackendUnavailable
from stereo_bp_ros.evaluation import baselines


@pytest.mark.parametrize('name', baselines.NAMES)
@pytest.mark.parametrize(('first', 'disparity'), [(-12, -7), (3, 17)])
def test_a_baseline_finds_the_disparity_in_the_same_range(textured_pair, name, first, disparity):
    left, right = textured_pair(160, 60, disparity)
    found, valid = baselines.Baseline(name, 16, first).compute(left, right)
    assert (found.dtype, valid.dtype) == (np.float32, np.bool_)
    assert valid[20:40, 60:100].mean() > 0.9
    assert np.median(found[valid]) == pytest.approx(disparity, abs=0.1)
    assert found[valid].min() >= first


def test_the_range_is_rounded_up_and_settings_are_what_the_matcher_has():
    for wanted, searched in ((2, 16), (16, 16), (17, 32)):
        assert baselines.Baseline('bm', wanted).settings['NumDisparities'] == searched
    baseline = baselines.Baseline('sgbm', 128)
    settings = baseline.settings
    assert (settings['P1'], settings['P2'], settings['BlockSize']) == (200, 800, 5)
    assert {key: getattr(baseline._matcher, f'get{key}')() for key in settings} == settings
    # The stronger mode differs in the mode alone.
    stronger = baselines.Baseline('sgbm_hh', 128).settings
    assert {key for key in settings if stronger[key] != settings[key]} == {'Mode'}
    assert stronger['Mode'] == cv2.STEREO_SGBM_MODE_HH


def test_what_opencv_cannot_do_is_said(monkeypatch):
    image = np.zeros((8, 40), np.uint8)
    with pytest.raises(ValueError, match='StereoBM does not match 40 x 8'):
        baselines.Baseline('bm', 16).compute(image, image)
    monkeypatch.delattr(cv2, 'StereoSGBM')
    with pytest.raises(BackendUnavailable, match='without StereoSGBM'):
        baselines.Baseline('sgbm', 16)


def test_threads_are_given_back():
    before = cv2.getNumThreads()
    with baselines.threads(1) as used:
        assert used == cv2.getNumThreads() == 1
    assert cv2.getNumThreads() == before
    with baselines.threads(0) as used:
        assert used == before
