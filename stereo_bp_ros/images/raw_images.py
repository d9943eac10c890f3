"""Raw images: validated views of bytes, from arrays or from anything Image-like.

No ROS package is imported: a message is read through its field names alone.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np

from stereo_bp_ros.config.arguments import check_fields, is_path, whole
from stereo_bp_ros.config.settings import did_you_mean
from stereo_bp_ros.errors import InputError, shown
from stereo_bp_ros.images import device_arrays
from stereo_bp_ros.issues import IssueCode


@dataclasses.dataclass(frozen=True)
class Encoding:
    """How the bytes of one ``sensor_msgs/Image`` encoding are to be read."""

    channels: int
    bits: int = 8
    bayer: str = ''     # first two letters of the pattern's first row, as ROS names it
    luma: int = -1      # channel of the luma where the image is YUV 4:2:2, else -1
    chroma_rows: int = 0    # that follow all rows of luma, for every two of these

    @property
    def pixel_bytes(self) -> int:
        return self.channels * self.bits // 8

    @property
    def has_colours(self) -> bool:
        """Whether a pixel has a byte each of red, green and blue, green in the middle."""
        return self.channels >= 3 and self.bits == 8

    @property
    def has_even_width(self) -> bool:
        """Whether two neighbours share their chroma."""
        return self.luma >= 0 or self.has_even_height

    @property
    def has_even_height(self) -> bool:
        """Whether two rows share their chroma."""
        return self.chroma_rows == 1

    def rows(self, height: int) -> int:
        """Rows of bytes in an image of so many rows of pixels."""
        return height + height * self.chroma_rows // 2


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
    'bayer_rggb16': Encoding(1, bits=16, bayer='rggb'),
    'bayer_bggr16': Encoding(1, bits=16, bayer='bggr'),
    'bayer_gbrg16': Encoding(1, bits=16, bayer='gbrg'),
    'bayer_grbg16': Encoding(1, bits=16, bayer='grbg'),
    'yuv422': Encoding(2, luma=1),
    'uyvy': Encoding(2, luma=1),
    'yuv422_yuy2': Encoding(2, luma=0),
    'yuyv': Encoding(2, luma=0),
    'nv12': Encoding(1, chroma_rows=1),
    'nv21': Encoding(1, chroma_rows=1),
    'nv24': Encoding(1, chroma_rows=4),
}


#: Sizes of an image: name, minimum, and the code of what is below it.
_SIZES = (('width', 1, IssueCode.BAD_SIZE), ('height', 1, IssueCode.BAD_SIZE),
          ('step', 0, IssueCode.BAD_STEP))


@dataclasses.dataclass(frozen=True)
class RawImage:
    """One image as it arrives: a view of somebody's bytes, validated, never copied.

    data:       object with the buffer protocol (bytes, array.array, ndarray), or a
                ``device_arrays.DeviceArray``: at least ``step * height`` bytes; half as many
                more of nv12 and nv21, three times as many of nv24, whose chroma follows.
    height, width: pixels. Both are even of nv12 and nv21, the width of YUV 4:2:2.
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
        known = _layout_of(self.encoding)
        for name, minimum, code in _SIZES:
            value = getattr(self, name)
            if type(value) is not int or value < minimum:
                object.__setattr__(self, name, whole(name, value, minimum, code))
        if known.has_even_width and self.width % 2:
            raise InputError(IssueCode.BAD_SIZE, f'{self.encoding} of width {self.width}',
                             'two neighbours share their chroma: the width is even')
        if known.has_even_height and self.height % 2:
            raise InputError(IssueCode.BAD_SIZE, f'{self.encoding} of height {self.height}',
                             'two rows share their chroma: the height is even')
        row_bytes = self.width * known.pixel_bytes
        if self.step < row_bytes:
            raise InputError(IssueCode.BAD_STEP, f'step is {self.step}',
                             f'a row of {self.width} {self.encoding} pixels has {row_bytes} bytes')
        # The last row need not be padded: cameras differ in whether they send its tail.
        rows = known.rows(self.height)
        needed = self.step * (rows - 1) + row_bytes
        available = _bytes_of(self.data)
        if available < needed:
            raise InputError(IssueCode.SHORT_DATA, f'{available} bytes of data',
                             f'{rows} rows of {self.step} bytes are {self.step * rows}')

    @property
    def layout(self) -> Encoding:
        return ENCODINGS[self.encoding]

    @property
    def is_on_device(self) -> bool:
        """Whether the bytes are in the memory of a CUDA device."""
        return isinstance(self.data, device_arrays.DeviceArray)

    @property
    def pixels(self) -> np.ndarray:
        """The pixels as a view: H x W or H x W x channels, uint8 or uint16 of its byte order.

        Of nv12, nv21 and nv24 the luma alone.

        :raises InputError: bad array, because they are in the memory of a CUDA device.
        """
        if self.is_on_device:
            raise InputError(IssueCode.BAD_ARRAY, 'an image in the memory of a CUDA device',
                             'its pixels are for a matcher on this device')
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
        try:
            fields = (message.data, message.height, message.width, message.step,
                      str(message.encoding), bool(message.is_bigendian))
        except AttributeError:
            check_fields('message', message, 'sensor_msgs/Image', IssueCode.BAD_ARRAY,
                         'data height width step encoding is_bigendian')
            raise
        return cls(*fields)

    @classmethod
    def from_array(cls, array: np.ndarray, encoding: str | None = None) -> RawImage:
        """Wrap an array: H x W uint8 (mono8), H x W uint16 (mono16), H x W x 3 uint8 (rgb8),
        H x W x 4 uint8 (rgba8, whose alpha is ignored) or H x W x 2 uint8 (yuv422).

        ``encoding`` names another meaning of the same shape ('bgr8', 'bayer_rggb8', ...). The
        rows of nv12, nv21 and nv24 are those of luma and of chroma: 3 H / 2 x W of nv12. An array
        that is not C-contiguous is copied.

        :raises InputError: bad array for any other dtype or shape, else as the class.
        """
        if array is None or is_path(array):
            raise InputError(IssueCode.BAD_ARRAY, f'the array is {shown(array)}',
                             'the file was not read: give what cv2.imread returns, which is None '
                             'where there is no such file or no image in it')
        try:
            array = np.asarray(array)
        except ValueError:              # rows of different lengths
            raise InputError(IssueCode.BAD_ARRAY, f'the array is {shown(array)}',
                             'it is no array of numbers') from None
        name, height = _meaning(array.dtype, array.shape, encoding)
        array = np.ascontiguousarray(array)
        return cls(array.reshape(-1).view(np.uint8), height, array.shape[1],
                   array.strides[0], name, _is_big_endian(array.dtype))

    @classmethod
    def from_dlpack(cls, array: Any, encoding: str | None = None) -> RawImage:
        """Wrap an array of CuPy, PyTorch, Numba, ... where it lies, on the host or on a device.

        Anything with DLPack or the CUDA array interface: dtypes, shapes and ``encoding`` as for
        ``from_array``. On a device rows may be padded, but the pixels of a row lie side by side.

        :raises InputError: as ``from_array``, or bad array where it lies elsewhere.
        """
        found = device_arrays.located(array)
        if isinstance(found, np.ndarray):
            return cls.from_array(found, encoding)
        name, height = _meaning(found.dtype, found.shape, encoding)
        if not found.is_dense(1):
            raise InputError(IssueCode.BAD_ARRAY, f'array with strides {found.strides}',
                             'the pixels of a row must lie side by side: make it contiguous')
        step = found.extent if found.shape[0] == 1 else found.strides[0]
        return cls(found, height, found.shape[1], step, name, _is_big_endian(found.dtype))


def image_of(name: str, image: Any, encoding: str | None = None) -> RawImage:
    """A RawImage as it is, or an array of any library with the meaning that ``encoding`` names.

    :raises InputError: as ``RawImage.from_array`` and ``from_dlpack``, naming the argument.
    """
    if isinstance(image, RawImage):
        return image
    is_exported = device_arrays.is_exported(image)
    try:
        return (RawImage.from_dlpack if is_exported else RawImage.from_array)(image, encoding)
    except InputError as error:
        raise InputError(error.code, f'{name}: {error.value}', error.limit) from error


def _layout_of(encoding: Any) -> Encoding:
    """:raises InputError: unknown encoding."""
    if not isinstance(encoding, str) or encoding not in ENCODINGS:
        raise InputError(IssueCode.UNKNOWN_ENCODING, shown(encoding),
                         'supported are ' + ', '.join(sorted(ENCODINGS))
                         + did_you_mean(str(encoding), ENCODINGS))
    return ENCODINGS[encoding]


def _bytes_of(data: Any) -> int:
    """How many bytes data have.

    :raises InputError: bad array, because they are none, or not one after the other.
    """
    if isinstance(data, device_arrays.DeviceArray):
        return data.extent
    try:
        view = memoryview(data)
    except TypeError:
        view = None
    if view is None or not view.c_contiguous:
        raise InputError(IssueCode.BAD_ARRAY, f'data is {shown(data)}',
                         'it must be bytes, or a C-contiguous array of them')
    return view.nbytes


def _meaning(dtype: np.dtype[Any], shape: tuple[int, ...], encoding: str | None
             ) -> tuple[str, int]:
    """Name of the encoding of an array, and the height of the image.

    :raises InputError: bad array, or unknown encoding.
    """
    default = {(np.dtype(np.uint8), 1): 'mono8', (np.dtype(np.uint16), 1): 'mono16',
               (np.dtype(np.uint8), 2): 'yuv422', (np.dtype(np.uint8), 3): 'rgb8',
               (np.dtype(np.uint8), 4): 'rgba8'}
    channels = 1 if len(shape) == 2 else shape[-1] if len(shape) == 3 else 0
    native = dtype.newbyteorder('=')
    name = default.get((native, channels)) if encoding is None else encoding
    known = None if name is None else _layout_of(name)
    if name is None or known is None or not channels or (
            known.channels != channels or known.bits != 8 * native.itemsize
            or native.kind != 'u'):
        raise InputError(IssueCode.BAD_ARRAY, f'array of {dtype} {shape}',
                         f'{name or "an image"} needs uint8 H x W, uint16 H x W or '
                         'uint8 H x W x 2, 3 or 4')
    height = shape[0]
    if known.chroma_rows:
        height = 2 * shape[0] // (2 + known.chroma_rows)
        if known.rows(height) != shape[0]:
            raise InputError(IssueCode.BAD_ARRAY, f'array of {dtype} {shape}',
                             f'{name} has {2 + known.chroma_rows} rows of luma and chroma for '
                             'every 2 of the image')
    return name, height


def _is_big_endian(dtype: np.dtype[Any]) -> bool:
    return dtype.byteorder == '>' or (dtype.byteorder == '=' and sys.byteorder == 'big')


def check_pair(left: RawImage, right: RawImage, max_width: int, max_height: int) -> None:
    """Reject a pair whose sizes differ or exceed the limits, before anything is allocated.

    :raises InputError: size mismatch or too large.
    """
    if (left.width, left.height) != (right.width, right.height):
        raise InputError(
            IssueCode.SIZE_MISMATCH,
            f'left {left.width} x {left.height}, right {right.width} x {right.height}',
            'both images of a pair must have one size')
    check_limits(left.width, left.height, max_width, max_height)


def check_limits(width: int, height: int, max_width: int, max_height: int) -> None:
    """Reject an image size above the configured limits.

    :raises InputError: too large.
    """
    if width > max_width or height > max_height:
        raise InputError(
            IssueCode.TOO_LARGE, f'{width} x {height}',
            f'max_image_width and max_image_height allow {max_width} x {max_height}')
