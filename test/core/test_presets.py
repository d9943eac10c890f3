"""The presets for robots and roads invent no obstacle, and find the ones that are there."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest

from stereo_bp_ros import StereoMatcher
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from test.slanted_plane import SlantedPlane

pytest.importorskip('numba')

DISPARITIES = 64

#: Largest share of the valid pixels above 60 px, of which the real sequence has none.
MAX_PHANTOM_SHARE = 0.0005

PRESETS = ('indoor', 'road', 'road_full', 'road_fast', 'sad_fast')


def disparities(preset: str, pairs: Iterable[tuple[np.ndarray, np.ndarray]]
                ) -> Iterator[np.ndarray]:
    """Of each pair, pixels; NaN where there is none."""
    config = MatcherConfig.preset(preset, disparity_range=DISPARITIES, backend='cpu')
    with StereoMatcher(config) as matcher:
        for left, right in pairs:
            frame = matcher.compute(left, right)
            assert frame.disparity is not None
            yield np.where(frame.valid, frame.disparity, np.nan)


@pytest.fixture(scope='module')
def of_the_sequence(data: pathlib.Path) -> Callable[[str], list[np.ndarray]]:
    """Disparities of four of 60 real pairs of a room, by preset.

    Left images are about 20 grey levels brighter than the right ones, one camera alone sees what
    is in front of it, and a window and a map are saturated.
    """
    folder = data / 'sequence'
    if not folder.is_dir():
        pytest.skip(f'there is no {folder}')
    sequence = open_dataset(folder)
    pairs = [(sequence[k].left, sequence[k].right) for k in range(0, len(sequence), 15)]
    return functools.cache(lambda preset: list(disparities(preset, pairs)))


@pytest.mark.parametrize('preset', PRESETS)
def test_no_obstacle_is_invented_on_the_real_sequence(
        preset: str, of_the_sequence: Callable[[str], list[np.ndarray]]) -> None:
    for number, found in enumerate(of_the_sequence(preset)):
        valid = np.isfinite(found)
        assert valid.mean() > 0.6, number
        assert (found[valid] > 60).mean() <= MAX_PHANTOM_SHARE, number


def test_indoor_agrees_with_road_full_on_the_real_sequence(
        of_the_sequence: Callable[[str], list[np.ndarray]]) -> None:
    differences = [np.abs(indoor - road) for indoor, road in zip(
        of_the_sequence('indoor'), of_the_sequence('road_full'), strict=True)]
    for number, difference in enumerate(differences):
        assert (difference > 2).mean() < 0.005, number
    # A wall beside the left border, once 45 px too near.
    wall = differences[0][130:206, 64:110]
    assert np.nanmax(wall) < 2
    assert np.isfinite(wall).mean() > 0.9


@pytest.mark.parametrize('preset', PRESETS)
@pytest.mark.parametrize('disparity', [60.0, 61.5])
def test_an_object_at_the_end_of_the_range_is_found(preset: str, disparity: float) -> None:
    size = 400, 240
    wall = SlantedPlane(*size, disparity=17, slope_x=0, slope_y=0.02).frame(0)
    near = SlantedPlane(*size, disparity=disparity, slope_x=0, slope_y=0, seed=2).frame(0)
    rows, columns = slice(80, 160), slice(150, 250)
    behind = slice(150 - round(disparity), 250 - round(disparity))
    left, right, truth = wall.left.copy(), wall.right.copy(), wall.disparity.copy()
    left[rows, columns] = near.left[rows, columns]
    right[rows, behind] = near.right[rows, behind]
    truth[rows, columns] = near.disparity[rows, columns]
    found, = disparities(preset, [(left, right)])
    error = np.abs(found - truth)[rows, columns]
    assert (error < 1.5).mean() > 0.85
    assert (error >= 1.5).mean() < 0.06


@pytest.mark.parametrize('preset', PRESETS)
@pytest.mark.parametrize(('gain', 'offset'), [(0.7, 0.0), (1.0, 30.0)])
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
    found, = disparities(preset, [(left, right)])
    error = np.abs(found - wall.disparity)[:, DISPARITIES:]
    assert (error > 3).mean() < 0.001
    assert np.isfinite(error).mean() > 0.75
