"""Refinement on the CPU, every step against its definition written as plain loops."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines.cpu import scratch
from test.cases import slow
from test.engines.support import naive_refinement
from test.engines.support.refinement import (
    HEIGHT,
    WIDTH,
    bp,
    combined,
    holed,
    matched,
    plain_sixteenths,
    refine,
    refined,
    sad,
    window_of,
)

# --- rejection

@pytest.mark.parametrize('config', [
    *(sad(uniqueness_ratio=ratio) for ratio in (1.0, 10.0, 33.3, 100.0)),
    *(bp(uniqueness_ratio=ratio, message_type=message_type)
      for ratio in (20.0, 50.0, 100.0) for message_type in ('int16', 'float32'))], ids=str)
def test_the_best_needs_a_lead_over_the_second(config):
    """Of SAD over a part of itself, of BP over a part of the largest data cost."""
    inputs = matched(config)
    # As in OpenCV, a second best at exactly a ratio of 10 is rejected; without one none is.
    none = np.inf if inputs['second'].dtype == np.float32 else NO_SECOND
    inputs['best'][10, 30:34], inputs['second'][10, 30:34] = 100, (109, 110, 111, none)
    best, second = inputs['best'].astype(float), inputs['second'].astype(float)
    if config.stereo_algorithm == 'sad':
        is_unique = 100.0 * second > (100.0 + config.uniqueness_ratio) * best
    else:
        is_unique = second - best >= config.uniqueness_ratio / 100 * 10.0
    expected = np.where(is_unique, plain_sixteenths(config, inputs), -16)
    found = refined(config, inputs, largest_cost=10.0)
    np.testing.assert_array_equal(found, expected)
    if config.uniqueness_ratio == 10:
        assert (found[10, 30:34] >= 0).tolist() == [False, False, True, True]


@pytest.mark.parametrize('config', [
    sad(correlation_window_size=5, texture_threshold=500),
    bp(correlation_window_size=9, texture_threshold=200),
    sad(sobel_scale=1.0, prefilter_cap=31.0, texture_threshold=200),
    sad(sobel_scale=1.0, prefilter_cap=0.0, texture_threshold=500)], ids=str)
def test_texture_is_the_sum_of_clipped_derivatives_over_the_window(config):
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
            window = extended[y:y + 2 * half + 1, x:x + 2 * half + 1]
            if window.sum() < config.texture_threshold:
                expected[y, x] = -16
    np.testing.assert_array_equal(refined(config, inputs), expected)
    assert (expected >= 0).any()
    assert (expected < plain_sixteenths(config, inputs)).any()


@pytest.mark.parametrize('config', [
    *(make(disp12_max_diff=limit, **changes) for limit in (1, 3)
      for make, changes in ((sad, {}), (sad, {'min_disparity': -9}), (bp, {'min_disparity': 4}),
                            (bp, {'border': 'keep'}))),
    *(combined(min_disparity=first, disp12_max_diff=limit, border=border)
      for border in ('invalid', 'keep') for limit, first in ((0, 0), (0, 5), (0, -9), (1, 0)))],
    ids=str)
def test_the_left_right_check_compares_labels_of_both_images(config):
    """With multi-feature costs a pixel needs its partner in any case, but with the border."""
    limit = config.disp12_max_diff
    inputs = matched(config)
    label = inputs['label'].astype(int)
    partner = np.arange(WIDTH) - (config.min_disparity + label)
    has_partner = (partner >= 0) & (partner < WIDTH)
    other = np.take_along_axis(inputs['right_label'], np.clip(partner, 0, WIDTH - 1), 1)
    agrees = has_partner & (other >= 0) & (np.abs(label - other) <= limit)
    needs_partner = config.has_combined_cost and config.border == 'invalid'
    is_kept = agrees if limit else has_partner | (not needs_partner)
    plain = plain_sixteenths(config, inputs)
    expected = np.where(is_kept, plain, -16)
    np.testing.assert_array_equal(refined(config, inputs), expected)
    assert (expected >= 0).any()
    assert (expected < plain).any() == bool(limit or needs_partner)


# --- filters

@pytest.mark.parametrize('side', [3, 5])
@pytest.mark.parametrize('config', [sad(min_disparity=-20), bp(border='keep')], ids=str)
def test_the_median_is_taken_over_sixteenths(config, side):
    config = config.replace(median_window_size=side, uniqueness_ratio=15.0)
    inputs = matched(config)
    rejected = refined(config.replace(median_window_size=0), inputs)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(rejected, side // 2, mode='edge'), (side, side))
    expected = np.median(windows, axis=(2, 3))
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


@pytest.mark.parametrize(('size', 'step', 'median'), [
    (1, 1.0, 0), (10, 1.0, 0), (40, 0.5, 0), (40, 4.0, 0), (90, 0.0, 0), (25, 1.0, 3)])
def test_regions_of_at_most_the_speckle_size_are_removed_after_the_median(size, step, median):
    config = sad(speckle_size=size, speckle_range=step, median_window_size=median)
    inputs = matched(config)
    expected = plain_speckles(refined(config.replace(speckle_size=0), inputs), size, 16 * step)
    np.testing.assert_array_equal(refined(config, inputs), expected)


@pytest.mark.parametrize(('width', 'height'), [(1, 1), (641, 119)])
def test_speckle_removal_allocates_nothing(width, height):
    arrays = {name: np.zeros(shape, dtype)
              for name, shape, dtype in scratch.refine(sad(), width, height)}
    buffer = arrays['speckle_buffer']
    _, used = cv2.filterSpeckles(arrays['sixteenths'], -16, 5, 16.0, buffer)
    assert np.shares_memory(used, buffer)


@pytest.mark.parametrize('config', [sad(min_disparity=-6), bp(border='keep'),
                                    sad(speckle_size=30)], ids=str)
def test_filling_takes_the_farther_of_both_sides_within_the_window(config):
    config = config.replace(uniqueness_ratio=30.0)
    inputs = matched(config)
    rows, columns = window_of(config)
    inputs['second'][5] = inputs['best'][5]                     # a row with nothing valid
    inputs['second'][7, :40] = inputs['best'][7, :40]           # nothing on the left
    inputs['second'][8, 40:] = inputs['best'][8, 40:]           # nothing on the right
    holes = refined(config, inputs)
    expected = naive_refinement.background(holes, (rows, columns))
    found = refined(config.replace(filling='background'), inputs)
    np.testing.assert_array_equal(found, expected)
    assert (found[5, columns] == -16).all()
    assert (found[rows, columns] >= 0).sum() > (holes[rows, columns] >= 0).sum()


# --- planes and the bilateral filter

@pytest.mark.parametrize('config', [
    sad(), bp(), combined(disparity_range=200),
    *slow(bp(border='keep'), bp(disparity_range=6, min_disparity=-3),
          combined(reference_image='right'))], ids=str)
@pytest.mark.parametrize('filling', ['none', 'background', 'plane'])
def test_filling_and_smoothing_are_those_of_their_definitions(config, filling):
    inputs = holed(config, 180, 40)
    holes = refined(config, inputs)
    window = window_of(config, 180, 40)
    background = filled = naive_refinement.background(holes, window)
    sure = naive_refinement.confidence(inputs, holes, window).astype(np.float32)
    low = 1.501 * float(np.quantile(sure[holes >= 0], 0.2))
    has_more = filling == 'plane' and config.stereo_algorithm == 'bp'
    for threshold in (0.0, low) if has_more else (0.0,):
        if filling == 'plane':
            filled = naive_refinement.with_planes(
                holes, background, sure, inputs['grey'], window, 2 / 3 * threshold,
                16 * (config.disparity_range - 1))
            assert (filled != background).any()
        for passes, sigma in ((0, 2.0), (1, 0.1), (2, 3.0), (1, 100.0)):
            expected = naive_refinement.bilateral(filled, passes, sigma)
            if filling == 'none':
                expected = np.where(holes < 0, -16, expected)
            found = refined(config.replace(
                filling=filling, bilateral_passes=passes, bilateral_sigma=sigma,
                confidence_threshold=threshold), inputs)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(('slope', 'jump'), [((0, 0), 0), ((-4, 5), 0), ((3, -9), 0),
                                             ((-4, 5), 320)])
def test_a_hole_in_a_plane_is_filled_with_it_whatever_lies_behind(slope, jump):
    """``jump``: sixteenths by which what lies on the right is nearer, and as much darker."""
    config = combined(disparity_range=200, filling='plane', border='keep')
    inputs = matched(config, 300, 120)
    x, y = np.meshgrid(np.arange(300), np.arange(120))
    whole = 1500 + slope[0] * x + slope[1] * y + jump * (x >= 200)
    inputs['grey'] = np.where(x >= 200, 100.0, 200.0).astype(np.float32)
    inputs['label'][:] = (whole + 8) >> 4
    inputs['fraction'][:] = whole - 16 * inputs['label']
    inputs['second'][:] = inputs['best'] + 20
    hole = (slice(40, 80), slice(120, 190))
    inputs['label'][hole] = -1
    found = refined(config, inputs)
    assert abs(found[hole] - whole[hole]).max() <= 1
    kept = np.ones(whole.shape, bool)
    kept[hole] = False
    assert (found[kept] == whole[kept]).all()


def test_filled_pixels_have_no_confidence_however_they_are_filled():
    config = combined(filling='plane', bilateral_passes=2)
    inputs = holed(config)
    holes = refined(combined(), inputs)
    inputs['second'][:] = inputs['best'] + 20
    found = refine(config, inputs, outputs=('disparity', 'confidence'))
    assert (found['confidence'][holes < 0] == 0).all()
    assert (found['confidence'][holes >= 0] > 0).all()
    assert (found['disparity'][holes < 0] >= 0).any()


# --- confidence and contrast

@pytest.mark.parametrize('changes', [{}, {'median_window_size': 3, 'speckle_size': 9}])
def test_confidence_is_that_of_its_definition(changes):
    config = bp(message_type='int16', **changes)
    inputs = matched(config)
    sixteenths = refined(config, inputs)
    assert 0.1 < (sixteenths >= 0).mean() < 0.95
    found = refine(config, inputs, outputs=('confidence',))['confidence']
    expected = naive_refinement.confidence(inputs, sixteenths, window_of(config))
    np.testing.assert_allclose(found, np.where(sixteenths < 0, 0, expected), rtol=1e-6)


def confidences_of(label):
    """Of a map of 120 x 90 labels, all of which lead as much: the middle row."""
    config = bp(message_type='int16', subpixel=False)
    inputs = matched(config, 120, 90)
    inputs['best'][:], inputs['second'][:], inputs['label'][:] = 0, 15, label
    return refine(config, inputs, outputs=('confidence',))['confidence'][45]


def test_confidence_falls_near_a_jump():
    near, plane = np.arange(120) >= 60, confidences_of(5)
    ratio = confidences_of(5 + 3 * near) / plane
    away = np.minimum(np.arange(1, 8), 6)
    for side in (ratio[60:67], ratio[59:52:-1]):
        np.testing.assert_allclose(side, away / (away + 0.5) * 6.5 / 6, rtol=1e-6)
    # Two pixels are a slope, and a straight edge bends along one axis alone.
    assert (confidences_of(5 + 2 * near) == plane)[30:].all()


def test_confidence_falls_around_holes():
    near_holes = np.full((90, 120), 5)
    near_holes[20:36, 50:70] = -1
    ratio = (confidences_of(near_holes) / confidences_of(5))[50:70]
    assert (ratio < 0.85).all()
    assert (ratio > 0.6).all()


def test_confidence_falls_where_the_map_bends_along_both_axes():
    x, y = np.meshgrid(np.arange(120), np.arange(90))
    rough = confidences_of(5 + 2 * ((x // 8 + y // 8) % 2))
    assert (rough[30:90] < 0.25 * confidences_of(5)[60]).all()
    slanted = confidences_of(5 + x // 16 + y // 16)
    assert (slanted[30:90] > 2 * rough[30:90]).all()


@pytest.mark.parametrize('passes', [0, 2])
@pytest.mark.parametrize('reference', ['left', 'right'])
def test_a_pixel_below_the_threshold_of_confidence_is_left_out(reference, passes):
    config = bp(message_type='int16', reference_image=reference)
    inputs = matched(config)
    judged = refined(config, inputs)
    unjudged = refined(config.replace(bilateral_passes=passes), inputs)
    sure = naive_refinement.confidence(inputs, judged, window_of(config)).astype(np.float32)
    threshold = 1.001 * float(np.median(sure[judged >= 0]))
    kept = refined(config.replace(bilateral_passes=passes, confidence_threshold=threshold), inputs)
    trusted = (judged >= 0) & (sure >= threshold)
    assert 0.1 < trusted.sum() / (judged >= 0).sum() < 0.9
    assert np.array_equal(kept, np.where(trusted, unjudged, -16))


def test_with_filling_every_pixel_keeps_its_value_and_its_confidence():
    config = bp(message_type='int16', filling='background')
    inputs = matched(config)
    outputs = ('disparity', 'confidence')
    judged = refine(config.replace(confidence_threshold=0.3, contrast_threshold=50.0), inputs,
                    outputs=outputs)
    for name, values in refine(config, inputs, outputs=outputs).items():
        assert np.array_equal(judged[name], values)
    assert 0 < judged['confidence'][judged['confidence'] > 0].min() < 0.3


def test_a_pixel_in_a_window_of_little_contrast_is_left_out():
    config = bp(message_type='int16', contrast_threshold=9.0)
    inputs = matched(config)
    grey = np.random.default_rng(3).integers(0, 256, (HEIGHT, WIDTH)).astype(np.float32)
    grey[4:15, 20:40] = 250 + np.arange(20) % 9      # ranges over 8 in every window
    grey[20:30, 40:60] = 200 + np.arange(20) % 10    # over 9 in all that are whole
    grey[4:15, 42:62] = 100
    inputs['grey'] = grey
    low = np.zeros(grey.shape, bool)
    for y in range(HEIGHT):
        for x in range(WIDTH):
            window = np.s_[max(0, y - 3):y + 4, max(0, x - 3):x + 4]
            if np.ptp(grey[window]) < 9:
                low[window] = True
    low &= grey >= 128      # what is plain in a shadow matches well
    assert low[4:15, 20:40].all()
    assert not low[4:15, 42:62].any()
    plain = refined(config.replace(contrast_threshold=0.0), inputs)
    assert np.array_equal(refined(config, inputs), np.where(low, -16, plain))


@pytest.mark.parametrize('disparities', [2, 32, 128, 256])
def test_the_sigma_is_of_pixels_whatever_the_range(disparities):
    config = bp(disparity_range=disparities)
    assert quantisation.bilateral_factor(config) == math.floor(65536 / (40 * 2.0) + 0.5)
    assert quantisation.bilateral_factor(config.replace(bilateral_sigma=1.0)) == 1638
