"""Raw images: validated views of bytes, from arrays or from anything Image-like.

No ROS package is imported: a message is read through its field names alone.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np

from stereo_bp_ros.errors import InputError, InputReason, quoted


@dataclasses.dataclass(frozen=True)
class Encoding:
    """How the bytes of one ``sensor_msgs/Image`` encoding are to be read."""

    channels: int
    bits: int = 8
    bayer: str = ''     # first two letters of the pattern's first row, as ROS names it
    luma: int = -1      # channel of the luma where the image is YUV 4:2:2, else -1

    @property
    def pixel_bytes(self) -> int:
        return self.channels * self.bits // 8


#: Every encoding that is read without a copy, by its name in ``sensor_msgs``.
ENCODINGS = {
    'mono8': Encoding(1),
    '8UC1': Encoding(1),
    'mono16': Encoding(1, bits=16),
    '16UC1': Encoding(1, bits=16),
    'rgb8': Encoding(3),
    'bgr8': Encoding(3),
    '8UC3': Encoding(3),
    'rgba8': Encoding(4),
    'bgra8': Encoding(4),
    'bayer_rggb8': Encoding(1, bayer='rggb'),
    'bayer_bggr8': Encoding(1, bayer='bggr'),
    'bayer_gbrg8': Encoding(1, bayer='gbrg'),
    'bayer_grbg8': Encoding(1, bayer='grbg'),
    'yuv422': Encoding(2, luma=1),
    'uyvy': Encoding(2, luma=1),
    'yuv422_yuy2': Encoding(2, luma=0),
    'yuyv': Encoding(2, luma=0),
}


@dataclasses.dataclass(frozen=True)
class RawImage:
    """One image as it arrives: a view of somebody's bytes, validated, never copied.

    data:       object with the buffer protocol (bytes, array.array, ndarray), at least
                ``step * height`` bytes.
    height, width: pixels.
    step:       bytes from one row to the next, >= width x bytes per pixel.
    encoding:   a key of ``ENCODINGS``; 8UC3 is read as bgr8, as OpenCV means it.
    big_endian: byte order of 16-bit values.

    :raises InputError: unknown encoding, bad size, bad step or short data.
    """

    data: Any
    height: int
    width: int
    step: int
    encoding: str
    big_endian: bool = False

    def __post_init__(self) -> None:
        known = ENCODINGS.get(self.encoding)
        if known is None:
            raise InputError(InputReason.UNKNOWN_ENCODING, quoted(self.encoding),
                             'supported are ' + ', '.join(sorted(ENCODINGS)))
        if self.width < 1 or self.height < 1:
            raise InputError(InputReason.BAD_SIZE, f'{self.width} x {self.height}',
                             'width and height must be at least 1 pixel')
        if known.luma >= 0 and self.width % 2:
            raise InputError(InputReason.BAD_SIZE, f'{self.encoding} of width {self.width}',
                             'YUV 4:2:2 images have an even width')
        row_bytes = self.width * known.pixel_bytes
        if self.step < row_bytes:
            raise InputError(InputReason.BAD_STEP, f'step is {self.step}',
                             f'a row of {self.width} {self.encoding} pixels has {row_bytes} bytes')
        # The last row need not be padded: cameras differ in whether they send its tail.
        needed = self.step * (self.height - 1) + row_bytes
        available = memoryview(self.data).nbytes
        if available < needed:
            raise InputError(InputReason.SHORT_DATA, f'{available} bytes of data',
                             f'step x height needs {self.step * self.height}')

    @property
    def layout(self) -> Encoding:
        return ENCODINGS[self.encoding]

    @property
    def pixels(self) -> np.ndarray:
        """The pixels as a view: H x W or H x W x channels, uint8 or uint16 of its byte order."""
        known = self.layout
        dtype: np.dtype[Any] = np.dtype(np.uint8)
        if known.bits == 16:
            dtype = np.dtype('>u2' if self.big_endian else '<u2')
        shape: tuple[int, ...] = (self.height, self.width)
        strides: tuple[int, ...] = (self.step, known.pixel_bytes)
        if known.channels > 1:
            shape, strides = (*shape, known.channels), (*strides, dtype.itemsize)
        return np.ndarray(shape, dtype, buffer=memoryview(self.data).cast('B'), strides=strides)

    @classmethod
    def from_message(cls, message: Any) -> RawImage:
        """Wrap a ``sensor_msgs/Image`` (or anything with its fields) without a copy.

        :raises InputError: as the class.
        """
        return cls(message.data, int(message.height), int(message.width), int(message.step),
                   str(message.encoding), bool(message.is_bigendian))

    @classmethod
    def from_array(cls, array: np.ndarray, encoding: str | None = None) -> RawImage:
        """Wrap an array: H x W uint8 (mono8), H x W uint16 (mono16) or H x W x 3 uint8 (rgb8).

        ``encoding`` names another meaning of the same shape ('bgr8', 'bayer_rggb8', ...). An
        array that is not C-contiguous is copied.

        :raises InputError: bad array for any other dtype or shape, else as the class.
        """
        array = np.asarray(array)
        default = {(np.dtype(np.uint8), 1): 'mono8', (np.dtype(np.uint16), 1): 'mono16',
                   (np.dtype(np.uint8), 2): 'yuv422', (np.dtype(np.uint8), 3): 'rgb8',
                   (np.dtype(np.uint8), 4): 'rgba8'}
        channels = 1 if array.ndim == 2 else array.shape[-1] if array.ndim == 3 else 0
        native = array.dtype.newbyteorder('=')
        name = encoding or default.get((native, channels))
        known = ENCODINGS.get(name or '')
        if name is None or (known is not None and (known.channels != channels
                                                   or known.bits != 8 * native.itemsize
                                                   or native.kind != 'u')):
            raise InputError(InputReason.BAD_ARRAY, f'array of {array.dtype} {array.shape}',
                             f'{encoding or "an image"} needs uint8 H x W, uint16 H x W or '
                             'uint8 H x W x 3')
        array = np.ascontiguousarray(array)
        big_endian = array.dtype.byteorder == '>' or (
            array.dtype.byteorder == '=' and sys.byteorder == 'big')
        return cls(array.reshape(-1).view(np.uint8), array.shape[0], array.shape[1],
                   array.strides[0], name, big_endian)


def check_pair(left: RawImage, right: RawImage, max_width: int, max_height: int) -> None:
    """Refuse a pair whose sizes differ or exceed the limits, before anything is allocated.

    :raises InputError: size mismatch or too large.
    """
    if (left.width, left.height) != (right.width, right.height):
        raise InputError(
            InputReason.SIZE_MISMATCH,
            f'left {left.width} x {left.height}, right {right.width} x {right.height}',
            'both images of a pair must have one size')
    check_limits(left.width, left.height, max_width, max_height)


def check_limits(width: int, height: int, max_width: int, max_height: int) -> None:
    """Refuse an image size above the configured limits.

    :raises InputError: too large.
    """
    if width > max_width or height > max_height:
        raise InputError(
            InputReason.TOO_LARGE, f'{width} x {height}',
            f'max_image_width and max_image_height allow {max_width} x {max_height}')
