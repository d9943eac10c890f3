"""SAD block matching on the CPU against the definition, written as plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cpu import sad, scratch
from stereo_bp_ros.engines.cpu.matching import Matches
from test.cases import examples, slow


def configuration(**changes):
    return MatcherConfig(stereo_algorithm='sad', **changes)


def match(left, right, config, with_costs=True, with_right=True, threads=2):
    """Everything that is filled; no result may depend on what an earlier frame left behind."""
    height, width = left.shape
    found = {name: np.full(left.shape, 77, kind) for name, kind in (
        ('label', np.int16), ('fraction', np.int8), ('best', np.int32), ('second', np.int32),
        ('right_label', np.int16))}
    arrays = {name: np.full(shape, 113, kind)
              for name, shape, kind in scratch.sad(config, width, height, threads)}
    sad.match(left, right, config, Matches(**found, with_costs=with_costs, with_right=with_right),
              arrays)
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


def check(left, right, config, threads=2):
    found = match(left, right, config, threads=threads)
    for name, expected in naive_match(left, right, config).items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)
    return found


@given(cases())
@settings(max_examples=examples(150))
def test_everything_equals_the_plain_definition(case):
    check(*case)


#: Few grey levels make ties; images of one are too small for any label.
@pytest.mark.parametrize(('window', 'disparities', 'first', 'width', 'height', 'levels'), [
    *((window, 9, first, window + 39, window + 2, 256)
      for window in (1, 21, 51) for first in (-20, 0, 30)),
    *((3, disparities, 0, disparities + 21, 5, 8)
      for disparities in (2, 3, 63, 64, 65, 511, 512)),
    *((5, 16, 0, *size, 1) for size in ((1, 1), (4, 40), (40, 4), (15, 40))),
    *slow(*((window, 9, 3, window + 19, window + 2, 256) for window in range(3, 50, 2)))])
def test_every_window_and_range_equals_the_plain_definition(window, disparities, first, width,
                                                            height, levels):
    config = configuration(correlation_window_size=window, disparity_range=disparities,
                           min_disparity=first)
    found = check(*np.random.default_rng(window).integers(0, levels, (2, height, width), np.uint8),
                  config)
    assert (found['label'] >= 0).any() == (levels > 1)
    inside = np.zeros((height, width), bool)
    inside[geometry.valid_window(config, width, height).slices] = True
    np.testing.assert_array_equal(found['label'] >= 0, inside)


def test_the_largest_sum_does_not_overflow():
    config = configuration(correlation_window_size=51, disparity_range=4)
    left, right = np.full((51, 54), 255, np.uint8), np.zeros((51, 54), np.uint8)
    found = match(left, right, config)
    assert found['label'][25, 28] == 0
    assert found['best'][25, 28] == found['second'][25, 28] == 51 * 51 * 255


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
    return [np.clip(60 * image[:, 16:16 + width] + 128, 0, 255).round().astype(np.uint8)
            for image in pair]


def test_what_was_not_asked_for_is_not_written_and_changes_nothing(textured_pair):
    left, right = textured_pair(70, 20, 4)
    config = configuration(correlation_window_size=5, disparity_range=10)
    complete = match(left, right, config)
    for with_costs, with_right in ((False, False), (True, False), (False, True)):
        found = match(left, right, config, with_costs, with_right)
        wanted = {'best': with_costs, 'second': with_costs, 'right_label': with_right}
        for name, array in found.items():
            np.testing.assert_array_equal(array, complete[name] if wanted.get(name, True) else 77,
                                          err_msg=name)
