"""What refinement on the CPU publishes of disparities: all outputs against their definitions."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.matcher_settings import COLOR_MAPS
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cpu.stages import refine as stage
from test.cases import examples
from test.engines.support import naive_refinement
from test.engines.support.refinement import (
    CALIBRATION,
    HEIGHT,
    MOTORCYCLE,
    WIDTH,
    bp,
    matched,
    plain_sixteenths,
    refine,
    sad,
    window_of,
)

DEFINED = ('disparity', 'fixed_disparity', 'depth', 'depth_mm', 'disparity_color', 'confidence')


@st.composite
def configurations(draw):
    make = draw(st.sampled_from([sad, bp]))
    return make(
        disparity_range=draw(st.sampled_from([2, 3, 20, 40])),
        min_disparity=draw(st.integers(-40, 40)),
        subpixel=draw(st.booleans()),
        median_window_size=draw(st.sampled_from([0, 3, 5])),
        speckle_size=draw(st.sampled_from([0, 8])),
        filling=draw(st.sampled_from(['none', 'background', 'plane'])),
        bilateral_passes=draw(st.sampled_from([0, 1, 3])),
        bilateral_sigma=draw(st.floats(0, 100)),
        uniqueness_ratio=draw(st.sampled_from([0.0, 10.0])),
        reference_image=draw(st.sampled_from(['left', 'right'])),
        pre_adjust_disparity=draw(st.booleans()))


@given(configurations(), st.floats(-300, 300), st.integers(0, 2**20))
@settings(max_examples=examples(150))
def test_every_value_is_in_the_published_range_or_the_one_invalid_value(config, shift, seed):
    calibration = Calibration(500.0, 0.1, shift, 0.0, 0.0)
    published_shift = calibration.shift if config.pre_adjust_disparity else 0.0
    least = np.float32(config.min_disparity - published_shift)
    greatest = np.float32(config.min_disparity + config.disparity_range - 1 - published_shift)
    disparity = refine(config, matched(config, seed=seed), calibration)['disparity']
    valid = disparity >= least
    assert (disparity[valid] <= greatest).all()
    assert (disparity[~valid] == np.float32(config.min_disparity - published_shift - 1)).all()
    window = geometry.valid_window(config, WIDTH, HEIGHT)
    outside = np.ones(valid.shape, bool)
    outside[window.slices] = False
    assert not (valid & outside).any()


def colored(config, fixed):
    """The picture of sixteenths, with OpenCV alone."""
    pixels = fixed / 16 - config.min_disparity
    last = config.max_disparity - config.min_disparity
    places = np.clip(np.floor(255 * pixels / last + 0.5), 0, 255)
    colors = getattr(cv2, f'COLORMAP_{config.color_map.upper()}')
    picture = cv2.applyColorMap(places.astype(np.uint8), colors)
    picture[pixels < 0] = 0
    return picture


def defined(config, inputs, calibration, largest_cost):
    """Every output of what matching hands over, with no filter."""
    values = plain_sixteenths(config, inputs)
    lead = inputs['second'].astype(float) - inputs['best']
    if config.stereo_algorithm == 'sad':
        lead = np.where(inputs['second'] == NO_SECOND, 1, lead / np.maximum(inputs['second'], 1))
    else:
        lead = np.clip(lead / largest_cost, 0, 1)
    confidence = naive_refinement.confidence_of(lead, values, window_of(config))
    confidence[values < 0] = 0
    if config.reference_image == 'right':
        values, confidence = values[:, ::-1], confidence[:, ::-1]
    is_valid = values >= 0
    fixed = 16 * config.min_disparity + values
    shifted = fixed / 16 - calibration.shift
    is_in_front = is_valid & (shifted > 0)
    depth = calibration.focal_px * calibration.baseline_m / np.where(is_in_front, shifted, 1)
    is_kept = is_in_front & (1000 * depth < 65535.5)
    return {
        'fixed_disparity': fixed,
        'disparity': (shifted if config.pre_adjust_disparity else fixed / 16).astype(np.float32),
        'depth': np.where(is_in_front, depth, np.nan).astype(np.float32),
        'depth_mm': np.where(is_kept, np.floor(1000 * depth + 0.5), 0),
        'disparity_color': colored(config, fixed), 'confidence': confidence.astype(np.float32)}


@pytest.mark.parametrize('calibration', [CALIBRATION, MOTORCYCLE, Calibration(
    100.0, 0.5, 5.0, 0.0, 0.0)], ids=['parallel', 'verged', 'behind'])
@pytest.mark.parametrize('config', [
    sad(), sad(subpixel=False), sad(reference_image='right', min_disparity=5),
    sad(min_disparity=-7, color_map='jet'),
    sad(pre_adjust_disparity=False), bp(), bp(subpixel=False, disparity_range=2),
    bp(message_type='int16'), bp(border='keep', min_disparity=5),
    bp(border='keep', reference_image='right', pre_adjust_disparity=False)], ids=str)
def test_every_output_is_as_defined(config, calibration):
    inputs = matched(config)
    none = np.inf if inputs['second'].dtype == np.float32 else NO_SECOND
    inputs['best'][9, 40:44], inputs['second'][9, 40:44] = [0, 10, 600000, 0], [0, 40, none, 1]
    found = refine(config, inputs, calibration, DEFINED, largest_cost=12.0)
    for name, values in defined(config, inputs, calibration, 12.0).items():
        if name in ('depth', 'confidence'):
            np.testing.assert_allclose(found[name], values, rtol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_ends_of_the_ranges_of_depth_and_colors():
    config = bp(border='keep', subpixel=False, color_map='jet')
    inputs = matched(config)
    inputs['label'][10, 30:37] = [0, 1, 2, 4, 8, 19, -1]
    for focal, expected in (
            (655.355, [0, 0, 32768, 16384, 8192, 3449, 0]),    # 65535.5: half up
            (655.354, [0, 65535, 32768, 16384, 8192, 3449, 0]),
            (0.004, [0] * 7), (0.005, [0, 1, 0, 0, 0, 0, 0]), (1e9, [0] * 7)):
        calibration = Calibration(focal, 0.1, 0.0, 0.0, 0.0)
        found = refine(config, inputs, calibration, ('depth_mm', 'disparity_color'))
        np.testing.assert_array_equal(found['depth_mm'][10, 30:37], expected, err_msg=str(focal))
    np.testing.assert_array_equal(found['disparity_color'][10, [30, 35, 36]],
                                  [[128, 0, 0], [0, 0, 128], [0, 0, 0]])


@pytest.mark.parametrize('color_map', COLOR_MAPS)
def test_every_color_map_is_opencvs(color_map):
    config = sad(color_map=color_map)
    results = refine(config, matched(config), CALIBRATION, ('fixed_disparity', 'disparity_color'))
    np.testing.assert_array_equal(results['disparity_color'],
                                  colored(config, results['fixed_disparity']))


@pytest.mark.parametrize(('config', 'outputs', 'expected'), [
    (sad(), ('disparity', 'depth'), (False, False)),
    (sad(), ('confidence',), (True, False)),
    (bp(uniqueness_ratio=5.0), ('disparity',), (True, False)),
    (bp(disp12_max_diff=1), ('disparity',), (False, True)),
])
def test_only_what_is_needed_is_asked_for(config, outputs, expected):
    assert stage.needs(config, outputs) == expected
