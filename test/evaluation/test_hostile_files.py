"""Files that are none, have no end, or hold a larger image than they seem to."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.parameter_blocks import load_parameter_file
from stereo_bp_ros.evaluation import comparison
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.datasets import truths
from test.cli.runs import time_limit

READERS: dict[str, Callable[[pathlib.Path], Any]] = {
    'image': files.read_image, 'mask': files.read_mask, 'truth': files.read_disparity_png,
    'PFM': files.read_pfm, 'text': lambda path: files.read_text(path, 'text'),
    'parameters': load_parameter_file, 'calibration': Calibration.from_file,
    'report': comparison.read_report, 'calib.txt': truths.read_ndisp}


# Sizes of images

def tiff(width: int, height: int, *, order: str = '<', **tags: int) -> bytes:
    """A grey TIFF of zeros in one strip of deflate; tags by number, as ``t278``."""
    strip = zlib.compress(bytes(min(width * height, 1 << 24)), 9)
    entries = {256: width, 257: height, 258: 8, 259: 8, 262: 1, 273: 8, 277: 1, 278: height,
               279: len(strip), **{int(name[1:]): value for name, value in tags.items()}}
    return ((b'II' if order == '<' else b'MM') + struct.pack(f'{order}HI', 42, 8 + len(strip))
            + strip + struct.pack(f'{order}H', len(entries))
            + b''.join(struct.pack(f'{order}HHII', tag, 4, 1, value)
                       for tag, value in sorted(entries.items())) + bytes(4))


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack('>I', len(content)) + kind + content + struct.pack(
            '>I', zlib.crc32(kind + content))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 0, 0,
                                                             0, 0))
            + chunk(b'IDAT', zlib.compress(bytes(1000))) + chunk(b'IEND', b''))


def bmp(width: int, height: int) -> bytes:
    return b'BM' + struct.pack('<IHHIIiiHHIIiiII', 54, 0, 0, 54, 40, width, height, 1, 24, 0, 0,
                               0, 0, 0, 0) + bytes(100)


def jpeg(width: int, height: int) -> bytes:
    data = bytearray(cv2.imencode('.jpg', np.zeros((8, 8), np.uint8))[1].tobytes())
    place = data.index(b'\xff\xc0') + 5
    data[place:place + 4] = struct.pack('>HH', height, width)
    return bytes(data)


def netpbm(width: int, height: int) -> bytes:
    return b'P5\n# by\n%d %d\n255\n' % (width, height) + bytes(100)


LARGE = {'png': png(30000, 30000), 'tif': tiff(30000, 30000), 'jpg': jpeg(30000, 30000),
         'bmp': bmp(30000, 30000), 'top_down.bmp': bmp(30000, -30000),
         'big_endian.tif': tiff(30000, 30000, order='>'), 'pgm': netpbm(30000, 30000)}


@pytest.mark.parametrize('reader', READERS)
def test_what_is_no_regular_file_or_too_long_is_refused_at_once(tmp_path, reader, monkeypatch):
    """Nobody waits for the writer of a pipe, and nothing is read of a device without end."""
    monkeypatch.setattr(pathlib.Path, 'is_file', pathlib.Path.exists)   # a race that was lost
    os.mkfifo(tmp_path / 'pipe')
    (tmp_path / 'null').symlink_to('/dev/null')     # where /dev/zero would fill the memory
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'long').touch()
    os.truncate(tmp_path / 'long', 1 << 40)         # all of it a hole
    for name, words in (('pipe', 'cannot be read: it is no regular file'),
                        ('null', 'cannot be read: it is no regular file'),
                        ('folder', 'cannot be read: Is a directory'),
                        ('long', r'more than \d+ bytes; .*STEREO_BP_LIMIT_FACTOR=2 ')):
        with time_limit(), pytest.raises(ValueError, match=words):
            READERS[reader](tmp_path / name)


@pytest.mark.parametrize('name', LARGE)
def test_the_size_of_an_image_is_checked_before_it_is_decoded(tmp_path, name, monkeypatch):
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: pytest.fail('was decoded'))
    path = tmp_path / f'image.{name}'
    path.write_bytes(LARGE[name])
    for read in (files.read_image, files.read_mask, files.read_disparity_png):
        with pytest.raises(ValueError, match=r'more than 67108864 pixels \(30000 x 30000\); .*'
                                             'STEREO_BP_LIMIT_FACTOR=2'):
            read(path)


@pytest.mark.parametrize('tags', [
    {'t278': 2**31}, {'t322': 2**16, 't323': 2**14}, {'t256': 2**32 - 1}, {'t257': 0}])
def test_a_tiff_with_parts_larger_than_itself_reaches_no_decoder(tmp_path, tags, monkeypatch):
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: pytest.fail('was decoded'))
    path = tmp_path / 'image.tif'
    path.write_bytes(tiff(40, 30, **tags))
    with pytest.raises(ValueError, match=r'does not begin with its size|more than 67108864 '):
        files.read_image(path)


@pytest.mark.parametrize('kind', ['webp', 'jp2', 'exr', 'hdr', 'ras', 'gif'])
def test_formats_that_no_page_names_reach_no_decoder(tmp_path, kind, monkeypatch):
    path = tmp_path / 'image.png'
    pixels = np.zeros((400, 300, 3), np.float32 if kind in ('exr', 'hdr') else np.uint8)
    try:
        done, data = cv2.imencode(f'.{kind}', pixels)
    except cv2.error:
        pytest.skip(f'this OpenCV cannot write {kind}')
    assert done
    path.write_bytes(data.tobytes())
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: pytest.fail('was decoded'))
    with pytest.raises(ValueError, match='PNG, JPEG, TIFF, BMP and Netpbm are supported'):
        files.read_image(path)


@pytest.mark.parametrize(('kind', 'shape', 'bits'), [
    *((kind, (30, 40), 8) for kind in ('png', 'jpg', 'tif', 'bmp', 'pgm')),
    ('png', (30, 40, 3), 8), ('ppm', (30, 40, 3), 8),
    *((kind, (30, 40), 16) for kind in ('png', 'tif', 'pgm'))])
def test_every_format_that_opencv_writes_is_read_back(tmp_path, kind, shape, bits):
    image = np.random.default_rng(0).integers(0, 2**bits, shape).astype(f'u{bits // 8}')
    path = tmp_path / f'image.{kind}'
    files.write_image(path, image)
    found = files.read_image(path)
    assert found.shape == shape
    if kind != 'jpg':
        np.testing.assert_array_equal(found if len(shape) == 2 else found[:, :, ::-1], image)


def test_sizes_count_in_every_kind_of_file(tmp_path):
    for order in '<>':          # the TIFFs of these tests are read where they are small
        (tmp_path / 'image.tif').write_bytes(tiff(40, 30, order=order))
        assert files.read_image(tmp_path / 'image.tif').shape == (30, 40)
    (tmp_path / 'truth.pfm').write_bytes(b'Pf\n65536 65536\n-1\n')
    with pytest.raises(ValueError, match=r'more than 67108864 pixels \(65536 x 65536\)'):
        files.read_pfm(tmp_path / 'truth.pfm')


#: Reads the files of the command line; prints the errors, and how many KiB that took.
READ = """
import json, resource, sys
import numpy
from stereo_bp_ros.images import files
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
said = []
for name in sys.argv[1:]:
    try:
        files.read_image(name)
    except ValueError as error:
        said.append(str(error))
print(json.dumps([said, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start]))
"""


def test_a_refused_image_takes_no_memory(tmp_path):
    """In a process of its own: what a decoder takes is not Python's."""
    (tmp_path / 'zero.png').symlink_to('/dev/zero')
    for name, data in LARGE.items():
        (tmp_path / f'image.{name}').write_bytes(data)
    (tmp_path / 'hole.pgm').write_bytes(netpbm(8000, 8000))
    os.truncate(tmp_path / 'hole.pgm', 1 << 33)
    cv2.imwrite(str(tmp_path / 'image.webp'), np.zeros((9000, 9000, 3), np.uint8))
    names = sorted(str(path) for path in tmp_path.iterdir())
    child = subprocess.run(
        [sys.executable, '-c', READ, *names], check=True, capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)))
    said, kibibytes = json.loads(child.stdout)
    assert len(said) == len(names)
    assert kibibytes < 50 * 1024
