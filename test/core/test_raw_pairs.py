"""StereoMatcher with raw pairs: what their rectification must be, and what it says."""

from __future__ import annotations

import dataclasses

import pytest

from stereo_bp_ros import (
    Calibration,
    ConfigError,
    InputError,
    MatcherConfig,
    Rectification,
    StereoMatcher,
)
from test.raw_cameras import camera_info, rectification

SMALL = MatcherConfig(disparity_range=16, levels=3, iterations=4, backend='cpu')


def test_raw_images_need_a_rectification_and_it_needs_the_setting(textured_pair):
    left, right = textured_pair(97, 61, 5)
    found = rectification()
    with StereoMatcher(SMALL.replace(rectify=True)) as matcher:
        with pytest.raises(InputError, match='no rectification was given; the setting rectify'):
            matcher.compute(left, right)
        assert matcher.submit(left, right, rectification=found).result().disparity is not None
    with StereoMatcher(SMALL) as matcher, pytest.raises(ConfigError, match='rectify is False'):
        matcher.compute(left, right, rectification=found)


def test_a_rectification_of_other_sizes_is_refused_naming_both(textured_pair):
    with StereoMatcher(SMALL.replace(rectify=True)) as matcher:
        with pytest.raises(InputError, match='images are 96 x 61; the rectification has 97 x 61'):
            matcher.compute(*textured_pair(96, 61, 5), rectification=rectification())
        small = dataclasses.replace(rectification(), rectified_width=48, rectified_height=30)
        with pytest.raises(InputError, match=r'rectified images are 97 x 61; .* has 48 x 30'):
            matcher.compute(*textured_pair(97, 61, 5), rectification=small)


def test_a_rectification_shifts_disparities_as_its_calibration_does(textured_pair):
    pair = textured_pair(97, 61, 5)
    shifted = Rectification.from_camera_info(
        camera_info(), camera_info('right', p=(80, 0, 43.0, -16, 0, 80, 30, 0, 0, 0, 1, 0)))
    with StereoMatcher(SMALL.replace(rectify=True)) as matcher:
        frame = matcher.compute(*pair, rectification=shifted)
        given = Calibration(80, 0.2, 46, 44, 30)
        other = matcher.compute(*pair, rectification=shifted, calibration=given)
    assert (frame.min_disparity, other.min_disparity) == (-3, -2)
