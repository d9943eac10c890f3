"""From image messages to raw images.

Raw, compressed, and whatever cv_bridge understands.
"""

from __future__ import annotations

import functools
import re
import struct
import zlib
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.errors import InputError, InputReason, quoted
from stereo_bp_ros.images import ENCODINGS, PNG, RawImage, check_limits, png_chunks

#: What compressed images begin with, as regular expressions, by the names of their formats.
SIGNATURES = {
    'PNG': re.escape(PNG),
    'JPEG': rb'\xff\xd8',
    'JPEG 2000': rb'\0\0\0\x0cjP  |\xff\x4f\xff\x51',
    'JPEG XL': rb'\0\0\0\x0cJXL |\xff\x0a',
    'WebP': rb'RIFF....WEBP',
    'AVIF or HEIF': rb'....ftyp',
    'TIFF': rb'II[*+]\0|MM\0[*+]',
    'GIF': rb'GIF8',
    'BMP': rb'BM',
    'OpenEXR': rb'v/1\x01',
    'Radiance HDR': rb'#\?R',
    'Netpbm': rb'P[1-7Ff]\s',
    'Sun raster': rb'\x59\xa6\x6a\x95',
    'no data': rb'\Z',
}

#: Chunks of a PNG that its pixels depend on, and channels by the type of its colours.
PNG_CHUNKS = (b'IHDR', b'PLTE', b'tRNS', b'IDAT', b'IEND')
PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}

#: Bytes of a PNG's pixels that are decompressed at a time to count them.
INFLATED_AT_ONCE = 2**20

#: Scans of a JPEG and of its thumbnails; encoders make ten of a progressive image.
MOST_SCANS = 64


def from_image(message: Any, max_width: int, max_height: int) -> RawImage:
    """Wrap a ``sensor_msgs/Image`` without a copy, or convert it where its encoding is foreign.

    :raises InputError: too large, or as ``RawImage``.
    """
    check_limits(message.width, message.height, max_width, max_height)
    if message.encoding in ENCODINGS:
        return RawImage.from_message(message)
    bridge = cv_bridge()
    if bridge is None:
        raise InputError(InputReason.UNKNOWN_ENCODING, quoted(message.encoding),
                         'supported without cv_bridge are ' + ', '.join(sorted(ENCODINGS)))
    try:
        grey = bridge.imgmsg_to_cv2(message, desired_encoding='mono8')
    except Exception as error:
        raise InputError(InputReason.UNKNOWN_ENCODING, quoted(message.encoding),
                         f'cv_bridge cannot convert it to mono8 ({quoted(error)}); supported '
                         'without it are ' + ', '.join(sorted(ENCODINGS))) from error
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
    """Decode a ``sensor_msgs/CompressedImage`` of PNG or JPEG.

    No other format reaches a decoder. The size is read and checked against the limits first, and
    what is decoded then is bounded by it. An original encoding named in ``format`` is kept where
    the decoded channels allow it, so that Bayer images stay Bayer.

    :raises InputError: bad compression, too large, or as ``RawImage``.
    """
    data, description = bytes(message.data), str(message.format)
    name = 'compressedDepth' if 'compressedDepth' in description else format_name(data)
    if name not in ('PNG', 'JPEG'):
        raise _bad(data, description, f'this is {name}; PNG and JPEG are supported')
    size = compressed_size(data)
    if size is None:
        raise _bad(data, description, f'the {name} does not begin with its size')
    check_limits(*size, max_width, max_height)
    try:
        pixels = cv2.imdecode(np.frombuffer(_harmless(data), np.uint8), cv2.IMREAD_UNCHANGED)
    except (cv2.error, ValueError, zlib.error, struct.error):
        pixels = None
    if pixels is None:
        raise _bad(data, description, 'they cannot be decoded as an image')
    if pixels.shape[1::-1] != size:
        raise _bad(data, description, 'the image is not of the size that its header says')
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    if pixels.dtype == np.uint16 and channels > 1:
        pixels = np.right_shift(pixels, 8, out=pixels).astype(np.uint8)
    if pixels.dtype not in (np.uint8, np.uint16) or channels not in (1, 3, 4):
        raise InputError(InputReason.BAD_COMPRESSION, f'{pixels.dtype} of {channels} channels',
                         '8 bits, or 16 bits of one channel, are supported')
    return RawImage.from_array(pixels, _decoded_encoding(description, pixels, channels))


def _bad(data: bytes, description: str, why: str) -> InputError:
    return InputError(InputReason.BAD_COMPRESSION,
                      f'{len(data)} bytes, {quoted(description)}', why)


def _decoded_encoding(description: str, pixels: np.ndarray, channels: int) -> str:
    original = description.split(';')[0].strip()
    is_mosaic = original.startswith('bayer_') and original.endswith(str(8 * pixels.itemsize))
    if channels == 1 and is_mosaic:
        return original
    if channels == 1:
        return 'mono8' if pixels.dtype == np.uint8 else 'mono16'
    # imdecode orders colours as OpenCV does, whatever the original was.
    return 'bgr8' if channels == 3 else 'bgra8'


def format_name(data: bytes) -> str:
    """The format of a compressed image by its first bytes, in words."""
    return next((name for name, start in SIGNATURES.items() if re.match(start, data, re.DOTALL)),
                'an unknown format')


def compressed_size(data: bytes) -> tuple[int, int] | None:
    """Width and height in the header of a PNG or JPEG; None where a decoder may find another."""
    if data.startswith(PNG):
        # A decoder takes the IHDR chunk from anywhere.
        if len(data) < 24 or data[8:16] != b'\0\0\0\x0dIHDR':
            return None
        size = struct.unpack('>II', data[16:24])
    else:
        size = _jpeg_size(data)
    return size if min(size) > 0 else None


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """(0, 0) where there is none."""
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
        length = int.from_bytes(data[position + 2:position + 4], 'big')
        # What decoders do with other markers in this place differs: they might find a frame
        # where this search finds none.
        if length < 2 or not (0xC0 <= marker <= 0xCF or 0xE0 <= marker <= 0xEF
                              or marker in (0xDB, 0xDD, 0xFE)):
            break
        position += 2 + length
    return 0, 0


def _harmless(data: bytes) -> bytes:
    """The same image without what takes a decoder longer than its size explains.

    :raises ValueError, zlib.error, struct.error: that cannot be told apart, or is the image.
    """
    if data.startswith(PNG):
        return _plain_png(data)
    if data.count(b'\xff\xda') > MOST_SCANS:       # each may take as long as a whole image
        raise ValueError('too many scans')
    if data.rfind(b'\xff\xd9') < data.rfind(b'\xff\xda'):      # some decoders make up the rest
        raise ValueError('cut off')
    return data


def _plain_png(data: bytes) -> bytes:
    """A PNG without its texts, colour profiles and animation, which may be compressed, too.

    :raises ValueError: its pixels decompress to more than an image of its size has, or it is cut
        off.
    """
    width, height, bits, colours = struct.unpack('>IIBB', data[16:26])
    row = 1 + (width * bits * PNG_CHANNELS.get(colours, 4) + 7) // 8
    # Twice, because an interlaced image has more rows, if shorter ones.
    left = 2 * height * (row + 8)
    inflate = zlib.decompressobj()
    kept = [PNG]
    for kind, chunk in png_chunks(data):
        if kind in PNG_CHUNKS:
            kept.append(chunk)
        if kind == b'IDAT':
            unread = chunk[8:-4]
            while unread and not inflate.eof:
                left -= len(inflate.decompress(unread, INFLATED_AT_ONCE))
                if left < 0:
                    raise ValueError('too many pixels')
                unread = inflate.unconsumed_tail
    return b''.join(kept)
