"""From image messages to raw images: raw, compressed, and whatever cv_bridge understands."""

from __future__ import annotations

import functools
import struct
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.errors import InputError, InputReason
from stereo_bp_ros.images import ENCODINGS, RawImage, check_limits


def from_image(message: Any, max_width: int, max_height: int) -> RawImage:
    """Wrap a ``sensor_msgs/Image`` without a copy, or convert it where its encoding is foreign.

    :raises InputError: too large, or as ``RawImage``.
    """
    check_limits(message.width, message.height, max_width, max_height)
    if message.encoding in ENCODINGS:
        return RawImage.from_message(message)
    bridge = cv_bridge()
    if bridge is None:
        raise InputError(InputReason.UNKNOWN_ENCODING, repr(message.encoding),
                         'supported without cv_bridge are ' + ', '.join(sorted(ENCODINGS)))
    try:
        grey = bridge.imgmsg_to_cv2(message, desired_encoding='mono8')
    except Exception as error:
        raise InputError(InputReason.UNKNOWN_ENCODING, repr(message.encoding),
                         f'cv_bridge cannot convert it to mono8 ({error}); supported without it '
                         'are ' + ', '.join(sorted(ENCODINGS))) from error
    return RawImage.from_array(grey, 'mono8')


@functools.cache
def cv_bridge() -> Any:
    """A CvBridge, or None where it cannot be imported for whatever reason.

    Builds for another NumPy fail with exceptions of many kinds.
    """
    try:
        from cv_bridge import CvBridge
        return CvBridge()
    except Exception:
        return None


def from_compressed(message: Any, max_width: int, max_height: int) -> RawImage:
    """Decode a ``sensor_msgs/CompressedImage``.

    The size is checked against the limits before anything is decoded where the format tells it
    (PNG, JPEG). An original encoding named in ``format`` is kept where the decoded channels
    allow it, so that Bayer images stay Bayer.

    :raises InputError: bad compression, too large, or as ``RawImage``.
    """
    data = np.frombuffer(message.data, np.uint8)
    size = compressed_size(message.data)
    if size is not None:
        check_limits(*size, max_width, max_height)
    try:
        pixels = cv2.imdecode(data, cv2.IMREAD_UNCHANGED) if data.size else None
    except cv2.error:
        pixels = None
    if pixels is None:
        raise InputError(InputReason.BAD_COMPRESSION, f'{data.size} bytes, {message.format!r}',
                         'they cannot be decoded as an image')
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    if pixels.dtype == np.uint16 and channels > 1:
        pixels = (pixels >> 8).astype(np.uint8)
    if pixels.dtype not in (np.uint8, np.uint16) or channels not in (1, 3, 4):
        raise InputError(InputReason.BAD_COMPRESSION, f'{pixels.dtype} of {channels} channels',
                         '8 bits, or 16 bits of one channel, are supported')
    return RawImage.from_array(pixels, _decoded_encoding(str(message.format), pixels, channels))


def _decoded_encoding(description: str, pixels: np.ndarray, channels: int) -> str:
    original = description.split(';')[0].strip()
    if channels == 1 and pixels.dtype == np.uint8 and original.startswith('bayer_'):
        return original
    if channels == 1:
        return 'mono8' if pixels.dtype == np.uint8 else 'mono16'
    # imdecode orders colours as OpenCV does, whatever the original was.
    return 'bgr8' if channels == 3 else 'bgra8'


def compressed_size(data: Any) -> tuple[int, int] | None:
    """Width and height written in the header of a PNG or JPEG; None where there is none.

    :param data: object with the buffer protocol.
    """
    data = memoryview(data)
    if bytes(data[:8]) == b'\x89PNG\r\n\x1a\n' and len(data) >= 24:
        width, height = struct.unpack('>II', data[16:24])
        return width, height
    if bytes(data[:2]) == b'\xff\xd8':
        return _jpeg_size(data)
    return None


def _jpeg_size(data: memoryview) -> tuple[int, int] | None:
    position = 2
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:                  # fill byte
            position += 1
            continue
        # Start of frame; C4, C8 and CC in this range are tables.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack('>HH', data[position + 5:position + 9])
            return width, height
        position += 2 + struct.unpack('>H', data[position + 2:position + 4])[0]
    return None
