"""Tiled belief propagation on the CPU: the definition tile by tile, threads, and the energy."""

from __future__ import annotations

import pathlib
from typing import Any

import cv2
import numpy as np
import pytest

from test.cases import slow
from test.engines.support import naive_bp, naive_tiled
from test.engines.support.pairs import noisy_pair

pytest.importorskip('numba')
from stereo_bp_ros import ConfigError, MatcherConfig, StereoMatcher
from stereo_bp_ros.config import quantisation
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from test.settings import paper, tiled


def configuration(**changes: Any) -> MatcherConfig:
    return paper(**{'stereo_algorithm': 'tiled_bp', 'disparity_range': 9, 'tile_size': 5,
                           'discontinuity_truncation': 2.5, **changes})


def matched(config: MatcherConfig, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return StereoMatcher(config, backend='cpu').compute(left, right).disparity


@pytest.mark.parametrize('message_type', ['int16', 'float32'])
@pytest.mark.parametrize(('size', 'changes'), [
    *(((31, 18), changes) for changes in (
        {'inner_iterations': 3}, {'outer_iterations': 2, 'inner_iterations': 2},
        {'tile_size': 2}, {'tile_size': 40, 'inner_iterations': 2},
        {'disparity_range': 21, 'min_disparity': -4}, {'disparity_range': 2},
        {'discontinuity_slope': 9.0})),
    *((size, {'outer_iterations': 2}) for size in ((1, 1), (2, 9), (23, 1), (10, 15)))], ids=str)
def test_labels_equal_those_of_the_plain_implementation(size: tuple[int, int],
                                                        changes: dict[str, Any],
                                                        message_type: str) -> None:
    config = configuration(message_type=message_type, **changes)
    left, right = noisy_pair(*size)
    beliefs = naive_tiled.beliefs(left.astype(np.float32), right.astype(np.float32), config)
    assert np.array_equal(matched(config, left, right),
                          np.argmin(beliefs, axis=2) + config.min_disparity)


def test_both_computations_of_a_message_give_the_same_bits() -> None:
    left, right = noisy_pair(40, 27)
    for slope in (0.3, 1.0, 2.5, 7.0):
        plain, fast = (matched(configuration(subpixel=True, discontinuity_slope=slope,
                                             **tiled(computation=name)), left, right)
                       for name in ('plain', 'fast'))
        assert np.array_equal(plain, fast)


def test_labels_of_the_other_image_come_from_the_same_beliefs() -> None:
    config = configuration(disp12_max_diff=1, border='invalid')
    left, right = noisy_pair(44, 20)
    beliefs = naive_tiled.beliefs(left.astype(np.float32), right.astype(np.float32), config)
    label = np.argmin(beliefs, axis=2)
    other = naive_bp.offered(beliefs, 0, border=0)[1]
    partner = np.arange(44) - label
    agrees = np.abs(np.take_along_axis(other, np.maximum(partner, 0), 1) - label) <= 1
    is_inside = np.arange(44) >= config.disparity_range - 1
    assert np.array_equal(matched(config, left, right), np.where(is_inside & agrees, label, -1))


@pytest.mark.parametrize('name', ['tsukuba', *slow('venus')])
def test_energy_of_two_inner_iterations_is_below_that_of_an_untiled_one(data: pathlib.Path,
                                                                        name: str) -> None:
    pair = next(pair for pair in open_dataset(data / 'middlebury') if pair.name == name)
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
