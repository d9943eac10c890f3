"""What refinement on the CPU publishes: disparity, depth, confidence, each alone and together."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stereo_bp_ros import geometry
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config.matcher_settings import COLOR_MAPS
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines.cpu.simd import runtime
from stereo_bp_ros.engines.cpu.stages import refine as stage
from stereo_bp_ros.types import OUTPUTS
from test.cases import examples
from test.engines.support.refinement import (
    CALIBRATION,
    HEIGHT,
    MOTORCYCLE,
    WIDTH,
    bp,
    matched,
    plain_sixteenths,
    refine,
    refined,
    sad,
)


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


def test_the_shift_is_subtracted_from_disparities_unless_switched_off():
    inputs = matched(sad())
    plain = refine(sad(), inputs)['disparity']
    shifted = refine(sad(), inputs, MOTORCYCLE)['disparity']
    np.testing.assert_allclose(shifted - plain, 31.086, atol=1e-5)
    unshifted = refine(sad(pre_adjust_disparity=False), inputs, MOTORCYCLE)['disparity']
    np.testing.assert_array_equal(unshifted, plain)


@pytest.mark.parametrize('pre_adjust', [True, False])
def test_depth_is_focal_length_times_baseline_over_the_shifted_disparity(pre_adjust):
    config = sad(pre_adjust_disparity=pre_adjust, subpixel=False)
    inputs = matched(config)
    inputs['label'][10, 40] = 12
    depth = refine(config, inputs, MOTORCYCLE, ('depth',))['depth']
    assert depth[10, 40] == np.float32(3979.911 * 0.193001 / (12 + 31.086))
    assert depth[10, 40] == pytest.approx(17.8277, abs=1e-3)
    sixteenths = plain_sixteenths(config, inputs)
    np.testing.assert_array_equal(np.isnan(depth), sixteenths < 0)


def test_depth_is_not_a_number_where_the_shifted_disparity_is_not_positive():
    config = bp(border='keep', subpixel=False)
    inputs = matched(config)
    inputs['label'][10, 30:34] = [4, 5, 6, 7]
    calibration = Calibration(100.0, 0.5, 5.0, 0.0, 0.0)
    depth = refine(config, inputs, calibration, ('depth',))['depth']
    np.testing.assert_array_equal(depth[10, 30:34], np.float32([np.nan, np.nan, 50.0, 25.0]))


def test_confidence_of_sad_is_the_lead_of_the_best_over_the_second():
    config = sad(uniqueness_ratio=15.0)
    inputs = matched(config)
    inputs['best'][9, 40:44] = [0, 10, 600000, 0]
    inputs['second'][9, 40:44] = [0, 40, NO_SECOND, 1]
    results = refine(config, inputs, outputs=('disparity', 'confidence'))
    best, second = inputs['best'].astype(float), inputs['second'].astype(float)
    expected = (second - best) / np.maximum(second, 1)
    expected[second == NO_SECOND] = 1
    expected[results['disparity'] < 0] = 0
    np.testing.assert_allclose(results['confidence'], expected, rtol=1e-6)
    np.testing.assert_array_equal(results['confidence'][9, 40:44], np.float32([0, 0.75, 1, 1]))


@pytest.mark.parametrize('message_type', ['int16', 'float32'])
def test_confidence_of_bp_is_the_lead_over_the_largest_data_cost(message_type):
    config = bp(message_type=message_type)
    inputs = matched(config)
    if message_type == 'float32':
        inputs['second'][9, 40] = np.inf
    results = refine(config, inputs, outputs=('disparity', 'confidence'), largest_cost=12.0)
    lead = inputs['second'].astype(float) - inputs['best'].astype(float)
    expected = np.clip(lead / 12, 0, 1)
    expected[results['disparity'] < 0] = 0
    np.testing.assert_allclose(results['confidence'], expected, rtol=1e-6)
    assert (expected == 1).any()


@pytest.mark.parametrize('config', [
    sad(min_disparity=-3), sad(reference_image='right', min_disparity=5),
    bp(border='keep', filling='background'), bp(subpixel=False)], ids=str)
def test_fixed_point_disparities_are_sixteenths_without_the_calibrations_shift(config):
    inputs = matched(config)
    fixed = refine(config, inputs, CALIBRATION, ('fixed_disparity',))['fixed_disparity']
    unshifted = refine(config.replace(pre_adjust_disparity=False), inputs, CALIBRATION)
    assert (fixed == 16 * (config.min_disparity - 1)).any() or config.border == 'keep'
    np.testing.assert_array_equal(fixed, 16 * unshifted['disparity'])


@pytest.mark.parametrize('config', [
    sad(min_disparity=-3), sad(reference_image='right'), bp(border='keep', subpixel=False)],
    ids=str)
def test_depth_in_millimetres_is_rounded_half_up_and_0_where_there_is_none(config):
    inputs = matched(config)
    results = refine(config, inputs, CALIBRATION, ('fixed_disparity', 'depth_mm'))
    disparity = results['fixed_disparity'] / 16
    is_valid = (disparity >= config.min_disparity) & (disparity > 0)
    exact = 1000 * (500 * 0.12) / np.where(is_valid, disparity, 1)
    expected = np.where(is_valid & (exact < 65535.5), np.floor(exact + 0.5), 0)
    np.testing.assert_array_equal(results['depth_mm'], expected)
    assert np.unique(expected).size > 10


def test_depth_in_millimetres_ends_at_65535():
    config = bp(border='keep', subpixel=False)
    inputs = matched(config)
    inputs['label'][10, 30:36] = [0, 1, 2, 4, 8, 16]
    for focal, expected in (
            (655.355, [0, 0, 32768, 16384, 8192, 4096]),    # 65535.5: half up
            (655.354, [0, 65535, 32768, 16384, 8192, 4096]),
            (0.004, [0, 0, 0, 0, 0, 0]), (0.005, [0, 1, 0, 0, 0, 0]), (1e9, [0] * 6)):
        calibration = Calibration(focal, 0.1, 0.0, 0.0, 0.0)
        found = refine(config, inputs, calibration, ('depth_mm',))['depth_mm']
        np.testing.assert_array_equal(found[10, 30:36], expected, err_msg=str(focal))


def colored(config, fixed):
    """The picture of sixteenths, with OpenCV alone."""
    pixels = fixed / 16 - config.min_disparity
    places = np.clip(np.floor(255 * pixels / config.colored_range + 0.5), 0, 255)
    colors = getattr(cv2, f'COLORMAP_{config.color_map.upper()}')
    picture = cv2.applyColorMap(places.astype(np.uint8), colors)
    picture[pixels < 0] = 0
    return picture


@pytest.mark.parametrize('color_map', COLOR_MAPS)
def test_every_color_map_is_opencvs(color_map):
    config = sad(color_map=color_map)
    inputs = matched(config)
    results = refine(config, inputs, CALIBRATION, ('fixed_disparity', 'disparity_color'))
    np.testing.assert_array_equal(results['disparity_color'],
                                  colored(config, results['fixed_disparity']))


@pytest.mark.parametrize('config', [
    sad(min_disparity=-3, color_range=7), sad(reference_image='right', color_range=100),
    bp(border='keep', filling='background'), bp(subpixel=False), bp(disparity_range=2),
    sad(color_range=4096)], ids=str)
def test_colors_are_spread_over_their_range_from_the_first_disparity_on(config):
    inputs = matched(config)
    results = refine(config, inputs, MOTORCYCLE, ('fixed_disparity', 'disparity_color'))
    np.testing.assert_array_equal(results['disparity_color'],
                                  colored(config, results['fixed_disparity']))


def test_without_a_range_the_first_and_the_last_disparity_have_the_first_and_last_color():
    config = bp(border='keep', subpixel=False, color_map='jet')
    inputs = matched(config)
    inputs['label'][10, 30:33] = [0, 19, -1]
    picture = refine(config, inputs, outputs=('disparity_color',))['disparity_color']
    np.testing.assert_array_equal(picture[10, 30:33], [[128, 0, 0], [0, 0, 128], [0, 0, 0]])


@pytest.mark.parametrize('name', OUTPUTS)
@pytest.mark.parametrize('config', [sad(), bp(), sad(reference_image='right')], ids=str)
def test_each_output_is_the_same_alone_and_with_the_others(config, name):
    inputs = matched(config)
    together = refine(config, inputs, CALIBRATION, OUTPUTS)
    np.testing.assert_array_equal(refine(config, inputs, CALIBRATION, (name,))[name],
                                  together[name])


@pytest.mark.parametrize(('config', 'outputs', 'expected'), [
    (sad(), ('disparity', 'depth'), (False, False)),
    (sad(), ('confidence',), (True, False)),
    (bp(uniqueness_ratio=5.0), ('disparity',), (True, False)),
    (bp(disp12_max_diff=1), ('disparity',), (False, True)),
])
def test_only_what_is_needed_is_asked_for(config, outputs, expected):
    assert stage.needs(config, outputs) == expected


@pytest.mark.parametrize('make', [sad, bp])
def test_what_is_not_needed_is_not_read(make):
    inputs = matched(make())
    other = {**inputs, **{name: np.full_like(inputs[name], 1)
                          for name in ('best', 'second', 'right_label', 'grey')}}
    np.testing.assert_array_equal(refined(make(), other), refined(make(), inputs))


@pytest.mark.parametrize(('width', 'height'), [(1, 1), (3, 2), (8, 40), (60, 1)])
@pytest.mark.parametrize('make', [sad, bp])
def test_an_empty_valid_window_gives_an_invalid_frame(make, width, height):
    config = make(median_window_size=5, speckle_size=3, filling='background',
                  texture_threshold=5, disp12_max_diff=1, uniqueness_ratio=5.0)
    inputs = matched(config, width, height)
    results = refine(config, inputs, CALIBRATION, OUTPUTS)
    assert (results['disparity'] == -1).all()
    assert np.isnan(results['depth']).all()
    assert (results['confidence'] == 0).all()


@pytest.mark.parametrize('first', [sad(), bp(), bp(message_type='int16')], ids=str)
def test_no_live_setting_compiles_anything(first):
    inputs = matched(first)
    refine(first, inputs)
    compiled = runtime.compiled_signatures()
    everything = first.replace(
        uniqueness_ratio=12.5, texture_threshold=40, disp12_max_diff=2, median_window_size=5,
        speckle_size=10, speckle_range=1.5, filling='background', subpixel=False,
        pre_adjust_disparity=False, sobel_scale=0.5)
    refine(everything, inputs, CALIBRATION, OUTPUTS, largest_cost=7)
    if first.stereo_algorithm == 'bp':
        refine(everything.replace(border='keep', reference_image='right'), inputs, MOTORCYCLE,
               OUTPUTS)
    # The texture's own kernel belongs to preprocessing and has one signature in all.
    assert runtime.compiled_signatures() - compiled <= 1
