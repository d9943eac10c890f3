"""The presets for robots and roads invent no obstacle, and find the ones that are there."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from stereo_bp_ros import StereoMatcher
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation.datasets import Dataset, open_dataset
from stereo_bp_ros.evaluation.scenes.plane import SlantedPlane
from test.cases import slow

pytest.importorskip('numba')

DISPARITIES = 64

#: Largest share of the valid pixels above 60 px, of which the real sequence has none.
MAX_PHANTOM_SHARE = 0.0005

PRESETS = ('indoor', 'road', 'road_fast', 'sad_fast')


@pytest.fixture(scope='module')
def sequence(data: pathlib.Path) -> Dataset:
    """60 real pairs of a room. Their left images are about 20 grey levels brighter than the right
    ones, one camera alone sees what is in front of it, and a window and a map are saturated."""
    folder = data / 'sequence'
    if not folder.is_dir():
        pytest.skip(f'there is no {folder}')
    return open_dataset(folder)


def disparities(preset: str, pairs: Iterator[tuple[np.ndarray, np.ndarray]]
                ) -> Iterator[np.ndarray]:
    """Of each pair, pixels; NaN where there is none."""
    config = MatcherConfig.preset(preset, disparity_range=DISPARITIES, backend='cpu')
    with StereoMatcher(config) as matcher:
        for left, right in pairs:
            frame = matcher.compute(left, right)
            assert frame.disparity is not None
            yield np.where(frame.valid, frame.disparity, np.nan)


def real_pairs(sequence: Dataset, step: int = 1) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return ((sequence[k].left, sequence[k].right) for k in range(0, len(sequence), step))


@pytest.mark.parametrize(('preset', 'step'), [
    *((preset, 6) for preset in ('indoor', 'road', 'road_fast', 'sad_fast')),
    *slow(('indoor', 1), ('road_fast', 1))])
def test_no_obstacle_is_invented_on_the_real_sequence(sequence: Dataset, preset: str, step: int
                                                      ) -> None:
    for number, found in enumerate(disparities(preset, real_pairs(sequence, step))):
        valid = np.isfinite(found)
        assert valid.mean() > 0.6, number
        assert (found[valid] > 60).mean() <= MAX_PHANTOM_SHARE, number


def test_indoor_agrees_with_road_on_the_real_sequence(sequence: Dataset) -> None:
    for number, (found, other) in enumerate(zip(*(
            disparities(preset, real_pairs(sequence, 15)) for preset in ('indoor', 'road')),
            strict=True)):
        difference = np.abs(found - other)
        assert (difference > 2).mean() < 0.005, number
        if number == 0:                 # a wall beside the left border, once 45 px too near
            assert np.nanmax(difference[130:206, 64:110]) < 2
            assert np.isfinite(difference[130:206, 64:110]).mean() > 0.9


class Scene(NamedTuple):
    """An object in front of a wall; ``inside`` is where the left image shows it."""

    left: np.ndarray
    right: np.ndarray
    truth: np.ndarray
    inside: tuple[slice, slice]


def object_before_a_wall(disparity: float, width: int, height: int) -> Scene:
    size = 400, 240
    wall = SlantedPlane(*size, disparity=17, slope_x=0, slope_y=0.02).frame(0)
    near = SlantedPlane(*size, disparity=disparity, slope_x=0, slope_y=0, seed=2).frame(0)
    left, right, truth = wall.left.copy(), wall.right.copy(), wall.disparity.copy()
    x, y = (size[0] - width) // 2, (size[1] - height) // 2
    for image, shown, begin in (
            (left, near.left, x), (right, near.right, x - round(disparity)),
            (truth, near.disparity, x)):
        place = slice(y, y + height), slice(begin, begin + width)
        image[place] = shown[place]
    return Scene(left, right, truth, (slice(y, y + height), slice(x, x + width)))


@pytest.mark.parametrize('preset', PRESETS)
@pytest.mark.parametrize('disparity', [60.0, 61.5, 63.0])
def test_an_object_at_the_end_of_the_range_is_found(preset: str, disparity: float) -> None:
    scene = object_before_a_wall(disparity, 100, 80)
    found, = disparities(preset, iter([(scene.left, scene.right)]))
    error = np.abs(found - scene.truth)[scene.inside]
    assert (error < 1.5).mean() > 0.85
    assert (error >= 1.5).mean() < 0.06


@pytest.mark.parametrize('preset', PRESETS)
@pytest.mark.parametrize(('gain', 'offset'), [(1.0, 0.0), (0.87, -4.0), (0.7, 0.0), (1.0, 30.0)])
def test_cameras_with_different_exposures_see_the_same(preset: str, gain: float, offset: float
                                                       ) -> None:
    # A wall with little texture in uneven light, as indoors: grey values of the right image are
    # those of other places in the left one.
    wall = SlantedPlane(480, 240, disparity=17, slope_x=0.01, slope_y=0.02, noise_sigma=0).frame(0)
    random = np.random.default_rng(0)
    left, right = (
        np.clip(factor * (110 + 40 * np.cos(2 * np.pi * (np.arange(480) + shift) / 200)
                          + 0.12 * (texture - 128.0))
                + added + random.normal(0, 1, texture.shape), 0, 255).round().astype(np.uint8)
        for texture, shift, factor, added in ((wall.left, 0, 1, 0),
                                              (wall.right, 17, gain, offset)))
    found, = disparities(preset, iter([(left, right)]))
    error = np.abs(found - wall.disparity)[:, DISPARITIES:]
    assert (error > 3).mean() < 0.001
    assert np.isfinite(error).mean() > 0.75
