"""Points in space on the CPU: against the definition, and against stereo_image_proc's formulas."""

from __future__ import annotations

import collections
import dataclasses
import types

import numpy as np
import pytest

from stereo_bp_ros import Calibration, MatcherConfig, StereoMatcher
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.outputs import Finished, fill
from stereo_bp_ros.errors import ConfigError, InputError
from stereo_bp_ros.images.raw_images import ENCODINGS, RawImage
from test.engines.support import naive_points as naive
from test.engines.support.pairs import noisy_pair, random_raw
from test.other_nodes import points_of_disparity

VERGED = Calibration(focal_px=300.0, baseline_m=0.2, cx_left=14.25, cx_right=17.5, cy=9.75,
                     focal_y_px=290.0)
PARALLEL = dataclasses.replace(VERGED, cx_right=14.25, focal_y_px=300.0)
LIVE = ({}, {'points_decimation': 2}, {'points_decimation': 7}, {'points_min_depth': 6.0},
        {'points_max_depth': 9.5}, {'points_min_depth': 5.0, 'points_max_depth': 10.0})


def check(raw, config, calibration):
    """Compare points of sixteenths, a fifth of them invalid, with those of the definition."""
    random = np.random.default_rng(0)
    sixteenths = random.integers(0, 300, (raw.height, raw.width)).astype(np.int16)
    sixteenths[random.random(sixteenths.shape) < 0.2] = -16
    arrays = {name: np.full(shape, 91, dtype)
              for name, shape, dtype in scratch.convert(raw.width, raw.height)}
    expected = naive.points(sixteenths, raw, config, calibration)
    found = np.full_like(expected, 77)
    fill(Finished(sixteenths, config.min_disparity, raw, config, calibration, arrays),
         {'points': found}, collections.defaultdict(float))
    same_bits(found, expected)
    return found


def same_bits(found, expected):
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize('reference', ['left', 'right'])
@pytest.mark.parametrize('live', LIVE, ids=str)
def test_points_have_the_bits_of_the_definition(live, reference):
    config = MatcherConfig(reference_image=reference, min_disparity=-2, **live)
    found = check(random_raw('bgr8', 34, 19), config, VERGED)
    assert 0 < np.isnan(found[:, :, 2]).sum() < found[:, :, 2].size


@pytest.mark.parametrize('big_endian', [False, True])
@pytest.mark.parametrize('encoding', ENCODINGS)
def test_points_of_every_encoding_have_its_colours_or_its_grey_values(encoding, big_endian):
    config = MatcherConfig(mono16_scale=1 / 200, points_decimation=2 if big_endian else 1)
    check(random_raw(encoding, 34, 19, big_endian=big_endian), config, PARALLEL)


@pytest.mark.parametrize('shape', [(1, 1), (1, 40), (40, 1), (3, 17)])
def test_images_of_any_size_have_points(shape):
    check(RawImage.from_array(np.zeros(shape, np.uint8)), MatcherConfig(points_decimation=2),
          PARALLEL)


def camera_info(cx, baseline=0.0):
    return types.SimpleNamespace(
        p=[420.0, 0.0, cx, -420.0 * baseline, 0.0, 205.0, 36.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        binning_x=2, binning_y=1, width=0, height=0,
        roi=types.SimpleNamespace(x_offset=4, y_offset=6, width=0, height=0))


@pytest.mark.parametrize('settings', [
    {'stereo_algorithm': 'sad', 'correlation_window_size': 7}, {'stereo_algorithm': 'bp'},
    {'stereo_algorithm': 'bp', 'downscale': 2}], ids=str)
@pytest.mark.parametrize('cx_right', [64.0, 70.5])
def test_points_are_those_of_stereo_image_procs_point_cloud_node(cx_right, settings):
    """From our disparities where cx_left = cx_right, else from ours without pre-adjustment.

    The other node's computation is repeated, not run.
    """
    left, right = camera_info(64.0), camera_info(cx_right, baseline=0.12)
    config = MatcherConfig(disparity_range=24, pre_adjust_disparity=cx_right == 64.0,
                           **settings)
    with StereoMatcher(config, 'cpu') as matcher:
        frame = matcher.compute(*noisy_pair(131, 60),
                                calibration=Calibration.from_camera_info(left, right),
                                outputs=('disparity', 'points'))
    expected = points_of_disparity(frame.disparity, left, right)
    # The other node has points behind the camera, too.
    expected[~(expected[..., 2] > 0)] = np.nan
    assert np.isfinite(expected).mean() > 0.5
    np.testing.assert_allclose(frame.points[..., :3], expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize('settings', [
    {'stereo_algorithm': 'sad'}, {'filling': 'plane', 'reference_image': 'right'},
    {'downscale': 2, 'pre_adjust_disparity': False}], ids=str)
def test_points_lie_at_the_published_depth_and_have_a_stage_of_their_own(settings):
    left, right = noisy_pair(131, 60)
    config = MatcherConfig(disparity_range=24, **settings)
    with StereoMatcher(config, 'cpu') as matcher:
        frame = matcher.compute(left, right, calibration=VERGED, outputs=('depth', 'points'))
        without = matcher.compute(left, right, calibration=VERGED, outputs=('depth',))
    same_bits(frame.points[..., 2].copy(), frame.depth)
    reference = left if config.reference_image == 'left' else right
    np.testing.assert_array_equal(frame.points[..., 3].copy().view(np.uint32),
                                  reference * np.uint32(0x10101))
    assert frame.timings['points'] > 0
    assert without.timings['points'] == 0
    assert without.points is None


def test_decimation_is_live_and_says_the_shape_of_the_array():
    left, right = noisy_pair(131, 60)
    with StereoMatcher(MatcherConfig(stereo_algorithm='sad'), 'cpu') as matcher:
        whole = matcher.compute(left, right, calibration=VERGED, outputs=('points',)).points
        assert not matcher.reconfigure(matcher.config.replace(points_decimation=4))
        out = np.empty((15, 33, 4), np.float32)
        matcher.compute(left, right, calibration=VERGED, outputs=('points',), out={'points': out})
        same_bits(out, np.ascontiguousarray(whole[::4, ::4]))
        with pytest.raises(InputError, match=r'\(60, 131, 4\).*\(15, 33, 4\)'):
            matcher.compute(left, right, calibration=VERGED, out={'points': whole})
        with pytest.raises(InputError, match='points needs a calibration'):
            matcher.compute(left, right, outputs=('points',))


def test_a_range_of_depth_that_is_empty_is_refused():
    with pytest.raises(ConfigError, match=r'points_max_depth.*points_min_depth \(3\)'):
        MatcherConfig(points_min_depth=3.0, points_max_depth=2.0)
    assert MatcherConfig(points_min_depth=3.0).points_max_depth == 0
