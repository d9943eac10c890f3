"""How many rows the images of a pair miss each other by: measured, or said to be unknown."""

from __future__ import annotations

import pathlib

import cv2
import numpy as np
import pytest

from stereo_bp_ros.alignment import MAX_WIDTH, vertical_offset
from stereo_bp_ros.evaluation.datasets import open_dataset
from test.slanted_plane import SlantedPlane

#: A scene is rendered so much larger, so that a row of it is a known part of a pixel.
FINER = 4
LAST = 63


def small(image: np.ndarray, lower: int, seed: int) -> np.ndarray:
    """An image whose content lies lower by ``lower`` / 4 rows, with the noise of a sensor."""
    moved = np.roll(image, lower, axis=0)
    size = (image.shape[1] // FINER, image.shape[0] // FINER)
    grey = cv2.resize(moved, size, interpolation=cv2.INTER_AREA).astype(np.float64)
    grey += 5 * np.random.default_rng(seed).standard_normal(grey.shape)
    return np.asarray(np.clip(np.rint(grey), 0, 255).astype(np.uint8))


def plane(width: int = 320, height: int = 240, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    frame = SlantedPlane(width=width, height=height, slope_x=0.01, seed=seed).frame(0)
    return frame.left, frame.right


def turned(image: np.ndarray, rows: float) -> np.ndarray:
    """An image rolled by so much that its right edge is lower than its left one by ``rows``."""
    height, width = image.shape
    angle = np.degrees(np.arctan(rows / (width - 1)))
    turn = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), -angle, 1.0)
    return np.asarray(cv2.warpAffine(image, turn, (width, height), flags=cv2.INTER_LANCZOS4,
                                     borderMode=cv2.BORDER_REPLICATE))


@pytest.mark.parametrize('quarters', [0, 1, 3, -23, 49])
def test_an_offset_is_known_to_a_tenth_of_a_pixel_under_the_noise_of_a_sensor(quarters: int
                                                                              ) -> None:
    left, right = (cv2.GaussianBlur(image, (0, 0), 3) for image in plane(FINER * 320, FINER * 200))
    found = vertical_offset(small(left, 0, 0), small(right, quarters, 1), 0, LAST)
    assert found is not None
    assert found.offset == pytest.approx(quarters / FINER, abs=0.1)
    assert abs(found.tilt) < 0.3
    assert found.points >= 20


@pytest.mark.parametrize('rows', [-3.0, 0.5])
def test_a_rolled_camera_is_a_tilt_around_the_middle(rows: float) -> None:
    left, right = plane()
    found = vertical_offset(left, turned(right, rows), 0, LAST)
    assert found is not None
    assert found.tilt == pytest.approx(rows, abs=0.15)
    # The right camera turns around its own middle, where it shows what lies 20 columns to the
    # right in the left image.
    assert found.offset == pytest.approx(-rows * 20 / 320, abs=0.03)
    assert found.largest == pytest.approx(abs(rows) * (1 / 2 + 20 / 320), abs=0.1)


def test_another_exposure_of_one_camera_and_columns_that_repeat_change_nothing() -> None:
    left, right = plane()
    brighter = np.clip(0.6 * right + 60, 0, 255).astype(np.uint8)
    found, other = (vertical_offset(left, image, 0, LAST) for image in (right, brighter))
    assert found is not None
    assert other is not None
    assert other.offset == pytest.approx(found.offset, abs=0.03)
    # As along a fence: any of the posts has the right row.
    rows = np.random.default_rng(0).integers(0, 256, (240, 8), np.uint8)
    left = cv2.GaussianBlur(np.tile(rows, 40), (3, 3), 0)
    found = vertical_offset(left, np.roll(left, 2, axis=0), 0, LAST)
    assert found is not None
    assert found.offset == pytest.approx(2, abs=0.05)


def test_an_offset_that_cannot_be_told_is_unknown() -> None:
    random = np.random.default_rng(1)
    left, right = plane()
    tile = np.tile(random.integers(0, 256, (5, 320), np.uint8), (48, 1))
    along_rows = np.repeat(random.integers(0, 256, (240, 1), np.uint8), 320, axis=1)
    along_columns = np.repeat(random.integers(0, 256, (1, 320), np.uint8), 240, axis=0)
    corner = [image.copy() for image in (left, right)]
    for image in corner:
        image[:, 60:] = 128
    for pair in ((np.full_like(left, 128),) * 2, (left, plane(seed=2)[1]), (tile, tile),
                 (along_rows, along_rows), (along_columns, along_columns), corner,
                 random.integers(0, 256, (2, 240, 320), np.uint8),
                 (left, np.roll(right, 60, axis=0)), (left[:12, :12], right[:12, :12])):
        assert vertical_offset(pair[0], pair[1], 0, LAST) is None


def test_negative_disparities_are_searched_where_they_are_the_range() -> None:
    left, right = plane()
    moved = np.roll(left, -1, axis=0)
    assert vertical_offset(right, moved, 0, LAST) is None
    found = vertical_offset(right, moved, -LAST, 0)
    assert found is not None
    assert found.offset == pytest.approx(-1, abs=0.05)


def test_images_that_are_made_smaller_have_the_offset_of_their_own_pixels() -> None:
    left, right = plane(width=2560, height=480)
    assert left.shape[1] > MAX_WIDTH
    found = vertical_offset(left, np.roll(right, 5, axis=0), 0, LAST)
    assert found is not None
    assert found.offset == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize('folder', ['kitti2012', 'driving'])
def test_real_pairs_have_small_offsets_and_moved_ones_the_difference(data: pathlib.Path,
                                                                     folder: str) -> None:
    pairs = open_dataset(data / folder)
    for index in range(0, len(pairs), max(1, len(pairs) // 3)):
        pair = pairs[index]
        last = (pair.disparities or 128) - 1
        own = vertical_offset(pair.left, pair.right, 0, last)
        moved = vertical_offset(pair.left, np.roll(pair.right, 3, axis=0), 0, last)
        assert own is not None, pair.name
        assert moved is not None, pair.name
        assert abs(own.offset) < 0.5, pair.name
        assert moved.offset - own.offset == pytest.approx(3, abs=0.1), pair.name
