"""Whether the bytes of an image are what its encoding, step and byte order say.

Neighbouring pixels of a picture resemble each other. Where they do so far more in another reading
of the same bytes, that is probably the right one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import Issue, IssueCode

#: Roughness of what is noise rather than a picture.
NOISE = 0.6

#: Rows that are examined, and the minimum side of an image, pixels.
ROWS, MIN_SIDE = 48, 16

#: Roughness of a reading from which another may be right, and how many times smoother that is:
#: pictures have from 0.03 to 0.2, noise has 1.
MIN_ROUGHNESS, SMOOTHER = 0.1, 2.0

#: Minimum difference of distant pixels, grey levels; below it nothing is decided.
MIN_SPREAD = 2.0

#: How many times as much a byte differs from the next at one place of a group of bytes than at
#: another, where pixels are such groups; and how many times as much neighbours differ as those one
#: further do, where two colours alternate: of one colour they differ less.
UNEVEN, ALTERNATING = 1.5, 1.25

#: Maximum padding of a row by drivers, bytes.
MAX_PADDING = 255


class _Group(NamedTuple):
    """Pixels that lie together: so many in so many bytes."""

    pixels: int
    size: int
    name: str


_UNPACK = ' a pixel, packed (have the driver send mono16 or mono8)'

#: Of encodings with one byte a pixel, with two (YUV 4:2:2), with three.
_GROUPS = {
    1: (_Group(4, 5, f'10 bits{_UNPACK}'), _Group(2, 3, f'12 bits{_UNPACK}'),
        _Group(1, 2, 'of two bytes a pixel (mono16, yuv422 or yuv422_yuy2)'),
        _Group(1, 3, 'of three bytes a pixel (rgb8 or bgr8)'),
        _Group(1, 4, 'of four bytes a pixel (rgba8 or bgra8)')),
    2: (_Group(1, 3, 'of three bytes a pixel (rgb8 or bgr8)'),
        _Group(1, 4, 'of four bytes a pixel (rgba8 or bgra8)')),
    3: (_Group(1, 4, 'of four bytes a pixel (rgba8 or bgra8)'),)}


def check_bytes(left: RawImage, right: RawImage) -> list[Issue]:
    """The pixels of both images are where their encodings say; some 0.3 ms for 1242 x 375."""
    for side, image in (('left', left), ('right', right)):
        if min(image.width, image.height) >= MIN_SIDE and (meant := _meant(image)):
            return [IssueCode.PIXEL_BYTES.issue(
                f'the {side} image is {image.encoding} ({image.width} pixels in a step of '
                f'{image.step} bytes), but seems to be {meant}: its neighbouring pixels are far '
                'more alike then')]
    return []


def _meant(image: RawImage) -> str:
    """In which other reading neighbours are far more alike; '' = none."""
    layout = image.layout
    if layout.bits == 16:
        distance = 2 if layout.bayer else 1
        values = _sample(image)
        if _is_smoother(_roughness(values.byteswap(), distance, 0.0),
                        _roughness(values, distance, 0.0)):
            return ('of the other byte order, the two bytes of each value exchanged: set '
                    f'is_bigendian to {int(not image.big_endian)}, or swap them in the files')
        return ''
    if layout.luma >= 0:
        luma, chroma = (_sample(image)[..., channel] for channel in (layout.luma, 1 - layout.luma))
        near, far = _difference(luma, 1), _difference(luma, 2)
        other_near, other_far = _difference(chroma, 1), _difference(chroma, 2)
        if other_far > SMOOTHER * far + 1 or (
                near > ALTERNATING * far + 1 and other_near < other_far):
            return 'yuv422' if layout.luma == 0 else 'yuv422_yuy2'
        if _roughness(luma, 1) > NOISE and other_near < other_far and _is_smoother(
                _roughness(chroma, 1) or math.inf, _roughness(luma, 1)):
            return ('of 16 bits, whose lower ones are taken for luma (mono16, is_bigendian '
                    f'{int(layout.luma == 1)})')
    return _packed(image)


def _packed(image: RawImage) -> str:
    """What a step that is longer than the rows of pixels means."""
    unit = image.layout.pixel_bytes
    declared = unit * image.width
    for group in _GROUPS.get(unit, ()):
        size = group.size * image.width // group.pixels
        if not size <= image.step <= size + MAX_PADDING:
            continue
        count = size // group.size * group.size
        rows = _rows(image, count).astype(np.int16)
        distance = 2 * unit if image.layout.bayer else unit
        roughness = _roughness(rows[:, :declared], distance)
        phases = [_roughness(rows[:, k::group.size], 1) or math.inf for k in range(group.size)]
        steps = np.abs(np.diff(rows, axis=1))
        uneven = [float(steps[:, k::group.size].mean()) for k in range(group.size)]
        if _is_smoother(min(phases), roughness) or (
                unit == 1 and group.size > 2 and max(uneven) > UNEVEN * min(uneven) + 1):
            return group.name
    return ''


def _sample(image: RawImage) -> np.ndarray:
    return image.pixels[::max(1, image.height // ROWS)]


def _rows(image: RawImage, count: int) -> np.ndarray:
    """uint8 N x count: bytes of some rows, with what follows their pixels; not of the last row,
    whose end need not be there."""
    step = max(1, image.height // ROWS)
    return np.ndarray(((image.height - 2) // step + 1, count), np.uint8,
                      buffer=memoryview(image.data).cast('B'), strides=(step * image.step, 1))


def _difference(values: np.ndarray, distance: int) -> float:
    """Mean absolute difference of values in a row, so far apart."""
    signed = values.astype(np.int32)
    return float(np.abs(signed[:, distance:] - signed[:, :-distance]).mean())


def _roughness(values: np.ndarray, distance: int, min_spread: float = MIN_SPREAD) -> float:
    """How much neighbours differ, as a part of how much distant pixels do; 0 where these do not.
    """
    signed = values.astype(np.int32)
    distant = np.roll(signed, (len(signed) // 2, signed.shape[1] // 2), (0, 1))
    spread = float(np.abs(signed - distant).mean())
    return _difference(signed, distance) / spread if spread > min_spread else 0.0


def _is_smoother(other: float, declared: float) -> bool:
    return declared >= MIN_ROUGHNESS and SMOOTHER * other < declared
