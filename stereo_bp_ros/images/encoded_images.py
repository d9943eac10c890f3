"""Image files: what their headers say, and decoding of no more than that.

A decoder allocates the size that it finds in a header, and some parts of a file take it longer
than any image of that size. What is not known from the header alone reaches no decoder.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Collection, Iterator

import cv2
import numpy as np

#: What a PNG begins with.
PNG = b'\x89PNG\r\n\x1a\n'

#: What image files begin with, as regular expressions, by the names of their formats.
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
MAX_SCANS = 64

#: Up to two numbers after the magic of a Netpbm file, which blanks and comments separate.
NETPBM = re.compile(rb'P[1-6](?:\s|#[^\n\r]*[\n\r])+(\d{1,9})(?:\s|#[^\n\r]*[\n\r])+(\d{1,9})\s')
NETPBM_HEADER = 4096

#: Tags of a TIFF, of types SHORT or LONG: sides of the image, rows of a strip, sides of a tile.
TIFF_WIDTH, TIFF_HEIGHT, TIFF_ROWS, TIFF_TILE_WIDTH, TIFF_TILE_HEIGHT = 256, 257, 278, 322, 323
TIFF_TYPES = {3: 'H', 4: 'I'}

#: Rows of a strip where a TIFF has one strip.
TIFF_ALL_ROWS = 2**32 - 1

#: Pixels of a tile or strip of a TIFF that may be larger than its image.
MAX_TILE = 2**22


def format_name(data: bytes) -> str:
    """The format of an image file by its first bytes, in words."""
    return next((name for name, start in SIGNATURES.items() if re.match(start, data, re.DOTALL)),
                'an unknown format')


def decode(data: bytes, formats: Collection[str], check_size: Callable[[int, int], None]
           ) -> np.ndarray:
    """The pixels of an image file, H x W or H x W x C in the order of OpenCV.

    :param formats: names in ``SIZES`` that are decoded.
    :param check_size: is called with width and height, and raises an error of its own where they
        are too large, before anything is decoded.
    :raises ValueError: a sentence that says why it cannot be decoded.
    """
    name = format_name(data)
    if name not in formats:
        *others, last = formats
        raise ValueError(f'this is {name}; {", ".join(others)} and {last} are supported')
    try:
        size = SIZES[name](data)
    except (struct.error, LookupError):
        size = 0, 0
    if min(size) < 1:
        raise ValueError(f'the {name} does not begin with its size')
    check_size(*size)
    try:
        pixels = cv2.imdecode(np.frombuffer(_bounded_copy(name, data), np.uint8),
                              cv2.IMREAD_UNCHANGED)
    except (cv2.error, ValueError, zlib.error, struct.error):
        pixels = None
    if pixels is None:
        raise ValueError('its pixels cannot be decoded')
    if pixels.shape[1::-1] != size:
        raise ValueError('the image is not of the size that its header says')
    return np.asarray(pixels)


def _png_size(data: bytes) -> tuple[int, int]:
    # A decoder takes the IHDR chunk from anywhere.
    if data[8:16] != b'\0\0\0\x0dIHDR':
        return 0, 0
    width, height = struct.unpack_from('>II', data, 16)
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int]:
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


def _netpbm_size(data: bytes) -> tuple[int, int]:
    found = NETPBM.match(data[:NETPBM_HEADER])
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _bmp_size(data: bytes) -> tuple[int, int]:
    header, = struct.unpack_from('<I', data, 14)
    width, height = struct.unpack_from('<HH' if header == 12 else '<ii', data, 18)
    return width, abs(height)               # below 0: the top row first


def _tiff_size(data: bytes) -> tuple[int, int]:
    """Of the first image, which is the one that is decoded."""
    order = '<' if data.startswith(b'II') else '>'
    magic, start = struct.unpack_from(f'{order}HI', data, 2)
    if magic != 42:                         # BigTIFF
        return 0, 0
    values: dict[int, int] = {}
    for index in range(struct.unpack_from(f'{order}H', data, start)[0]):
        entry = start + 2 + 12 * index
        tag, kind, count = struct.unpack_from(f'{order}HHI', data, entry)
        if tag in (TIFF_WIDTH, TIFF_HEIGHT, TIFF_ROWS, TIFF_TILE_WIDTH, TIFF_TILE_HEIGHT):
            # Of two values decoders take the one or the other.
            if tag in values or kind not in TIFF_TYPES or count != 1:
                return 0, 0
            values[tag], = struct.unpack_from(order + TIFF_TYPES[kind], data, entry + 8)
    width, height = values[TIFF_WIDTH], values[TIFF_HEIGHT]
    rows = values.get(TIFF_ROWS, TIFF_ALL_ROWS)
    # A decoder allocates a whole tile or strip.
    tile = max(values.get(TIFF_TILE_WIDTH, width) * values.get(TIFF_TILE_HEIGHT, height),
               width * (height if rows == TIFF_ALL_ROWS else rows))
    return (width, height) if tile <= max(width * height, MAX_TILE) else (0, 0)


#: Width and height in the header of a format; (0, 0) where a decoder may find others.
SIZES: dict[str, Callable[[bytes], tuple[int, int]]] = {
    'PNG': _png_size, 'JPEG': _jpeg_size, 'TIFF': _tiff_size, 'BMP': _bmp_size,
    'Netpbm': _netpbm_size}


def _bounded_copy(name: str, data: bytes) -> bytes:
    """The same image without what takes a decoder longer than its size explains.

    :raises ValueError, zlib.error, struct.error: chunks cannot be separated.
    """
    if name == 'PNG':
        return _plain_png(data)
    if name == 'JPEG':
        if data.count(b'\xff\xda') > MAX_SCANS:        # each may take as long as a whole image
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
    for kind, chunk in _png_chunks(data):
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


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind of each chunk of a PNG, and its bytes with length and checksum, up to IEND.

    :raises ValueError: a chunk exceeds the end. A decoder may allocate all that it says.
    """
    position = len(PNG)
    while position < len(data):
        length = int.from_bytes(data[position:position + 4], 'big')
        kind, end = data[position + 4:position + 8], position + 12 + length
        if end > len(data):
            raise ValueError('cut off')
        yield kind, data[position:end]
        if kind == b'IEND':
            return
        position = end
