"""Side-by-side images come apart into views of both cameras' images."""

from __future__ import annotations

import numpy as np
import pytest

from stereo_bp_ros.errors import InputError
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.side_by_side import LAYOUTS, split

PAIR = np.random.default_rng(3).integers(0, 256, (2, 8, 8, 3)).astype(np.uint8)


def joined(layout: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    first, second = (right, left) if layout == 'right_left' else (left, right)
    return np.concatenate((first, second), axis=0 if layout == 'top_bottom' else 1)


@pytest.mark.parametrize('layout', LAYOUTS)
@pytest.mark.parametrize(('encoding', 'channels'), [('mono8', 1), ('rgb8', 3), ('yuv422', 2),
                                               ('bayer_rggb8', 1)])
def test_each_half_is_a_view_of_its_camera(layout: str, encoding: str, channels: int) -> None:
    left, right = PAIR[:, :, :, 0] if channels == 1 else PAIR[:, :, :, :channels]
    whole = RawImage.from_array(joined(layout, left, right), encoding)
    for half, camera in zip(split(whole, layout), (left, right), strict=True):
        assert half.encoding == encoding
        np.testing.assert_array_equal(half.pixels, camera)
        assert np.shares_memory(half.pixels, whole.pixels)


@pytest.mark.parametrize('layout', LAYOUTS)
def test_halves_of_padded_rows_and_16_bits_keep_their_values(layout: str) -> None:
    left, right = PAIR[:, :, :, 0].astype('>u2') * 257
    whole = joined(layout, left, right).astype('>u2')
    step = 2 * whole.shape[1] + 6
    rows = np.zeros((whole.shape[0], step), np.uint8)
    rows[:, :2 * whole.shape[1]] = np.ascontiguousarray(whole).view(np.uint8)
    image = RawImage(rows.tobytes(), *whole.shape, step, 'mono16', big_endian=True)
    for half, camera in zip(split(image, layout), (left, right), strict=True):
        np.testing.assert_array_equal(half.pixels, camera)


@pytest.mark.parametrize('layout', LAYOUTS)
@pytest.mark.parametrize(('encoding', 'chroma_rows'), [('nv12', 1), ('nv24', 4)])
def test_halves_of_planes_are_the_luma(layout: str, encoding: str, chroma_rows: int) -> None:
    left, right = PAIR[:, :, :, 0]
    whole = joined(layout, left, right)
    chroma = np.full((whole.shape[0] // 2 * chroma_rows, whole.shape[1]), 128, np.uint8)
    image = RawImage.from_array(np.concatenate((whole, chroma)), encoding)
    for half, camera in zip(split(image, layout), (left, right), strict=True):
        assert half.encoding == 'mono8'
        np.testing.assert_array_equal(half.pixels, camera)


@pytest.mark.parametrize(('layout', 'shape', 'encoding', 'multiple'), [
    ('left_right', (4, 5), 'mono8', 2), ('right_left', (4, 5, 3), 'rgb8', 2),
    ('top_bottom', (5, 4), 'mono8', 2), ('left_right', (4, 6), 'bayer_rggb8', 4),
    ('top_bottom', (6, 4), 'bayer_rggb8', 4), ('left_right', (4, 6, 2), 'yuv422', 4)])
def test_an_image_without_equal_halves_is_rejected(layout: str, shape: tuple[int, ...],
                                                   encoding: str, multiple: int) -> None:
    image = RawImage.from_array(np.zeros(shape, np.uint8), encoding)
    with pytest.raises(InputError, match=f'multiple of {multiple}'):
        split(image, layout)
