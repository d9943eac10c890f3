"""Grey values of every encoding, with padded rows and in both byte orders."""

from __future__ import annotations

import dataclasses

import cv2
import numpy as np
import pytest

from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.stages import convert
from stereo_bp_ros.images.raw_images import ENCODINGS
from test.engines.support.pairs import random_raw

COLOURS = {'rgb8': cv2.COLOR_RGB2GRAY, 'bgr8': cv2.COLOR_BGR2GRAY, '8UC3': cv2.COLOR_BGR2GRAY,
           'rgba8': cv2.COLOR_RGBA2GRAY, 'bgra8': cv2.COLOR_BGRA2GRAY}


def grey_of(raw, scale=1 / 256):
    arrays = {name: np.full(shape, 91, dtype)
              for name, shape, dtype in scratch.convert(raw.width, raw.height)}
    grey = np.full((raw.height, raw.width), np.nan, np.float32)
    convert.to_grey(raw, grey, scale, arrays)
    return grey


def demosaiced(pixels, pattern):
    """Bilinear demosaicing and BT.601 of 14 bits in one rounding, in whole numbers.

    :param pattern: colours of the first two pixels of the first row and of the second, as ROS
        defines the name of the encoding.
    """
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


def expected_grey(raw):
    """The definition, in whole numbers, and OpenCV's of colours."""
    pixels = raw.pixels
    if raw.encoding in COLOURS:
        return cv2.cvtColor(np.ascontiguousarray(pixels), COLOURS[raw.encoding])
    if raw.encoding in ('yuv422', 'uyvy'):
        return pixels[:, :, 1]
    if raw.encoding in ('yuv422_yuy2', 'yuyv'):
        return pixels[:, :, 0]
    if raw.encoding.startswith('bayer'):
        return demosaiced(pixels, raw.encoding[6:10])
    return pixels[:raw.height]


@pytest.mark.parametrize(('encoding', 'big_endian'), [
    (name, big_endian) for name, layout in sorted(ENCODINGS.items())
    for big_endian in ((False, True) if layout.bits == 16 else (False,))])
def test_every_encoding_gives_its_grey_values(encoding, big_endian):
    """Those of 16 bits are scaled and not rounded; sums of the largest overflow nothing."""
    for padding in (0, 1, 6):
        raw = random_raw(encoding, 34, 19, padding=padding, big_endian=big_endian)
        data = np.frombuffer(raw.data, np.uint8).copy()
        data[:5 * raw.step] = 255
        raw = dataclasses.replace(raw, data=data.tobytes())
        scale = np.float32(255 / 4095) if raw.layout.bits == 16 else 1
        np.testing.assert_array_equal(grey_of(raw, 255 / 4095),
                                      expected_grey(raw).astype(np.float32) * scale)


@pytest.mark.parametrize('encoding', ['mono8', 'mono16', 'rgb8', 'bgra8', 'yuv422', 'nv12', 'nv24',
                                      'bayer_rggb8', 'bayer_gbrg16'])
def test_tiny_images_have_grey_values(encoding):
    for width, height in ((2, 1), (2, 2), (40, 1), (2, 40)):
        height = max(height, 1 + ENCODINGS[encoding].has_even_height)
        grey = grey_of(random_raw(encoding, width, height, padding=4))
        assert ((grey >= 0) & (grey < 256)).all()
