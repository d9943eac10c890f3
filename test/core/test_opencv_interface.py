"""The matcher with the interface of ``cv2.StereoMatcher``."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from stereo_bp_ros import ConfigError, StereoMatcher
from stereo_bp_ros.matcher.opencv_interface import SETTINGS, UNMAPPED


@pytest.fixture
def matcher():
    with StereoMatcher(backend='cpu', disparity_range=16, levels=3, iterations=4) as made:
        yield made


def test_disparities_are_sixteenths_as_those_of_opencv(matcher, textured_pair):
    pair = textured_pair(80, 40, 7)
    adapter = matcher.as_opencv()
    found = adapter.compute(*pair)
    frame = matcher.compute(*pair)
    assert found.dtype == np.int16
    assert np.array_equal(found[frame.valid], np.rint(16 * frame.disparity[frame.valid]))
    assert (found[~frame.valid] == -16).all()
    own = np.empty((40, 80), np.int16)
    assert adapter.compute(*pair, own) is own
    assert np.array_equal(own, found)
    sgbm = cv2.StereoSGBM_create(numDisparities=16, blockSize=5)
    theirs = sgbm.compute(*pair)
    both = (theirs >= 0) & frame.valid
    assert (np.abs(theirs[both] - found[both]) <= 16).mean() > 0.95


def test_colours_are_in_the_order_of_opencv(matcher, textured_pair):
    bgr = [np.stack([image, image // 2, image // 3], -1) for image in textured_pair(64, 32, 5)]
    wanted = matcher.compute(*bgr, encoding='bgr8', outputs=('fixed_disparity',)).fixed_disparity
    assert np.array_equal(matcher.as_opencv().compute(*bgr), wanted)


def test_setters_change_the_settings_of_the_next_pair(matcher, textured_pair):
    adapter = matcher.as_opencv()
    adapter.setNumDisparities(8)
    adapter.setSpeckleWindowSize(50)
    adapter.setDisp12MaxDiff(-1)
    assert (adapter.getNumDisparities(), adapter.getSpeckleWindowSize()) == (8, 50)
    assert matcher.config.disparity_range == 16
    adapter.compute(*textured_pair(64, 32, 5))
    assert (matcher.config.disparity_range, matcher.config.disp12_max_diff) == (8, 0)
    with pytest.raises(ConfigError, match='disparity_range is 0'):
        adapter.setNumDisparities(0)


def test_every_name_of_opencv_is_mapped_or_says_what_to_set(matcher):
    adapter = matcher.as_opencv()
    names = {name for kind in (cv2.StereoMatcher, cv2.StereoBM, cv2.StereoSGBM)
             for name in dir(kind) if name[:3] in ('get', 'set')} - {'getDefaultName'}
    assert {name[3:] for name in names} <= SETTINGS.keys() | UNMAPPED.keys()
    for name in sorted(names):
        if name[3:] in UNMAPPED:
            with pytest.raises(AttributeError, match=r'no equivalent here: \w+'):
                getattr(adapter, name)
    with pytest.raises(AttributeError, match='no window to match'):
        adapter.setBlockSize(5)
    with StereoMatcher(stereo_algorithm='sad', backend='cpu', border='invalid') as sad:
        assert sad.as_opencv().getBlockSize() == 15
    with pytest.raises(AttributeError, match='has no getNothing'):
        adapter.getNothing()
    assert 'setMinDisparity' in dir(adapter)


def test_the_page_has_every_name(repository):
    page = (repository / 'docs/howto/opencv.md').read_text()
    assert [name for name in (*SETTINGS, *SETTINGS.values(), *UNMAPPED)
            if f'`{name}`' not in page] == []


@pytest.mark.skipif(not hasattr(cv2, 'ximgproc'), reason='this OpenCV has no ximgproc')
def test_opencvs_right_matcher_takes_none(matcher):
    with pytest.raises(cv2.error):
        cv2.ximgproc.createRightMatcher(matcher.as_opencv())
