"""Refinement on a GPU, stage by stage, against OpenCV and plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cuda.stages import refine
from test.engines.support import device_memory, naive_refinement

pytestmark = pytest.mark.gpu

INVALID = -16
SIZES = ((1, 1), (3, 70), (33, 31), (64, 64), (97, 70), (258, 129), (1280, 720))


class Stage:
    """The stage for one size, given sixteenths of a pixel in place of labels."""

    def __init__(self, width: int, height: int, disparities: int = 64,
                 **settings: Any) -> None:
        self.config = MatcherConfig(disparity_range=disparities, levels=1, iterations=1,
                                    border='keep', **settings)
        self.memory = device_memory.Memory(self.config, width, height)
        self.stage = refine.Refine(self.memory.context)

    def run(self, sixteenths: np.ndarray, **settings: Any) -> np.ndarray:
        """Sixteenths after refinement; ``settings`` are live ones."""
        host, memory = self.memory.arena.host, self.memory
        config = self.config.replace(**settings)
        memory.put('label', np.where(sixteenths < 0, -1, sixteenths >> 4).astype(np.int16))
        memory.put('fraction', (sixteenths & 15).astype(np.int8))
        parameters = refine.Parameters.from_buffer(host['parameters'].data)
        parameters.fill(config, None)
        parameters.bind({'disparity': memory.arena.host_address['disparity']})
        memory.put('parameters', host['parameters'])
        host['disparity'].fill(np.nan)
        self.stage.enqueue(memory.stream.ptr, refine.steps(config, ('disparity',)), 'grey')
        memory.stream.synchronize()
        return np.int16(16 * host['disparity'])

    def close(self) -> None:
        self.memory.arena.close()


def without_speckles(sixteenths: np.ndarray, size: int, step: float) -> np.ndarray:
    result = sixteenths.copy()
    cv2.filterSpeckles(result, INVALID, size, 16 * step)
    return result


def spiral(width: int, height: int) -> np.ndarray:
    """One path a pixel wide, from the corner to the middle."""
    image = np.full((height, width), INVALID, np.int16)
    left, top, right, bottom = 0, 0, width - 1, height - 1
    while left <= right and top <= bottom:
        image[top, max(left - 2, 0):right + 1] = 160
        image[top:bottom + 1, right] = 160
        if top < bottom:
            image[bottom, left:right + 1] = 160
        if left < right:
            image[top + 2:bottom + 1, left] = 160
        left, top, right, bottom = left + 2, top + 2, right - 2, bottom - 2
    return image


def serpentine(width: int, height: int) -> np.ndarray:
    """Rows that are connected at their right and left ends in turn."""
    image = np.full((height, width), INVALID, np.int16)
    image[::2] = 320
    image[1::4, -1] = image[3::4, 0] = 320
    return image


def comb(width: int, height: int) -> np.ndarray:
    """Teeth that meet in the last row."""
    image = np.full((height, width), INVALID, np.int16)
    image[:, ::2] = 48
    image[-1] = 48
    return image


def random(width: int, height: int) -> np.random.Generator:
    return np.random.default_rng(width * height)


def noise(width: int, height: int) -> np.ndarray:
    return random(width, height).choice(np.int16([INVALID, 0, 8, 24, 200]), (height, width))


def porous(width: int, height: int) -> np.ndarray:
    """As many pixels valid as make clusters of every size (site percolation: 59.3 %)."""
    valid = random(width, height).random((height, width)) < 0.593
    return np.where(valid, 400, INVALID).astype(np.int16)


PATTERNS: dict[str, Callable[[int, int], np.ndarray]] = {
    'spiral': spiral, 'serpentine': serpentine, 'comb': comb, 'noise': noise, 'porous': porous,
    'checkerboard': lambda width, height: np.where(
        np.indices((height, width)).sum(axis=0) % 2, 900, 96).astype(np.int16),
    'one region': lambda width, height: np.full((height, width), 99, np.int16),
    'nothing': lambda width, height: np.full((height, width), INVALID, np.int16),
}


@pytest.mark.parametrize(('width', 'height'), SIZES)
@pytest.mark.parametrize('pattern', PATTERNS)
def test_speckles_are_those_of_opencv(pattern: str, width: int, height: int) -> None:
    image = PATTERNS[pattern](width, height)
    valid = int((image >= 0).sum())
    stage = Stage(width, height)
    for step in (0.0, 0.5, 1.0):
        for size in {min(max(size, 1), 100_000) for size in (1, 2, 5, 30, valid - 1, valid)}:
            found = stage.run(image, speckle_size=size, speckle_range=step)
            np.testing.assert_array_equal(found, without_speckles(image, size, step))
    stage.close()


def test_regions_are_found_in_every_order_of_the_threads() -> None:
    width, height = 640, 480
    image = porous(width, height)
    image[200:280] = 400
    expected = without_speckles(image, 300, 1.0)
    stage = Stage(width, height)
    for _ in range(300):
        np.testing.assert_array_equal(stage.run(image, speckle_size=300), expected)
    stage.close()


@pytest.mark.parametrize(('width', 'height'), SIZES)
@pytest.mark.parametrize('side', [3, 5])
def test_the_median_is_that_of_opencv(side: int, width: int, height: int) -> None:
    image = random(width, height).integers(-40, 1008, (height, width)).astype(np.int16)
    image[image < 0] = INVALID
    # A pixel without label stays so.
    expected = np.where(image < 0, INVALID, cv2.medianBlur(image, side))
    stage = Stage(width, height)
    np.testing.assert_array_equal(stage.run(image, median_window_size=side), expected)
    stage.close()


def filled(row: np.ndarray) -> np.ndarray:
    """The smaller of the nearest valid values on both sides."""
    result = row.copy()
    valid = np.flatnonzero(row >= 0)
    for x in np.flatnonzero(row < 0):
        near = [row[side] for side in (valid[valid < x][-1:], valid[valid > x][:1]) if side.size]
        result[x] = min((int(value[0]) for value in near), default=INVALID)
    return result


@pytest.mark.parametrize(('width', 'height'), SIZES)
@pytest.mark.parametrize('valid', [0.0, 0.01, 0.6])
def test_holes_in_the_window_take_the_farther_of_both_sides(valid: float, width: int,
                                                            height: int) -> None:
    rng = random(width, height)
    image = rng.integers(0, 32, (height, width)).astype(np.int16)
    image[rng.random((height, width)) > valid] = INVALID
    stage = Stage(width, height, disparities=2)
    rows, columns = geometry.matched_window(stage.config, width, height).slices
    for speckle_size in (0, 1):
        expected = without_speckles(image, speckle_size, 1.0) if speckle_size else image.copy()
        for row in expected[rows]:
            row[columns] = filled(row[columns])
        found = stage.run(image, speckle_size=speckle_size, filling='background')
        np.testing.assert_array_equal(found, expected)
    stage.close()


@pytest.mark.parametrize(('width', 'height'), [(1, 1), (3, 70), (70, 33), (258, 129)])
@pytest.mark.parametrize('filling', ['none', 'background'])
def test_filling_and_smoothing_are_those_of_their_definitions(filling: str, width: int,
                                                              height: int) -> None:
    rng = random(width, height)
    image = np.add.outer(np.arange(height) * 5, np.arange(width) * -2) + 2 * width
    image = np.clip(image + rng.integers(-9, 10, image.shape), 0, 16 * 511).astype(np.int16)
    image[rng.random(image.shape) < 0.2] = INVALID
    for row in image:
        row[:rng.integers(0, width // 2 + 1)] = INVALID
    # The window begins at column 1.
    stage = Stage(width, height, disparities=512, census_weight=1.0)
    found = geometry.matched_window(stage.config, width, height).slices
    filled = naive_refinement.background(image, found)
    for passes, sigma in ((0, 2.0), (1, 0.1), (2, 3.0), (1, 100.0)):
        expected = naive_refinement.bilateral(filled, passes, sigma).copy()
        if filling == 'none':
            expected[image < 0] = INVALID
        np.testing.assert_array_equal(
            stage.run(image, filling=filling, bilateral_passes=passes, bilateral_sigma=sigma),
            expected)
    stage.close()
