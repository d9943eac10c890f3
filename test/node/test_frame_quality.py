"""How much of a frame was measured, and how near and far its settings reach."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import StereoMatcher, geometry
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation.scenes.plane import SlantedPlane
from stereo_bp_ros.node.diagnostics.quality import PILED_UP, FrameQuality, frame_quality
from stereo_bp_ros.types import OUTPUTS, DisparityFrame

CAMERA = Calibration(focal_px=700.0, baseline_m=0.12, cx_left=320.0, cx_right=320.0, cy=240.0)
W, H = 160, 96


def make_frame(config: MatcherConfig, values: np.ndarray | float, output: str = 'disparity',
               calibration: Calibration = CAMERA) -> DisparityFrame:
    """A frame of which every pixel of the window has a value, or one of a row of values."""
    shift = calibration.shift if config.pre_adjust_disparity else 0.0
    arrays: dict[str, Any] = {'disparity': None, 'depth': None,
                              output: np.broadcast_to(
                                  np.asarray(values, OUTPUTS[output].dtype), (H, W)).copy()}
    return DisparityFrame(
        **arrays, confidence=None, min_disparity=config.min_disparity - shift,
        max_disparity=config.min_disparity + config.disparity_range - 1 - shift,
        delta_d=geometry.disparity_step(config),
        valid_window=geometry.valid_window(config, W, H), timings={}, backend='cpu')


def judged(config: MatcherConfig, values: np.ndarray | float, output: str = 'disparity',
           calibration: Calibration = CAMERA) -> FrameQuality:
    found = frame_quality(make_frame(config, values, output, calibration), config, calibration)
    assert found is not None
    return found


@pytest.mark.parametrize(('settings', 'nearest', 'farthest'), [
    ({'subpixel': False}, 84 / 63, 84.0),
    ({'subpixel': True}, 84 / 63, 84.0 * 16),
    ({'min_disparity': 4}, 84 / 67, 21.0),
    ({'subpixel': False, 'min_disparity': -10}, 84 / 53, 84.0),
    ({'subpixel': False, 'min_disparity': -80}, math.inf, 84.0)])
def test_the_depths_that_can_be_measured_follow_from_camera_and_range(
        settings: dict[str, Any], nearest: float, farthest: float) -> None:
    config = MatcherConfig(disparity_range=64, **settings)
    found = judged(config, float(config.min_disparity))
    assert found.nearest == pytest.approx(nearest)
    assert found.farthest == pytest.approx(farthest)


@pytest.mark.parametrize('adjusted', [True, False])
def test_principal_points_that_differ_shift_the_depths_that_can_be_measured(adjusted: bool
                                                                            ) -> None:
    camera = Calibration(700.0, 0.12, 310.0, 340.5, 240.0)         # shift of -30.5 pixels
    config = MatcherConfig(disparity_range=64, pre_adjust_disparity=adjusted)
    last = 63 + 30.5
    for output, value in (('disparity', last if adjusted else 63.0), ('depth', 84 / last)):
        found = judged(config, value, output, camera)
        assert found.nearest == pytest.approx(84 / last)
        assert found.farthest == pytest.approx(84 / 30.5)
        assert found.last_label == 1.0


@pytest.mark.parametrize('output', ['disparity', 'depth', 'depth_mm'])
def test_the_last_label_and_missing_pixels_are_counted_in_either_output(output: str) -> None:
    config = MatcherConfig(disparity_range=16, subpixel=True)
    disparities = np.full(W, 10.0)
    disparities[60:70] = 14.4                   # less than half a label below the last: no
    disparities[70:80] = 14.6
    disparities[80:90] = 15.0
    disparities[90:100] = -1.0                  # invalid
    depths = 84 / np.maximum(disparities, 1)
    values = {'disparity': disparities, 'depth': np.where(disparities < 0, np.nan, depths),
              'depth_mm': np.where(disparities < 0, 0, np.floor(1000 * depths + 0.5))}[output]
    found = judged(config, values, output)
    width = geometry.valid_window(config, W, H).width
    assert found.valid == pytest.approx((width - 10) / width)
    assert found.last_label == pytest.approx(20 / (width - 10))


def test_a_pile_of_pixels_at_the_last_label_says_what_to_do() -> None:
    well = FrameQuality(0.9, PILED_UP, 1.5, 84.0)
    assert well.warnings(0.05) == []
    text, = FrameQuality(0.9, 0.031, 1.5, 84.0).warnings(0.05)
    assert '3.1 %' in text
    assert '1.50 m' in text
    assert 'raise disparity_range' in text


def test_few_pixels_and_an_empty_window_are_told() -> None:
    text, = FrameQuality(0.02, 0.0, 1.5, 84.0).warnings(0.05)
    assert 'only 2.0 % of the pixels have a disparity (min_valid_fraction 5 %)' in text
    narrow = judged(MatcherConfig(disparity_range=256), 0.0)
    assert narrow.valid is None
    text, = narrow.warnings(0.05)
    assert 'too narrow for disparity_range' in text


def test_a_frame_of_other_outputs_is_not_judged() -> None:
    config = MatcherConfig(disparity_range=16)
    frame = dataclasses.replace(make_frame(config, 1.0), disparity=None)
    assert frame_quality(frame, config, CAMERA) is None


@pytest.mark.parametrize('preset', ['sad_fast', 'road_fast', 'indoor'])
def test_a_real_matcher_piles_up_only_where_the_range_is_too_small(preset: str) -> None:
    pytest.importorskip('numba')
    scene = SlantedPlane(width=320, height=120, disparity=20, slope_x=0, slope_y=0.1).frame(0)
    for disparities, piled in ((40, False), (20, True)):
        config = MatcherConfig.preset(preset, disparity_range=disparities, backend='cpu')
        with StereoMatcher(config) as matcher:
            found = frame_quality(matcher.compute(scene.left, scene.right), config, CAMERA)
        assert found is not None
        assert (found.last_label > PILED_UP) == piled, found
