"""Grey values of every encoding, with padded rows and in both byte orders."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.stages import convert
from stereo_bp_ros.images import ENCODINGS, RawImage

CONFIG = MatcherConfig()
WIDTH, HEIGHT = 34, 19

# OpenCV's BT.601 in whole numbers: 15 bits, rounded half up.
RED, GREEN, BLUE = 9798, 19235, 3735

COLOUR_ORDER = {'rgb8': 'rgb', 'bgr8': 'bgr', '8UC3': 'bgr', 'rgba8': 'rgba', 'bgra8': 'bgra'}
# Colours of the first two pixels of the first row and of the second row, as ROS defines the name.
MOSAICS = {'bayer_rggb8': 'rggb', 'bayer_bggr8': 'bggr', 'bayer_gbrg8': 'gbrg',
           'bayer_grbg8': 'grbg'}
WIDE_MOSAICS = {f'{name[:-1]}16': pattern for name, pattern in MOSAICS.items()}
# Rows of bytes for two rows of pixels, where planes of chroma follow the luma.
PLANES = {'nv12': 3, 'nv21': 3, 'nv24': 6}


def grey_of(raw, config=CONFIG):
    arrays = {name: np.full(shape, 91, dtype)
              for name, shape, dtype in scratch.convert(raw.width, raw.height)}
    grey = np.full((raw.height, raw.width), np.nan, np.float32)
    convert.to_grey(raw, grey, config.mono16_scale, arrays)
    return grey


def padded(pixels, encoding, padding, big_endian=False):
    """A RawImage of bytes whose rows are followed by ``padding`` bytes of rubbish."""
    rows = pixels.reshape(pixels.shape[0], -1)
    if pixels.dtype == np.uint16:
        rows = np.ascontiguousarray(rows.astype('>u2' if big_endian else '<u2')).view(np.uint8)
    rubbish = np.full((rows.shape[0], padding), 199, np.uint8)
    data = np.hstack([rows, rubbish]).tobytes()
    height = 2 * pixels.shape[0] // PLANES.get(encoding, 2)
    return RawImage(data, height, pixels.shape[1], rows.shape[1] + padding, encoding, big_endian)


def random_pixels(encoding, seed=0):
    layout = ENCODINGS[encoding]
    height = (HEIGHT - 1) * PLANES[encoding] // 2 if encoding in PLANES else HEIGHT
    shape = (height, WIDTH) + ((layout.channels,) if layout.channels > 1 else ())
    limit = 2**layout.bits
    dtype = np.uint16 if layout.bits == 16 else np.uint8
    return np.random.default_rng(seed).integers(0, limit, shape, dtype=dtype)


def bt601(red, green, blue):
    total = RED * red.astype(int) + GREEN * green.astype(int) + BLUE * blue.astype(int)
    return (total + (1 << 14)) >> 15


def demosaiced(pixels, pattern):
    """Bilinear demosaicing and BT.601 of 14 bits in one rounding, in whole numbers."""
    height, width = pixels.shape
    colours = np.array(list(pattern)).reshape(2, 2)
    grey = np.zeros((height, width), int)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            for colour, weight in (('r', 4899), ('g', 9617), ('b', 1868)):
                near = [(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)
                        if colours[(y + dy) % 2, (x + dx) % 2] == colour]
                if (y, x) in near:
                    near = [(y, x)]
                grey[y, x] += weight * sum(int(pixels[at]) for at in near) * 4 // len(near)
            grey[y, x] = (grey[y, x] + 2**15) >> 16
    inner_rows, inner_columns = (np.clip(np.arange(size), 1, size - 2)
                                 for size in (height, width))
    return grey[np.ix_(inner_rows, inner_columns)]


def expected_grey(pixels, encoding):
    """The definition, without OpenCV where it is short."""
    if encoding in COLOUR_ORDER:
        channel = {name: pixels[:, :, i] for i, name in enumerate(COLOUR_ORDER[encoding])}
        return bt601(channel['r'], channel['g'], channel['b'])
    if encoding in ('yuv422', 'uyvy'):
        return pixels[:, :, 1]
    if encoding in ('yuv422_yuy2', 'yuyv'):
        return pixels[:, :, 0]
    if encoding in ('mono16', '16UC1'):
        return pixels / 256
    if encoding in WIDE_MOSAICS:
        return demosaiced(pixels, WIDE_MOSAICS[encoding]) / 256
    if encoding in PLANES:
        return pixels[:2 * len(pixels) // PLANES[encoding]]
    if encoding in MOSAICS:
        return demosaiced(pixels, MOSAICS[encoding])
    return pixels


@pytest.mark.parametrize('padding', [0, 1, 6, 31])
@pytest.mark.parametrize('encoding', sorted(ENCODINGS))
def test_every_encoding_gives_its_grey_values_whatever_the_padding(encoding, padding):
    pixels = random_pixels(encoding)
    np.testing.assert_array_equal(grey_of(padded(pixels, encoding, padding)),
                                  expected_grey(pixels, encoding))


@pytest.mark.parametrize('encoding', sorted(COLOUR_ORDER))
def test_colour_equals_opencv_in_8_bits(encoding):
    code = {'rgb': cv2.COLOR_RGB2GRAY, 'bgr': cv2.COLOR_BGR2GRAY,
            'rgba': cv2.COLOR_RGBA2GRAY, 'bgra': cv2.COLOR_BGRA2GRAY}[COLOUR_ORDER[encoding]]
    pixels = random_pixels(encoding, seed=1)
    np.testing.assert_array_equal(grey_of(RawImage.from_array(pixels, encoding)),
                                  cv2.cvtColor(pixels, code))


@pytest.mark.parametrize('big_endian', [False, True])
@pytest.mark.parametrize('padding', [0, 2, 5])
@pytest.mark.parametrize('encoding', sorted(WIDE_MOSAICS))
def test_a_mosaic_of_16_bits_is_rounded_once_and_scaled(encoding, padding, big_endian):
    config = MatcherConfig(mono16_scale=255 / 4095)
    pixels = random_pixels(encoding, seed=3)
    pixels[:, ::5] = pixels[:5] = 65535      # whose sums may overflow nothing
    expected = demosaiced(pixels, WIDE_MOSAICS[encoding])
    np.testing.assert_array_equal(grey_of(padded(pixels, encoding, padding, big_endian), config),
                                  expected.astype(np.float32) * np.float32(255 / 4095))


@pytest.mark.parametrize('encoding', sorted(MOSAICS))
@pytest.mark.parametrize('colour', ['r', 'g', 'b'])
def test_a_mosaic_of_one_colour_has_the_grey_value_of_that_colour(encoding, colour):
    # Only the pixels under that filter are bright; a wrong pattern gives another colour's weight.
    pattern = np.array(list(MOSAICS[encoding])).reshape(2, 2)
    lit = np.tile(pattern == colour, (HEIGHT // 2 + 1, WIDTH // 2))[:HEIGHT]
    mosaic = np.where(lit, 240, 0).astype(np.uint8)
    weight = {'r': RED, 'g': GREEN, 'b': BLUE}[colour] / 2**15
    inner = grey_of(padded(mosaic, encoding, 3))[2:-2, 2:-2]
    assert np.abs(inner - 240 * weight).max() <= 1


@pytest.mark.parametrize('big_endian', [False, True])
@pytest.mark.parametrize('padding', [0, 2, 5])
@pytest.mark.parametrize('encoding', ['mono16', '16UC1'])
def test_sixteen_bits_are_scaled_and_not_rounded(encoding, padding, big_endian):
    config = MatcherConfig(mono16_scale=255 / 4095)
    pixels = random_pixels(encoding) >> 4
    grey = grey_of(padded(pixels, encoding, padding, big_endian), config)
    np.testing.assert_array_equal(grey, pixels.astype(np.float32) * np.float32(255 / 4095))
    assert (grey != np.round(grey)).any()


@pytest.mark.parametrize('encoding', sorted(ENCODINGS))
@pytest.mark.parametrize('shape', [(1, 2), (2, 2), (1, 40), (40, 2)])
def test_tiny_images_have_finite_grey_values(encoding, shape):
    layout = ENCODINGS[encoding]
    height = 2 * shape[0] if encoding in ('nv12', 'nv21') else shape[0]
    size = (layout.rows(height), shape[1]) + ((layout.channels,) if layout.channels > 1 else ())
    pixels = np.full(size, 100 << (layout.bits - 8), np.uint16 if layout.bits == 16 else np.uint8)
    grey = grey_of(padded(pixels, encoding, 4))
    assert ((grey >= 0) & (grey <= 255)).all()


def test_the_message_is_read_and_never_written():
    pixels = random_pixels('rgb8')
    raw = padded(pixels, 'rgb8', 5)
    before = bytes(raw.data)
    grey_of(raw)
    assert raw.data == before
