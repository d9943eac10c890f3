"""Preprocessing on the CPU against its definitions in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.stages import preprocess

SIZES = [(40, 23), (17, 31), (5, 4), (3, 1), (1, 1)]


def image(width=40, height=23, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width)).astype(np.float32)


def run(grey, config):
    height, width = grey.shape
    arrays = {name: np.full(shape, np.nan, dtype)
              for name, shape, dtype in scratch.preprocess(config, width, height)}
    smoothed, matched = np.full_like(grey, np.nan), np.full_like(grey, np.nan)
    preprocess.preprocess(grey, config, smoothed, matched, arrays)
    return smoothed, matched


def correlate(values, kernel):
    """Plain correlation in float64, borders replicated."""
    kernel = np.asarray(kernel, np.float64)
    top, left = kernel.shape[0] // 2, kernel.shape[1] // 2
    extended = np.pad(values.astype(np.float64), ((top, top), (left, left)), mode='edge')
    out = np.zeros(values.shape)
    for (i, j), factor in np.ndenumerate(kernel):
        out += factor * extended[i:i + values.shape[0], j:j + values.shape[1]]
    return out


def gaussian(values, sigma):
    radius = math.ceil(4 * sigma) + 1
    weights = np.exp(-np.arange(-radius, radius + 1.0)**2 / (2 * sigma**2))
    weights /= weights.sum()
    return correlate(correlate(values, weights[None, :]), weights[:, None])


SOBEL_X = [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]
SOBEL_Y = np.transpose(SOBEL_X)


@pytest.mark.parametrize('sigma', [0.3, 1.0, 2.5])
@pytest.mark.parametrize('size', SIZES)
def test_the_gaussian_equals_its_definition(size, sigma):
    grey = image(*size)
    smoothed, matched = run(grey, MatcherConfig(preprocessing='none', smoothing_sigma=sigma))
    np.testing.assert_allclose(smoothed, gaussian(grey, sigma), atol=1e-4, rtol=0)
    np.testing.assert_array_equal(matched, smoothed)


@pytest.mark.parametrize('method', ['none', 'sobel_x', 'sobel', 'residual'])
def test_smoothing_in_place_is_the_same_where_there_is_none(method):
    config = MatcherConfig(preprocessing=method)
    grey = image()
    _, expected = run(grey, config)
    matched = np.empty_like(grey)
    untouched = grey.copy()
    preprocess.preprocess(grey, config, grey, matched, {'plane_a': np.empty_like(grey)})
    np.testing.assert_array_equal(matched, expected)
    np.testing.assert_array_equal(grey, untouched)
    assert np.array_equal(matched, grey) == (method == 'none')


def sobel_x(values, scale, cap):
    return np.clip(scale * correlate(values, SOBEL_X), -cap, cap)


def sobel(values, scale, cap):
    return np.minimum(scale * np.hypot(correlate(values, SOBEL_X), correlate(values, SOBEL_Y)),
                      cap)


@pytest.mark.parametrize('size', SIZES)
@pytest.mark.parametrize(('scale', 'cap'), [(0.25, 63.0), (1.0, 31.0), (1.0, 0.0), (0.5, 20.5)])
def test_derivatives_equal_their_definitions_after_the_gaussian(size, scale, cap):
    """Sobel x of whole grey values is exact."""
    grey = image(*size)
    for function in (sobel_x, sobel):
        for sigma in (0.0, 0.7):
            _, matched = run(grey, MatcherConfig(
                preprocessing=function.__name__, sobel_scale=scale, prefilter_cap=cap,
                smoothing_sigma=sigma))
            expected = function(gaussian(grey, sigma) if sigma else grey, scale, cap or np.inf)
            is_exact = function is sobel_x and not sigma
            np.testing.assert_allclose(matched, expected, rtol=0 if is_exact else 1e-6,
                                       atol=0 if is_exact else 5e-4)


@pytest.mark.parametrize('size', SIZES)
@pytest.mark.parametrize(('side', 'iterations'), [(3, 1), (11, 1), (3, 4), (51, 2)])
def test_the_residual_subtracts_the_box_mean_as_often_as_asked(size, side, iterations):
    grey = image(*size)
    _, matched = run(grey, MatcherConfig(preprocessing='residual', residual_window_size=side,
                                         residual_iterations=iterations))
    expected = grey.astype(np.float64)
    for _ in range(iterations):
        expected = expected - correlate(expected, np.full((side, side), 1 / side**2))
    np.testing.assert_allclose(matched, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(('method', 'offset'), [('none', 0), ('sobel', 0), ('sobel_x', 128),
                                                ('residual', 128)])
def test_eight_bits_are_rounded_half_up_offset_and_clipped(method, offset):
    values = np.array([[-1e6, -129, -128.5, -2.5, -0.5, -0.25, 0, 0.49999997, 0.5, 1.5, 2.5,
                        126.5, 127.49, 127.5, 254.49, 254.5, 255, 300.7, 1e6]], np.float32)
    out = np.empty(values.shape, np.uint8)
    preprocess.to_8bit(values, MatcherConfig(preprocessing=method), out)
    expected = np.clip(np.floor(values.astype(np.float64) + 0.5) + offset, 0, 255)
    np.testing.assert_array_equal(out, expected)
