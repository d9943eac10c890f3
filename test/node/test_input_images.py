"""From messages to raw images: compressed ones, foreign encodings, and doubtful content."""

from __future__ import annotations

import builtins
import pathlib
import struct
import subprocess
import sys
import types
import zlib
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros.errors import InputError
from stereo_bp_ros.images import encoded_images
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node import input_images
from test.node.stand_ins import make_image

RANDOM = np.random.default_rng(3)
GREY = RANDOM.integers(0, 256, (24, 32), np.uint8)
COLOUR = RANDOM.integers(0, 256, (24, 32, 3), np.uint8)


def _compressed(pixels: np.ndarray, kind: str, description: str = '') -> types.SimpleNamespace:
    done, data = cv2.imencode(f'.{kind}', pixels)
    assert done
    return types.SimpleNamespace(data=data.tobytes(), format=description or kind)


def _message(data: bytes) -> types.SimpleNamespace:
    return types.SimpleNamespace(data=data, format='png')


@pytest.fixture
def undecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is refused is refused before a decoder sees it."""
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: pytest.fail('decoded'))


def refuse(data: bytes, match: str | None = None, width: int = 100, height: int = 100
           ) -> IssueCode:
    """The reason why an image is refused, in words."""
    with pytest.raises(InputError, match=match) as caught:
        input_images.from_compressed(_message(data), width, height)
    return caught.value.code


@pytest.mark.parametrize(('pixels', 'description', 'encoding'), [
    (GREY, 'png', 'mono8'),
    (GREY, 'bayer_rggb8; png compressed bayer_rggb8', 'bayer_rggb8'),
    (COLOUR, 'rgb8; png compressed bgr8', 'bgr8'),
    (GREY.astype(np.uint16) * 257, 'bayer_gbrg16; png compressed', 'bayer_gbrg16'),
    (GREY, 'bayer_gbrg16; png compressed', 'mono8'),
    (GREY.astype(np.uint16) * 257, 'bayer_gbrg8; png compressed', 'mono16'),
    (np.dstack([COLOUR, GREY]), 'rgba8; png compressed', 'bgra8'),
])
def test_compressed_images_come_out_as_they_went_in(pixels: np.ndarray, description: str,
                                                    encoding: str) -> None:
    image = input_images.from_compressed(_compressed(pixels, 'png', description), 100, 100)
    assert image.encoding == encoding
    assert np.array_equal(image.pixels, pixels)


def test_jpeg_is_decoded() -> None:
    smooth = cv2.GaussianBlur(GREY, (0, 0), 4)
    image = input_images.from_compressed(_compressed(smooth, 'jpg', 'jpeg'), 100, 100)
    assert image.encoding == 'mono8'
    assert np.abs(image.pixels.astype(int) - smooth).max() < 12


FOREIGN = {
    'JPEG 2000': b'\0\0\0\x0cjP  \r\n\x87\n', 'TIFF': b'II*\0\x08\0\0\0', 'BMP': b'BM\x36\0\0\0',
    'WebP': b'RIFF\x24\0\0\0WEBPVP8 ', 'GIF': b'GIF89a', 'OpenEXR': b'v/1\x01\x02\0\0\0',
    'Netpbm': b'P5\n32 24\n255\n', 'Radiance HDR': b'#?RADIANCE\n', 'JPEG XL': b'\xff\x0a\xfa\x7f',
    'AVIF or HEIF': b'\0\0\0\x20ftypavif', 'an unknown format': b'neither'}


def test_other_formats_and_sizes_are_refused_by_name_before_a_decoder_sees_them(
        undecoded: None) -> None:
    for name, start in FOREIGN.items():
        assert refuse(start + bytes(500), f'this is {name}; PNG and JPEG are'
                      ) is IssueCode.BAD_COMPRESSION
    assert refuse(b'', 'this is no data') is IssueCode.BAD_COMPRESSION
    depth = _compressed(GREY.astype(np.uint16), 'png', '16UC1; compressedDepth png')
    with pytest.raises(InputError, match='this is compressedDepth; PNG and JPEG'):
        input_images.from_compressed(depth, 100, 100)
    for kind in ('png', 'jpg'):
        assert refuse(_compressed(COLOUR, kind).data, width=31) is IssueCode.TOO_LARGE


# Damaged and hostile files

def _chunk(kind: bytes, content: bytes) -> bytes:
    return (struct.pack('>I', len(content)) + kind + content
            + struct.pack('>I', zlib.crc32(kind + content)))


def _header(width: int, height: int) -> bytes:
    return _chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0))


def _rows(pixels: np.ndarray) -> bytes:
    """Each with the byte that says how it is filtered, here not at all."""
    return np.pad(pixels, ((0, 0), (1, 0))).tobytes()


def _png(pixels: np.ndarray, *, before: bytes = b'', surplus: int = 0) -> bytes:
    """A grey PNG with chunks before its pixels, and zeros after the last of them."""
    rows = _rows(pixels) + bytes(surplus)
    return (encoded_images.PNG + _header(pixels.shape[1], pixels.shape[0]) + before
            + _chunk(b'IDAT', zlib.compress(rows, 1)) + _chunk(b'IEND', b''))


def _jpeg(side: int, scans: int) -> bytes:
    """A black progressive JPEG whose last scan comes so many times more."""
    done, encoded = cv2.imencode('.jpg', np.zeros((side, side), np.uint8),
                                 [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])
    assert done
    data = encoded.tobytes()
    last = data.rindex(b'\xff\xda')
    return data[:-2] + data[last:-2] * scans + data[-2:]


JPEG = _compressed(GREY, 'jpg').data
FRAME = JPEG.index(b'\xff\xc0')


def test_a_file_that_does_not_begin_with_its_size_is_not_decoded(undecoded: None) -> None:
    png = _png(GREY)
    for data in (
            encoded_images.PNG + _chunk(b'tEXt', b'a\0b') + png[8:],
            encoded_images.PNG + _header(0, 24) + png[33:],
            JPEG[:FRAME] + b'\xff\xd0' + JPEG[FRAME:], JPEG[:FRAME] + b'\xff\x00' + JPEG[FRAME:],
            JPEG[:FRAME] + b'\0' + JPEG[FRAME:], JPEG[:FRAME + 5] + bytes(2) + JPEG[FRAME + 7:],
            JPEG[:FRAME] + JPEG[JPEG.index(b'\xff\xda'):], b'\xff\xd8\xff\xf7' + bytes(40)):
        assert refuse(data, 'does not begin with its size') is IssueCode.BAD_COMPRESSION


def test_two_sizes_or_a_part_of_an_image_are_bad_compression(monkeypatch: pytest.MonkeyPatch
                                                             ) -> None:
    png, size = _png(GREY), bytes([0, 90, 0, 90])
    for data in (png[:33] + _header(90, 90) + png[33:],
                 JPEG[:FRAME] + JPEG[FRAME:FRAME + 5] + size + JPEG[FRAME + 9:FRAME + 13]
                 + JPEG[FRAME:], JPEG[:-2], JPEG[:len(JPEG) // 2], JPEG[:3], png[:400], png[:-12],
                 encoded_images.PNG, encoded_images.PNG + bytes(40)):
        assert refuse(data) is IssueCode.BAD_COMPRESSION
    # Whatever the decoder makes of an image is compared with its header.
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: np.zeros((240, 320), np.uint8))
    refuse(png, 'not of the size that its header says', 1000, 1000)


def test_thumbnails_texts_and_what_follows_the_image_do_not_matter() -> None:
    thumbnail = b'\xff\xe1' + struct.pack('>H', len(JPEG) + 2) + JPEG
    decoded = cv2.imdecode(np.frombuffer(JPEG, np.uint8), cv2.IMREAD_UNCHANGED)
    for data, expected in ((JPEG[:2] + thumbnail + JPEG[2:], decoded), (JPEG + bytes(9), decoded),
                           (_png(GREY, before=_chunk(b'tEXt', b'a\0b')), GREY),
                           (_png(GREY) + b'more', GREY)):
        image = input_images.from_compressed(_message(data), 32, 24)
        assert np.array_equal(image.pixels, expected)


def test_interlaced_palette_and_grey_images_of_any_size_are_decoded() -> None:
    for height, width in ((1, 1), (3, 5), (17, 9), (64, 96)):
        grey = RANDOM.integers(0, 256, (height, width), np.uint8)
        for pixels in (grey, grey.astype(np.uint16) * 200, np.dstack([grey] * 3)):
            image = input_images.from_compressed(_compressed(pixels, 'png'), 100, 100)
            assert np.array_equal(image.pixels, pixels)
        rows = [_rows(grey[y::dy, x::dx]) for x, y, dx, dy in (
            (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
            (1, 0, 2, 2), (0, 1, 1, 2)) if grey[y::dy, x::dx].size]
        palette = _chunk(b'PLTE', bytes(range(256)) * 3)
        for form, data in (((8, 0, 0, 0, 1), b''.join(rows)), ((8, 3, 0, 0, 0), _rows(grey))):
            header = struct.pack('>IIBBBBB', width, height, *form)
            file = (encoded_images.PNG + _chunk(b'IHDR', header)
                    + (palette if form[1] else b'') + _chunk(b'IDAT', zlib.compress(data))
                    + _chunk(b'IEND', b''))
            image = input_images.from_compressed(_message(file), 100, 100)
            assert (image.width, image.height) == (width, height)
            assert form[1] or np.array_equal(image.pixels, grey)


def test_a_chunk_that_says_to_be_longer_than_the_file_costs_no_memory(undecoded: None) -> None:
    for kind in (b'IDAT', b'tEXt'):
        file = bytearray(_png(GREY, before=_chunk(kind, b'a\0b')))
        place = file.index(kind)
        file[place - 4:place] = struct.pack('>I', 2**30)
        refuse(bytes(file), 'cannot be decoded')


TEXT = _chunk(b'zTXt', b'a\0\0' + zlib.compress(bytes(7_900_000), 9))
#: Without the checks: 0.5 to 9 s of the processor, and up to a GiB.
HOSTILE = {
    'PNG with compressed texts': lambda: _png(GREY, before=TEXT * 100),
    'PNG with a surplus of pixels': lambda: _png(GREY, surplus=100_000_000),
    'PNG with an animation': lambda: _png(GREY, before=_chunk(
        b'acTL', struct.pack('>II', 2, 0)) + _chunk(b'fcTL', struct.pack(
            '>IIIIIHHBB', 0, 16000, 16000, 0, 0, 1, 1, 0, 0))),
    'JPEG of many scans': lambda: _jpeg(2048, 500),
}
DECODE = """
import re, sys, time
from types import SimpleNamespace
from stereo_bp_ros.errors import InputError
from stereo_bp_ros.node import input_images
from test.node.stand_ins import make_image

def peak():     # not ru_maxrss, which begins with that of the parent
    return int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) / 1024

message = SimpleNamespace(data=open(sys.argv[1], 'rb').read(), format='png')
before, start = peak(), time.process_time()
try:
    input_images.from_compressed(message, 8192, 8192)
    print('decoded')
except InputError:
    print('refused')
print(time.process_time() - start, peak() - before)
"""


@pytest.mark.parametrize(('name', 'outcome'), [
    (name, 'decoded' if name in ('PNG with compressed texts', 'PNG with an animation')
     else 'refused') for name in HOSTILE])
def test_a_small_file_takes_neither_time_nor_memory(
        name: str, outcome: str, tmp_path: pathlib.Path, repository: pathlib.Path) -> None:
    path = tmp_path / 'image'
    path.write_bytes(HOSTILE[name]())
    done = subprocess.run([sys.executable, '-c', DECODE, str(path)], cwd=repository, text=True,
                          capture_output=True, check=True)
    answer, seconds, mebibytes = done.stdout.split()
    assert answer == outcome
    assert float(seconds) < 0.5         # of the processor's time, however busy it is
    assert float(mebibytes) < 32


def test_a_foreign_encoding_goes_through_cv_bridge_within_the_limits(
        monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = make_image(1, GREY)
    foreign.encoding = '32FC1'

    def convert(message: Any, desired_encoding: str) -> np.ndarray:
        if message.width == 31:
            raise RuntimeError('no such conversion')
        return GREY

    bridge = types.SimpleNamespace(imgmsg_to_cv2=convert)
    monkeypatch.setattr(input_images, 'cv_bridge', lambda: bridge)
    assert np.array_equal(input_images.from_image(foreign, 100, 100).pixels, GREY)
    foreign.width = 31
    with pytest.raises(InputError, match='no such conversion') as caught:
        input_images.from_image(foreign, 100, 100)
    assert caught.value.code is IssueCode.UNKNOWN_ENCODING
    monkeypatch.setattr(input_images, 'cv_bridge', lambda: None)
    with pytest.raises(InputError, match=r'32FC1.*supported without cv_bridge.*yuv422_yuy2'):
        input_images.from_image(foreign, 100, 100)
    monkeypatch.setattr(input_images, 'cv_bridge', lambda: pytest.fail('asked'))
    with pytest.raises(InputError) as caught:
        input_images.from_image(foreign, 30, 100)
    assert caught.value.code is IssueCode.TOO_LARGE


@pytest.mark.parametrize('error', [ImportError, AttributeError])
def test_a_cv_bridge_that_cannot_be_imported_counts_as_absent(
        error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def broken(name: str, *rest: Any) -> Any:
        if name == 'cv_bridge':
            raise error('built for another NumPy')
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, '__import__', broken)
    input_images.cv_bridge.cache_clear()
    assert input_images.cv_bridge() is None
    input_images.cv_bridge.cache_clear()
