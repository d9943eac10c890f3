"""Images that are matched smaller: reduction, enlargement, and the matcher around both."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.engines.cpu.outputs import enlarge_confidences, enlarge_disparities
from stereo_bp_ros.engines.cpu.plan import plan_of
from stereo_bp_ros.engines.cpu.stages import preprocess
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from test.cases import slow
from test.engines.support import naive_downscale as naive
from test.engines.support.pairs import CALIBRATION, noisy_pair
from test.raw_cameras import rectification
from test.settings import plain, tiled
from test.slanted_plane import SlantedPlane

FACTORS = (2, 3, 4)
SHAPES = ((25, 37), (7, 6), (2, 50), (1, 1))
COMBINED = {'stereo_algorithm': 'bp', 'message_type': 'int16', 'census_weight': 0.8,
            'path_aggregation': True, 'levels': 2, 'iterations': 3, 'discontinuity_slope': 20.0,
            'discontinuity_truncation': 120.0, 'filling': 'plane', 'disp12_max_diff': 1}
KINDS = {'sad': {'stereo_algorithm': 'sad', 'correlation_window_size': 5},
         'bp': {'stereo_algorithm': 'bp', 'levels': 3, 'smoothing_sigma': 0.7},
         'combined': COMBINED,
         'right': {**COMBINED, 'reference_image': 'right'},
         'tiled': {'stereo_algorithm': 'tiled_bp', 'message_type': 'int16'}}


@pytest.mark.parametrize('factor', FACTORS)
@pytest.mark.parametrize('shape', SHAPES)
def test_a_reduced_pixel_is_the_mean_of_its_block(shape: tuple[int, int], factor: int) -> None:
    grey = np.random.default_rng(0).integers(0, 256, shape).astype(np.float32)
    expected = naive.reduced(grey, factor)
    out = np.full(expected.shape, np.nan, np.float32)
    preprocess.to_means(grey, factor, None, out)
    np.testing.assert_array_equal(out, expected)
    of_wide = np.full(expected.shape, np.nan, np.float32)
    preprocess.to_means(257 * grey, factor, 1 / 257, of_wide)
    assert np.abs(of_wide - expected).max() <= 0.5001       # not rounded


@pytest.mark.parametrize('factor', FACTORS)
@pytest.mark.parametrize('shape', SHAPES)
def test_disparities_are_interpolated_within_surfaces_alone(shape: tuple[int, int], factor: int
                                                            ) -> None:
    rng = np.random.default_rng(1)
    small = max(1, shape[0] // factor), max(1, shape[1] // factor)
    steps = 400 * (np.arange(small[1]) > small[1] // 2) + np.arange(small[0])[:, None] * 5
    values = (steps + rng.integers(0, 20, small)).astype(np.int16)
    values[rng.random(small) < 0.1] = naive.INVALID
    out = np.full(shape, 77, np.int16)
    enlarge_disparities(len(out), values, factor, out)
    np.testing.assert_array_equal(out, naive.enlarged(values, factor, shape))
    confidences = np.full(shape, np.nan, np.float32)
    enlarge_confidences(len(confidences), values.astype(np.float32), factor, confidences)
    np.testing.assert_array_equal(confidences, naive.repeated(values, factor, shape))


@pytest.mark.parametrize('factor', [2, 3])
@pytest.mark.parametrize('settings', KINDS.values(), ids=KINDS)
def test_a_frame_is_that_of_the_reduced_images_enlarged(settings: dict[str, object], factor: int
                                                        ) -> None:
    left, right = noisy_pair(121, 73)
    config = MatcherConfig(**settings, min_disparity=-6, disparity_range=30, downscale=factor,
                           num_threads=2)
    alike = config.replace(downscale=1, min_disparity=-6 // factor, disparity_range=30 // factor)
    names = ('disparity', 'depth', 'confidence', 'fixed_disparity')
    with StereoMatcher(config, 'cpu') as whole, StereoMatcher(alike, 'cpu') as small:
        found = whole.compute(left, right, calibration=CALIBRATION, outputs=names)
        reduced = small.compute(*(naive.reduced(image, factor).astype(np.uint8)
                                  for image in (left, right)),
                                outputs=('confidence', 'fixed_disparity'))
    relative = reduced.fixed_disparity - 16 * alike.min_disparity
    expected = naive.enlarged(relative, factor, left.shape) / 16 - 6
    is_valid = expected >= -6
    assert is_valid.any()
    np.testing.assert_array_equal(found.fixed_disparity[is_valid], 16 * expected[is_valid])
    np.testing.assert_array_equal(found.valid, is_valid)
    np.testing.assert_array_equal(found.disparity[is_valid],
                                  (expected[is_valid] - CALIBRATION.shift).astype(np.float32))
    np.testing.assert_array_equal(found.confidence,
                                  naive.repeated(reduced.confidence, factor, left.shape))
    in_front = is_valid & (expected > CALIBRATION.shift)
    np.testing.assert_array_equal(np.isfinite(found.depth), in_front)
    outside = np.ones(left.shape, bool)
    outside[found.valid_window.slices] = False
    assert not found.valid[outside].any()
    assert found.disparity[is_valid].max() <= found.max_disparity


def test_a_slanted_plane_has_no_steps_of_reduced_pixels() -> None:
    frame = SlantedPlane().frame(0)
    config = MatcherConfig.preset('road_full', downscale=2, num_threads=2, disparity_range=64)
    with StereoMatcher(config, 'cpu') as matcher:
        found = matcher.compute(frame.left, frame.right)
    both = found.valid[:, 100:] & np.isfinite(frame.disparity[:, 100:])
    assert both.mean() > 0.8
    error = (found.disparity - frame.disparity)[:, 100:][both]
    assert np.sqrt(np.mean(error**2)) < 0.2


def test_a_range_that_has_no_whole_number_of_reduced_disparities_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'min_disparity.*multiple of downscale \(2\)'):
        MatcherConfig(min_disparity=3, downscale=2)
    with pytest.raises(ConfigError, match='disparity_range'):
        MatcherConfig(disparity_range=4, downscale=4)
    assert plan_of(MatcherConfig(disparity_range=5, downscale=4), 64, 48
                   ).config.disparity_range == 2


def test_little_is_left_to_keep() -> None:
    config = MatcherConfig.preset('road_full')
    whole, half = (plan_of(config.replace(downscale=factor), 640, 200).memory.total
                   for factor in (1, 2))
    assert 5 * half < whole


#: From the smallest image on, with and without room for a window or a reduced pixel.
FEW = ((1, 1), (2, 1), (1, 3), (3, 2), (5, 4), (4, 5))


@pytest.mark.parametrize('settings', [*KINDS.values(), *slow(
    *({'preset': name} for name in preset_names()), {'levels': 10, 'message_type': 'float32'},
    {**plain(), 'message_type': 'float32'},
    {'stereo_algorithm': 'tiled_bp', **tiled('lock_free')})], ids=str)
def test_images_of_a_few_pixels_are_matched(settings: dict[str, object]) -> None:
    """Also those of 1 x 1, which are as large when they are reduced."""
    small = {'disparity_range': 16, 'num_threads': 2, **settings}
    name = small.pop('preset', None)
    config = MatcherConfig.preset(name) if name else MatcherConfig.from_mapping(small)
    for factor, (width, height) in itertools.product((1, *FACTORS), FEW):
        image = np.random.default_rng(0).integers(0, 256, (height, width), np.uint8)
        with StereoMatcher(config.replace(
                downscale=factor, min_disparity=0), 'cpu') as matcher:
            found = matcher.compute(image, image, calibration=CALIBRATION, outputs=tuple(OUTPUTS))
        outside = np.ones(image.shape, bool)
        outside[found.valid_window.slices] = False
        assert config.border == 'keep' or not found.valid[outside].any(), (factor, width, height)
        for output, made in OUTPUTS.items():
            assert getattr(found, output).shape == made.shape(image.shape,
                                                              config.points_decimation)


def test_images_that_are_rectified_to_one_pixel_are_matched() -> None:
    config = MatcherConfig(stereo_algorithm='sad', disparity_range=16, rectify=True,
                           rectified_width=1, rectified_height=1, downscale=3)
    left, right = noisy_pair(97, 61)
    to_one = dataclasses.replace(rectification(), rectified_width=1, rectified_height=1)
    with StereoMatcher(config, 'cpu') as matcher:
        found = matcher.compute(left, right, rectification=to_one,
                                outputs=('disparity', 'confidence', 'points'))
    assert found.disparity.shape == (1, 1)
    assert not found.valid.any()
