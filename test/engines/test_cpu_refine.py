"""Refinement on the CPU, every step against its definition written as plain loops."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stereo_bp_ros import geometry
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cpu import refine as stage
from stereo_bp_ros.engines.cpu import runtime, scratch
from stereo_bp_ros.types import OUTPUT_TYPES, OUTPUTS

WIDTH, HEIGHT, D = 70, 33, 20
CALIBRATION = Calibration(focal_px=500.0, baseline_m=0.12, cx_left=35.0, cx_right=35.0, cy=16.0)
# Middlebury 2014, Motorcycle at full size: cx1 - cx0 = 31.086.
MOTORCYCLE = Calibration(focal_px=3979.911, baseline_m=0.193001, cx_left=1244.772,
                         cx_right=1275.858, cy=1019.507)


def sad(**changes):
    return MatcherConfig(**{'stereo_algorithm': 'sad', 'disparity_range': D,
                            'correlation_window_size': 3, **changes})


def bp(**changes):
    return MatcherConfig(**{'stereo_algorithm': 'bp', 'disparity_range': D,
                            'message_type': 'float32', 'correlation_window_size': 3, **changes})


def matched(config, width=WIDTH, height=HEIGHT, seed=0):
    """What a matching stage could hand over, in the frame of matching."""
    random = np.random.default_rng(seed)
    d, shape = config.disparity_range, (height, width)
    # Smooth enough for the filters to keep something, with noise for them to remove.
    label = (np.add.outer(np.arange(height) // 9, np.arange(width) // 13) * 2) % d
    noisy = random.random(shape) < 0.2
    label[noisy] = random.integers(0, d, noisy.sum())
    outside = np.ones(shape, bool)
    if config.stereo_algorithm == 'sad':
        outside[window_of(config, width, height)] = False
    else:
        outside[1:-1, 1:-1] = False
    label[outside] = -1
    fraction = random.integers(-8, 9, shape)
    fraction[(label <= 0) | (label == d - 1)] = 0
    costs = np.float32 if config.message_type == 'float32' else np.int32
    if config.stereo_algorithm == 'sad':
        costs = np.int32
    best = random.integers(0, 40, shape).astype(costs)
    second = (best + random.integers(0, 20, shape)).astype(costs)
    right_label = random.integers(-1, d, shape)
    return {'label': label.astype(np.int16), 'fraction': fraction.astype(np.int8),
            'best': best, 'second': second, 'right_label': right_label.astype(np.int16),
            'grey': random.integers(0, 256, shape).astype(np.float32)}


def window_of(config, width=WIDTH, height=HEIGHT):
    """Slices of the valid window in the frame of matching."""
    return geometry.valid_window(config.replace(reference_image='left'), width, height).slices


def refine(config, inputs, calibration=None, outputs=('disparity',), largest_cost=30.0):
    height, width = inputs['label'].shape
    arrays = {name: np.full(shape, 55, dtype)
              for name, shape, dtype in scratch.refine(config, width, height)}
    results = {name: np.full((height, width), 30000, OUTPUT_TYPES[name]) for name in outputs}
    stage.refine(**inputs, config=config, calibration=calibration, outputs=results,
                 scratch=arrays, largest_cost=largest_cost)
    return results


def refined(config, inputs, **rest):
    """Sixteenths in the frame of matching, from the published disparity; -16 = invalid."""
    disparity = refine(config, inputs, **rest)['disparity']
    if config.reference_image == 'right':
        disparity = disparity[:, ::-1]
    return np.round(16 * (disparity.astype(np.float64) - config.min_disparity)).astype(int)


def plain_sixteenths(config, inputs):
    """Labels and fractions alone, with nothing rejected but what has no label or no window."""
    value = inputs['label'].astype(int) * 16
    if config.subpixel:
        value += inputs['fraction']
    value[inputs['label'] < 0] = -16
    if config.border == 'invalid':
        inside = np.zeros(value.shape, bool)
        inside[window_of(config, value.shape[1], value.shape[0])] = True
        value[~inside] = -16
    return value


# --- labels, subpixel, border

@pytest.mark.parametrize('config', [sad(), bp(), sad(subpixel=False), bp(subpixel=False),
                                    bp(border='keep'), sad(min_disparity=-7),
                                    bp(min_disparity=5, border='keep')], ids=str)
def test_labels_become_disparities_where_they_may(config):
    inputs = matched(config)
    np.testing.assert_array_equal(refined(config, inputs), plain_sixteenths(config, inputs))


def test_border_keep_publishes_the_guesses_outside_the_valid_window():
    inputs = matched(bp())
    band = (slice(1, -1), slice(1, D - 2))
    assert (refined(bp(), inputs)[band] == -16).all()
    assert (refined(bp(border='keep'), inputs)[band] >= 0).all()


@pytest.mark.parametrize('filters', [{}, {'median_window_size': 5},
                                     {'median_window_size': 3, 'speckle_size': 30}])
def test_border_keep_never_invents_a_value_where_there_is_no_label(filters):
    config = bp(border='keep', **filters)
    inputs = matched(config)
    inputs['label'][10:12, 40:43] = -1
    assert (refined(config, inputs)[inputs['label'] < 0] == -16).all()


@pytest.mark.parametrize('filters', [{'median_window_size': 3}, {'median_window_size': 5},
                                     {'median_window_size': 5, 'speckle_size': 20},
                                     {'filling': 'background'}])
@pytest.mark.parametrize('make', [sad, bp])
def test_pixels_outside_the_valid_window_stay_invalid_through_every_filter(make, filters):
    config = make(min_disparity=3, **filters)
    found = refined(config, matched(config))
    outside = np.ones(found.shape, bool)
    outside[window_of(config)] = False
    assert (found[outside] == -16).all()
    assert (found[~outside] >= 0).any()


@pytest.mark.parametrize('config', [sad(), bp(border='keep'), sad(
    median_window_size=3, filling='background', speckle_size=12, uniqueness_ratio=20.0)], ids=str)
def test_the_right_reference_is_mirrored_back(config):
    inputs = matched(config)
    mirrored = config.replace(reference_image='right')
    for name in OUTPUTS:
        expected = refine(config, inputs, CALIBRATION, OUTPUTS)[name]
        found = refine(mirrored, inputs, CALIBRATION, OUTPUTS)[name]
        np.testing.assert_array_equal(found[:, ::-1], expected)


# --- rejection

@pytest.mark.parametrize('ratio', [0.0, 1.0, 10.0, 15.0, 33.3, 100.0])
def test_sad_needs_a_second_best_above_the_ratio(ratio):
    config = sad(uniqueness_ratio=ratio)
    inputs = matched(config)
    expected = plain_sixteenths(config, inputs)
    for (y, x), best in np.ndenumerate(inputs['best']):
        if ratio and 100.0 * int(inputs['second'][y, x]) <= (100.0 + ratio) * int(best):
            expected[y, x] = -16
    np.testing.assert_array_equal(refined(config, inputs), expected)


@pytest.mark.parametrize(('second', 'is_valid'), [(109, False), (110, False), (111, True)])
def test_a_second_best_at_exactly_the_ratio_is_rejected_as_opencv_does(second, is_valid):
    config = sad(uniqueness_ratio=10.0)
    inputs = matched(config)
    inputs['best'][:], inputs['second'][:] = 100, second
    found = refined(config, inputs)[window_of(config)]
    assert (found >= 0).all() if is_valid else (found < 0).all()


@pytest.mark.parametrize('message_type', ['int16', 'float32'])
@pytest.mark.parametrize('ratio', [0.0, 20.0, 50.0, 100.0])
def test_bp_needs_a_lead_of_a_part_of_the_largest_data_cost(ratio, message_type):
    config = bp(uniqueness_ratio=ratio, message_type=message_type)
    inputs = matched(config)
    expected = plain_sixteenths(config, inputs)
    for (y, x), best in np.ndenumerate(inputs['best']):
        if float(inputs['second'][y, x]) - float(best) < ratio / 100 * 10.0:
            expected[y, x] = -16
    np.testing.assert_array_equal(refined(config, inputs, largest_cost=10.0), expected)


@pytest.mark.parametrize('make', [sad, bp])
def test_a_pixel_without_a_second_best_is_unique(make):
    config = make(uniqueness_ratio=100.0)
    inputs = matched(config)
    none = np.inf if inputs['second'].dtype == np.float32 else stage.NO_SECOND
    inputs['second'][:] = none
    np.testing.assert_array_equal(refined(config, inputs), plain_sixteenths(config, inputs))


@pytest.mark.parametrize('threshold', [0, 50, 200, 500])
@pytest.mark.parametrize('config', [sad(correlation_window_size=5), bp(correlation_window_size=9),
                                    sad(sobel_scale=1.0, prefilter_cap=31.0),
                                    sad(sobel_scale=1.0, prefilter_cap=0.0)], ids=str)
def test_texture_is_the_sum_of_clipped_derivatives_over_the_window(config, threshold):
    config = config.replace(texture_threshold=threshold)
    inputs = matched(config)
    inputs['grey'][:, 30:50] = 80 + inputs['grey'][:, 30:50] // 64
    extended = np.pad(inputs['grey'].astype(np.float64), 1, mode='edge')
    derivative = sum(weight * (extended[i:i + HEIGHT, 2:] - extended[i:i + HEIGHT, :-2])
                     for i, weight in enumerate((1, 2, 1)))
    clipped = np.minimum(np.abs(config.sobel_scale * derivative), config.prefilter_cap or np.inf)
    half = config.correlation_window_size // 2
    extended = np.pad(clipped, half, mode='edge')
    expected = plain_sixteenths(config, inputs)
    for y in range(HEIGHT):
        for x in range(WIDTH):
            if extended[y:y + 2 * half + 1, x:x + 2 * half + 1].sum() < threshold:
                expected[y, x] = -16
    np.testing.assert_array_equal(refined(config, inputs), expected)
    if threshold == 200:
        assert (expected >= 0).any()
        assert (expected < plain_sixteenths(config, inputs)).any()


@pytest.mark.parametrize('limit', [0, 1, 3, 128])
@pytest.mark.parametrize('config', [sad(), sad(min_disparity=-9), bp(min_disparity=4),
                                    bp(border='keep')], ids=str)
def test_the_left_right_check_compares_labels_of_both_images(config, limit):
    config = config.replace(disp12_max_diff=limit)
    inputs = matched(config)
    expected = plain_sixteenths(config, inputs)
    for (y, x), label in np.ndenumerate(inputs['label'].astype(int)):
        if not limit or label < 0:
            continue
        column = x - (config.min_disparity + label)
        other = int(inputs['right_label'][y, column]) if 0 <= column < WIDTH else -1
        if other < 0 or abs(label - other) > limit:
            expected[y, x] = -16
    np.testing.assert_array_equal(refined(config, inputs), expected)


# --- filters

def plain_median(values, side):
    half = side // 2
    extended = np.pad(values, half, mode='edge')
    out = np.empty_like(values)
    for y in range(values.shape[0]):
        for x in range(values.shape[1]):
            out[y, x] = np.median(extended[y:y + side, x:x + side])
    return out


@pytest.mark.parametrize('side', [3, 5])
@pytest.mark.parametrize('config', [sad(), sad(min_disparity=-20), bp(border='keep')], ids=str)
def test_the_median_is_taken_over_sixteenths(config, side):
    config = config.replace(median_window_size=side, uniqueness_ratio=15.0)
    inputs = matched(config)
    rejected = refined(config.replace(median_window_size=0), inputs)
    expected = plain_median(rejected, side)
    expected[plain_sixteenths(config, inputs) < 0] = -16
    np.testing.assert_array_equal(refined(config, inputs), expected)


def plain_speckles(values, size, step):
    """Regions of neighbours whose values differ by at most ``step`` sixteenths."""
    out, seen = values.copy(), values == -16
    for start in np.ndindex(values.shape):
        if seen[start]:
            continue
        seen[start] = True
        region = [start]
        for y, x in region:
            for near in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if (0 <= near[0] < values.shape[0] and 0 <= near[1] < values.shape[1]
                        and not seen[near] and abs(values[near] - values[y, x]) <= step):
                    seen[near] = True
                    region.append(near)
        if len(region) <= size:
            for pixel in region:
                out[pixel] = -16
    return out


@pytest.mark.parametrize(('size', 'step'), [(1, 1.0), (10, 1.0), (40, 0.5), (40, 4.0), (90, 0.0)])
def test_regions_of_at_most_the_speckle_size_are_removed(size, step):
    config = sad(speckle_size=size, speckle_range=step)
    inputs = matched(config)
    expected = plain_speckles(plain_sixteenths(config, inputs), size, 16 * step)
    np.testing.assert_array_equal(refined(config, inputs), expected)


def test_speckles_are_removed_after_the_median():
    config = sad(speckle_size=25, median_window_size=3)
    inputs = matched(config)
    smooth = refined(config.replace(speckle_size=0), inputs)
    np.testing.assert_array_equal(refined(config, inputs), plain_speckles(smooth, 25, 16))


@pytest.mark.parametrize(('width', 'height'), [(1, 1), (70, 33), (641, 119)])
def test_speckle_removal_allocates_nothing(width, height):
    arrays = {name: np.zeros(shape, dtype)
              for name, shape, dtype in scratch.refine(sad(), width, height)}
    buffer = arrays['speckle_buffer']
    _, used = cv2.filterSpeckles(arrays['sixteenths'], -16, 5, 16.0, buffer)
    assert np.shares_memory(used, buffer)


def plain_filling(values, rows, columns):
    out = values.copy()
    for y in range(rows.start, rows.stop):
        for x in range(columns.start, columns.stop):
            if values[y, x] >= 0:
                continue
            left = [v for v in values[y, columns.start:x][::-1] if v >= 0][:1]
            right = [v for v in values[y, x + 1:columns.stop] if v >= 0][:1]
            out[y, x] = min(left + right, default=-16)
    return out


@pytest.mark.parametrize('config', [sad(), sad(min_disparity=-6), bp(), bp(border='keep'),
                                    sad(speckle_size=30)], ids=str)
def test_filling_takes_the_farther_of_both_sides_within_the_window(config):
    config = config.replace(uniqueness_ratio=30.0)
    inputs = matched(config)
    rows, columns = window_of(config)
    inputs['second'][5] = inputs['best'][5]                     # a row with nothing valid
    inputs['second'][7, :40] = inputs['best'][7, :40]           # nothing on the left
    inputs['second'][8, 40:] = inputs['best'][8, 40:]           # nothing on the right
    holes = refined(config, inputs)
    expected = plain_filling(holes, rows, columns)
    found = refined(config.replace(filling='background'), inputs)
    np.testing.assert_array_equal(found, expected)
    assert (found[5, columns] == -16).all()
    assert (found[rows, columns] >= 0).sum() > (holes[rows, columns] >= 0).sum()


# --- what is published

@st.composite
def configurations(draw):
    make = draw(st.sampled_from([sad, bp]))
    return make(
        disparity_range=draw(st.sampled_from([2, 3, 20, 40])),
        min_disparity=draw(st.integers(-40, 40)),
        subpixel=draw(st.booleans()),
        median_window_size=draw(st.sampled_from([0, 3, 5])),
        speckle_size=draw(st.sampled_from([0, 8])),
        filling=draw(st.sampled_from(['none', 'background'])),
        uniqueness_ratio=draw(st.sampled_from([0.0, 10.0])),
        reference_image=draw(st.sampled_from(['left', 'right'])),
        pre_adjust_disparity=draw(st.booleans()))


@given(configurations(), st.floats(-300, 300), st.integers(0, 2**20))
@settings(max_examples=150, deadline=None)
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


def test_depth_agrees_with_the_published_disparity():
    inputs = matched(sad(min_disparity=2))
    results = refine(sad(min_disparity=2), inputs, CALIBRATION, ('disparity', 'depth'))
    valid = results['disparity'] >= 2
    np.testing.assert_allclose(results['depth'][valid],
                               500 * 0.12 / results['disparity'][valid], rtol=1e-6)


def test_confidence_of_sad_is_the_lead_of_the_best_over_the_second():
    config = sad(uniqueness_ratio=15.0)
    inputs = matched(config)
    inputs['best'][9, 40:44] = [0, 10, 600000, 0]
    inputs['second'][9, 40:44] = [0, 40, stage.NO_SECOND, 1]
    results = refine(config, inputs, outputs=('disparity', 'confidence'))
    best, second = inputs['best'].astype(float), inputs['second'].astype(float)
    expected = (second - best) / np.maximum(second, 1)
    expected[second == stage.NO_SECOND] = 1
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


def test_filled_pixels_have_no_confidence():
    config = sad(uniqueness_ratio=30.0)
    inputs = matched(config)
    filled = config.replace(filling='background')
    np.testing.assert_array_equal(
        refine(filled, inputs, outputs=('confidence',))['confidence'],
        refine(config, inputs, outputs=('confidence',))['confidence'])


@pytest.mark.parametrize('config', [
    sad(min_disparity=-3), sad(reference_image='right', min_disparity=5),
    bp(border='keep', filling='background'), bp(subpixel=False)], ids=str)
def test_fixed_point_disparities_are_sixteenths_without_the_calibrations_shift(config):
    inputs = matched(config)
    fixed = refine(config, inputs, CALIBRATION, ('fixed_disparity',))['fixed_disparity']
    unshifted = refine(config.replace(pre_adjust_disparity=False), inputs, CALIBRATION)
    assert (fixed == 16 * (config.min_disparity - 1)).any() or config.border == 'keep'
    np.testing.assert_array_equal(fixed, 16 * unshifted['disparity'])


@pytest.mark.parametrize('name', OUTPUTS)
@pytest.mark.parametrize('config', [sad(), bp(), sad(reference_image='right')], ids=str)
def test_each_output_is_the_same_alone_and_with_the_others(config, name):
    inputs = matched(config)
    together = refine(config, inputs, CALIBRATION, OUTPUTS)
    np.testing.assert_array_equal(refine(config, inputs, CALIBRATION, (name,))[name],
                                  together[name])


@pytest.mark.parametrize(('config', 'outputs', 'expected'), [
    (sad(), ('disparity', 'depth'), set()),
    (sad(), ('confidence',), {'best', 'second'}),
    (bp(uniqueness_ratio=5.0), ('disparity',), {'best', 'second'}),
    (bp(disp12_max_diff=1), ('disparity',), {'right_label'}),
    (sad(texture_threshold=10), ('depth',), {'texture'}),
])
def test_only_what_is_needed_is_asked_for(config, outputs, expected):
    needed = stage.needs(config, outputs)
    assert {name for name in ('best', 'second', 'right_label', 'texture')
            if getattr(needed, name)} == expected


@pytest.mark.parametrize('make', [sad, bp])
def test_what_is_not_needed_may_be_missing(make):
    inputs = matched(make())
    bare = {**inputs, 'best': None, 'second': None, 'right_label': None, 'grey': None}
    np.testing.assert_array_equal(refined(make(), bare), refined(make(), inputs))


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
    refine(first, {**inputs, 'best': None, 'second': None, 'right_label': None, 'grey': None})
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
