"""SAD block matching on the CPU against the definition, written as plain loops."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stereo_bp_ros import geometry
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines.cpu import sad, scratch


def configuration(**changes):
    return MatcherConfig(stereo_algorithm='sad', **changes)


def working_arrays(config, width, height, threads=2):
    # Filled with rubbish: no result may depend on what an earlier frame left behind.
    return {name: np.full(shape, 113, dtype)
            for name, shape, dtype in scratch.sad(config, width, height, threads)}


def match(left, right, config, with_costs=True, with_right=True, threads=2):
    shape = left.shape
    found = {'label': np.full(shape, 77, np.int16), 'fraction': np.full(shape, 77, np.int8),
             'best': np.full(shape, 77, np.int32) if with_costs else None,
             'second': np.full(shape, 77, np.int32) if with_costs else None,
             'right_label': np.full(shape, 77, np.int16) if with_right else None}
    sad.match(left, right, config, **found,
              scratch=working_arrays(config, shape[1], shape[0], threads))
    return found


def naive_match(left, right, config):
    """Every sum by itself, in Python's integers."""
    height, width = left.shape
    m, D, h = (config.min_disparity, config.disparity_range,
               config.correlation_window_size // 2)
    left, right = left.astype(np.int64), right.astype(np.int64)
    label = np.full((height, width), -1)
    fraction, best, second = (np.zeros((height, width), int) for _ in range(3))
    right_label = np.full((height, width), -1)
    right_best = {}
    for y in range(h, height - h):
        for x in range(h, width - h):
            columns = [x - (m + i) for i in range(D)]
            if min(columns) - h < 0 or max(columns) + h >= width:
                continue
            costs = [int(np.abs(left[y - h:y + h + 1, x - h:x + h + 1]
                                - right[y - h:y + h + 1, c - h:c + h + 1]).sum())
                     for c in columns]
            b = costs.index(min(costs))
            label[y, x], best[y, x] = b, costs[b]
            others = [cost for i, cost in enumerate(costs) if abs(i - b) > 1]
            second[y, x] = min(others) if others else NO_SECOND
            if 0 < b < D - 1:
                minus, zero, plus = costs[b - 1:b + 2]
                rise = max(minus, plus) - zero
                fraction[y, x] = np.floor(16 * (minus - plus) / (2 * rise) + 0.5)
            for i, c in enumerate(columns):
                if (costs[i], i) < right_best.get((y, c), (1 << 40, 0)):
                    right_best[y, c] = (costs[i], i)
    for (y, c), (_, i) in right_best.items():
        right_label[y, c] = i
    return {'label': label, 'fraction': fraction, 'best': best, 'second': second,
            'right_label': right_label}


@st.composite
def cases(draw):
    window = draw(st.sampled_from([1, 3, 5, 7, 9]))
    disparities = draw(st.integers(2, 40))
    first = draw(st.integers(-30, 20))
    width, height = draw(st.integers(1, 60)), draw(st.integers(1, 16))
    levels = draw(st.sampled_from([2, 4, 256]))     # few grey levels make ties
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    left, right = random.integers(0, levels, (2, height, width), dtype=np.uint8)
    config = configuration(correlation_window_size=window, disparity_range=disparities,
                           min_disparity=first)
    return left, right, config, draw(st.integers(1, 4))


@given(cases())
@settings(max_examples=150)
def test_everything_equals_the_plain_definition(case):
    left, right, config, threads = case
    found = match(left, right, config, threads=threads)
    for name, expected in naive_match(left, right, config).items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


@pytest.mark.parametrize('window', range(1, 52, 2))
@pytest.mark.parametrize('first', [-7, 0, 3])
def test_every_window_size_equals_the_plain_definition(window, first):
    config = configuration(correlation_window_size=window, disparity_range=9,
                           min_disparity=first)
    left, right = np.random.default_rng(window).integers(
        0, 256, (2, window + 2, window + 19), dtype=np.uint8)
    found = match(left, right, config)
    expected = naive_match(left, right, config)
    assert (expected['label'] >= 0).any()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.parametrize('disparities', [2, 3, 63, 64, 65, 100, 511, 512])
def test_every_disparity_range_equals_the_plain_definition(disparities):
    config = configuration(correlation_window_size=3, disparity_range=disparities)
    left, right = np.random.default_rng(disparities).integers(
        0, 8, (2, 5, disparities + 21), dtype=np.uint8)
    found = match(left, right, config)
    for name, expected in naive_match(left, right, config).items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


def test_the_largest_sum_does_not_overflow():
    config = configuration(correlation_window_size=51, disparity_range=4)
    left, right = np.full((51, 54), 255, np.uint8), np.zeros((51, 54), np.uint8)
    found = match(left, right, config)
    assert found['label'][25, 28] == 0
    assert found['best'][25, 28] == 51 * 51 * 255
    assert found['second'][25, 28] == 51 * 51 * 255


@pytest.mark.parametrize('first', [-20, -3, 0, 5, 30])
@pytest.mark.parametrize('window', [1, 5, 21])
def test_labels_lie_exactly_in_the_valid_window(window, first):
    config = configuration(correlation_window_size=window, disparity_range=16,
                           min_disparity=first)
    left, right = np.random.default_rng(0).integers(0, 256, (2, 30, 80), dtype=np.uint8)
    inside = np.zeros(left.shape, bool)
    inside[geometry.valid_window(config, 80, 30).slices] = True
    np.testing.assert_array_equal(match(left, right, config)['label'] >= 0, inside)


@pytest.mark.parametrize(('width', 'height'), [(1, 1), (4, 40), (40, 4), (15, 40)])
def test_an_image_smaller_than_window_or_range_has_no_label(width, height):
    config = configuration(correlation_window_size=5, disparity_range=16)
    image = np.zeros((height, width), np.uint8)
    found = match(image, image, config)
    assert (found['label'] == -1).all()
    assert (found['right_label'] == -1).all()
    assert (found['fraction'] == 0).all()


@pytest.mark.parametrize('disparity', [-6, 0, 11])
def test_a_shifted_image_has_its_shift_everywhere(textured_pair, disparity):
    left, right = textured_pair(90, 30, disparity)
    config = configuration(correlation_window_size=7, min_disparity=-8, disparity_range=24)
    found = match(left, right, config)
    window = geometry.valid_window(config, 90, 30).slices
    assert (found['label'][window] == disparity + 8).all()
    assert (found['best'][window] == 0).all()
    assert (found['second'][window] > 0).all()


def test_fractions_do_not_lock_to_whole_pixels():
    """Of textures shifted by parts of a pixel, the mean error is that of StereoBM or less."""
    config = configuration(correlation_window_size=15, disparity_range=16, preprocessing='none')
    inside = geometry.valid_window(config, 160, 60).slices
    errors = []
    for sixteenths in range(0, 16, 3):
        left, right = shifted_texture(160, 60, 7 + sixteenths / 16)
        found = match(left, right, config)
        errors.append(found['label'][inside] + found['fraction'][inside] / 16 - 7
                      - sixteenths / 16)
    assert np.abs(errors).mean() < 0.03                         # with a parabola 0.06
    assert np.abs(np.mean(errors, axis=(1, 2))).max() < 0.03    # with a parabola 0.11


def shifted_texture(width, height, disparity):
    """A random band-limited uint8 pair of any disparity: shifted in the spectrum."""
    random = np.random.default_rng(1).normal(size=(height, width + 32))
    frequencies = np.fft.rfftfreq(width + 32)
    spectrum = np.fft.rfft(random, axis=1) * (frequencies < 0.25)
    pair = [np.fft.irfft(spectrum * np.exp(2j * np.pi * frequencies * shift), width + 32, axis=1)
            for shift in (0, disparity)]
    return [np.clip(60 * image + 128, 0, 255).round().astype(np.uint8)[:, 16:16 + width]
            for image in pair]


def test_the_mirrored_and_swapped_pair_has_the_right_image_as_reference(textured_pair):
    left, right = textured_pair(90, 30, 9)
    config = configuration(correlation_window_size=5, disparity_range=16,
                           reference_image='right')
    found = match(np.ascontiguousarray(right[:, ::-1]), np.ascontiguousarray(left[:, ::-1]),
                  config)
    window = geometry.valid_window(config, 90, 30).slices
    assert (found['label'][:, ::-1][window] == 9).all()
    assert (found['label'] >= 0).sum() == found['label'][window].size


def test_what_was_not_asked_for_changes_nothing(textured_pair):
    left, right = textured_pair(70, 20, 4)
    config = configuration(correlation_window_size=5, disparity_range=10)
    complete = match(left, right, config)
    for with_costs, with_right in ((False, False), (True, False), (False, True)):
        found = match(left, right, config, with_costs, with_right)
        for name, array in found.items():
            if array is not None:
                np.testing.assert_array_equal(array, complete[name], err_msg=name)


def test_the_result_does_not_depend_on_threads_and_bands():
    config = configuration(correlation_window_size=9, disparity_range=20)
    left, right = np.random.default_rng(3).integers(0, 6, (2, 43, 90), dtype=np.uint8)
    complete = match(left, right, config, threads=1)
    previous = numba.get_num_threads()
    try:
        for threads in (1, previous):
            numba.set_num_threads(threads)
            for bands in (1, 2, 3, 8, 50):
                for name, array in match(left, right, config, threads=bands).items():
                    np.testing.assert_array_equal(array, complete[name], err_msg=name)
    finally:
        numba.set_num_threads(previous)
