"""Tiled belief propagation on the CPU: the definition tile by tile, threads, and the energy."""

from __future__ import annotations

import pathlib
from typing import Any

import cv2
import numpy as np
import pytest

from test.engines.support import naive_tiled
from test.engines.support.pairs import noisy_pair

pytest.importorskip('numba')
from stereo_bp_ros import ConfigError, MatcherConfig, StereoMatcher
from stereo_bp_ros.config import quantisation
from stereo_bp_ros.evaluation.datasets import open_dataset
from test.settings import paper, tiled


def configuration(**changes: Any) -> MatcherConfig:
    return paper(**{'stereo_algorithm': 'tiled_bp', 'disparity_range': 9, 'tile_size': 5,
                           'discontinuity_truncation': 2.5, **changes})


def matched(config: MatcherConfig, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return StereoMatcher(config, backend='cpu').compute(left, right).disparity


def naive(config: MatcherConfig, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    beliefs = naive_tiled.beliefs(left.astype(np.float32), right.astype(np.float32), config)
    return np.argmin(beliefs, axis=2) + config.min_disparity


@pytest.mark.parametrize('message_type', ['int16', 'float32'])
@pytest.mark.parametrize('changes', [
    {}, {'inner_iterations': 3}, {'outer_iterations': 2}, {'tile_size': 2},
    {'tile_size': 40, 'inner_iterations': 2}, {'outer_iterations': 2, 'inner_iterations': 2},
    {'disparity_range': 21, 'min_disparity': -4}, {'disparity_range': 2},
    {'discontinuity_slope': 9.0}], ids=str)
def test_labels_equal_those_of_the_plain_implementation(changes: dict[str, Any],
                                                        message_type: str) -> None:
    config = configuration(message_type=message_type, **changes)
    left, right = noisy_pair(31, 18)
    assert np.array_equal(matched(config, left, right), naive(config, left, right))


@pytest.mark.parametrize(('width', 'height'), [(1, 1), (2, 9), (23, 1), (10, 15)])
def test_the_least_images(width: int, height: int) -> None:
    config = configuration(outer_iterations=2)
    left, right = noisy_pair(width, height)
    assert np.array_equal(matched(config, left, right), naive(config, left, right))


def test_both_computations_of_a_message_give_the_same_bits() -> None:
    left, right = noisy_pair(40, 27)
    for slope in (0.3, 1.0, 2.5, 7.0):
        plain, fast = (matched(configuration(subpixel=True, discontinuity_slope=slope,
                                             **tiled(computation=name)), left, right)
                       for name in ('plain', 'fast'))
        assert np.array_equal(plain, fast)


@pytest.mark.parametrize('message_type', ['int16', 'float32'])
def test_results_do_not_depend_on_the_number_of_threads(message_type: str) -> None:
    left, right = noisy_pair(60, 41)
    config = configuration(message_type=message_type, disp12_max_diff=1, subpixel=True)
    frames = [StereoMatcher(config.replace(num_threads=threads), backend='cpu').compute(
        left, right, outputs=('disparity', 'confidence')) for threads in (1, 2)]
    assert np.array_equal(frames[0].disparity, frames[1].disparity)
    assert np.array_equal(frames[0].confidence, frames[1].confidence)


def test_labels_of_the_other_image_come_from_the_same_beliefs() -> None:
    config = configuration(disp12_max_diff=1, border='invalid')
    left, right = noisy_pair(44, 20)
    beliefs = naive_tiled.beliefs(left.astype(np.float32), right.astype(np.float32), config)
    height, width, labels = beliefs.shape
    expected = np.argmin(beliefs, axis=2).astype(float)
    for y in range(height):
        for x in range(width):
            other = x - int(expected[y, x])
            rivals = [(beliefs[y, other + d, d], d) for d in range(labels)
                      if labels - 1 <= other + d < width]
            if x < labels - 1 or not rivals or abs(min(rivals)[1] - expected[y, x]) > 1:
                expected[y, x] = -1
    # Where a pixel is rejected already when it is not yet known which labels remain.
    assert np.array_equal(matched(config, left, right), expected)


@pytest.mark.parametrize('name', ['tsukuba', 'venus'])
def test_energy_of_two_inner_iterations_is_below_that_of_an_untiled_one(data: pathlib.Path,
                                                                        name: str) -> None:
    pair = {one.name: one for one in open_dataset(data / 'middlebury')}[name]
    left, right = (cv2.cvtColor(side, cv2.COLOR_RGB2GRAY) if side.ndim == 3 else side
                   for side in (pair.left, pair.right))
    config = configuration(disparity_range=pair.disparities, discontinuity_truncation=0.0,
                           tile_size=13)
    images = left.astype(np.float32), right.astype(np.float32)
    untiled = np.argmin(naive_tiled.untiled_beliefs(*images, config), axis=2)
    limit = naive_tiled.energy(untiled, *images, config)
    once, twice = (naive_tiled.energy(
        matched(config.replace(inner_iterations=inner), left, right).astype(int), *images, config)
        for inner in (1, 2))
    assert twice < limit
    # With one, what a tile forgets between its two visits costs a few per cent.
    assert limit < once < 1.05 * limit


@pytest.mark.slow
def test_energy_is_below_that_of_one_raster_iteration_without_tiles(data: pathlib.Path) -> None:
    pair = {one.name: one for one in open_dataset(data / 'middlebury')}['tsukuba']
    left, right = ((cv2.cvtColor(side, cv2.COLOR_RGB2GRAY) if side.ndim == 3 else side)
                   [100:170, 110:220] for side in (pair.left, pair.right))
    config = configuration(disparity_range=16, discontinuity_truncation=0.0, tile_size=13)
    images = left.astype(np.float32), right.astype(np.float32)
    untiled = np.argmin(naive_tiled.beliefs(*images, config, size=1), axis=2)
    tiled = matched(config, left, right).astype(int)
    assert (naive_tiled.energy(tiled, *images, config)
            < 0.9 * naive_tiled.energy(untiled, *images, config))


def test_what_tiled_belief_propagation_has_not_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match='int16 or float32'):
        configuration(message_type='float16')
    with pytest.raises(ConfigError, match='stereo_algorithm bp'):
        configuration(message_type='float32', exact=True)
    for schedule in ('rows', 'speculative'):
        with pytest.raises(ConfigError, match=f'{schedule} .* cooperative, lock_free or launches'):
            configuration(**tiled(schedule, synchronisation='all'))
    with pytest.raises(ConfigError, match='use rows or auto'):
        configuration(inner_iterations=2, **tiled('speculative'))


def test_levels_do_not_limit_the_scale_of_16_bits() -> None:
    scales = {quantisation.message_scale(configuration(levels=levels)) for levels in (1, 5, 10)}
    assert scales == {40}
