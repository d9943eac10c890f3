"""Inputs of the fuzzer: sound ones to begin with, damage to them, and values drawn from bytes."""

from __future__ import annotations

import functools
import pathlib
import random
import re
import struct
import tempfile
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.sources import bags
from stereo_bp_ros.system.resources import PRESETS
from test.cli import recordings as written

WIDTH, HEIGHT = 16, 12
CALIBRATION = Calibration(100.0, 0.5, 8.0, 8.0, 6.0)
CORPUS = pathlib.Path(__file__).with_name('corpus')

#: Whole numbers at which something changes.
WHOLES = (0, 1, 2, 3, 7, 8, 12, 16, 255, 256, 640, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)
#: The same of floats.
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 100.0, -50.0, 1e-30, 1e-310, 1e30, 1e39, -1e39, 1e308,
          float('inf'), float('-inf'), float('nan'))
#: What a parser of text may stumble over.
WORDS = (b'nan', b'inf', b'-inf', b'-1', b'1e400', b'1e-400', b'9' * 40, b'0x', b'1_0', b'\0',
         b'\n', b'[', b']', b'{', b'}', b':', b': ', b'- ', b'&a [*a]', b'*a', b'!!int x', b'"',
         b"'", b'\xff', b'\xc3\xa9', b'true', b'~', b'2001-99-99', b'<<', b'#', b'%', b'=', b';')

#: What ``repr`` of NumPy makes of a number.
NUMPY_SCALAR = re.compile(r'\bnp\.\w+\(')


class Choices:
    """Values by the bytes of a case; zeros follow them."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        found = self._data[self._at:self._at + count]
        self._at += count
        return found.ljust(count, b'\0')

    def pick(self, options: Sequence[Any]) -> Any:
        """One of up to 65536 options."""
        return options[int.from_bytes(self.take(1 if len(options) <= 256 else 2), 'little')
                       % len(options)]

    def whole(self) -> int:
        """Any unsigned number of 32 bits; most often one of ``WHOLES``."""
        kind, = self.take(1)
        return WHOLES[kind % len(WHOLES)] if kind < 224 else int.from_bytes(self.take(4), 'little')

    def float(self) -> float:
        """Any float; most often one of ``FLOATS``."""
        kind, = self.take(1)
        return FLOATS[kind % len(FLOATS)] if kind < 224 else struct.unpack('<d', self.take(8))[0]

    def rest(self) -> bytes:
        """All bytes that are left."""
        found, self._at = self._data[self._at:], len(self._data)
        return found


def damaged(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    """One of the corpus after up to 8 changes, or noise."""
    if source.random() < 0.05:
        return source.randbytes(source.randrange(200))
    data = bytearray(source.choice(corpus))
    for _ in range(source.choice((1, 1, 2, 3, 5, 8))):
        # Heads tell sizes and kinds: every second change is there.
        end = min(len(data), 64) if source.random() < 0.5 else len(data)
        at = source.randrange(end + 1)
        size = source.choice((1, 2, 4, 8, 16, 64))
        kind = source.randrange(10)
        if kind < 3:
            data[at:at + 1] = bytes([source.randrange(256)])
        elif kind == 3 and data:
            data[at % len(data)] ^= 1 << source.randrange(8)
        elif kind == 4:
            del data[at:]
        elif kind == 5:
            del data[at:at + size]
        elif kind == 6:
            data[at:at] = data[at:at + size]
        elif kind == 7:
            data[at:at] = source.choice(WORDS)
        elif kind == 8:
            number = source.choice(WHOLES).to_bytes(4, source.choice(('little', 'big')))
            data[at:at + 4] = number
        else:
            other = source.choice(corpus)
            data[at:at + size] = other[at:at + source.choice((size, len(other)))]
    return bytes(data)


def kept(target: str) -> list[bytes]:
    """Inputs that have found something once."""
    return [path.read_bytes() for path in sorted((CORPUS / target).glob('*'))]


@functools.cache
def picture(channels: int = 1, dtype: str = 'u1') -> np.ndarray:
    """A small picture of noise."""
    shape = (HEIGHT, WIDTH, channels) if channels > 1 else (HEIGHT, WIDTH)
    values = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, shape)
    return values.astype(dtype)


def encoded(suffix: str, *arguments: Any) -> bytes:
    """A picture as a file's bytes."""
    return cv2.imencode(suffix, picture(*arguments))[1].tobytes()


def pictures() -> list[bytes]:
    """Image files of every kind that is read."""
    return [encoded('.png'), encoded('.png', 3), encoded('.png', 4), encoded('.png', 1, 'u2'),
            encoded('.jpg'), encoded('.jpg', 3), encoded('.bmp'), encoded('.pgm'),
            encoded('.tiff'), encoded('.webp', 3)]


def float_maps() -> list[bytes]:
    """Files of ``write_pfm``, and one of big-endian numbers."""
    values = picture().astype('<f4')
    return [b'Pf\n16 12\n-1.0\n' + values.tobytes(),
            b'Pf 16 12 1\n' + values.astype('>f4').tobytes(), b'PF\n1 1\n-1\n' + bytes(12)]


def calibrations() -> list[bytes]:
    """A file of each format of ``read_calibration``."""
    p = [f'100 0 8 {shift} 0 100 6 0 0 0 1 0' for shift in (0, -50)]
    info = ('image_width: 16\nimage_height: 12\nprojection_matrix:\n  rows: 3\n  cols: 4\n'
            f'  data: [{", ".join(p[1].split())}]\n')
    opencv = '%YAML:1.0\n---\n' + ''.join(
        f'P{number}: !!opencv-matrix\n   rows: 3\n   cols: 4\n   dt: d\n'
        f'   data: [ {", ".join(numbers.split())} ]\n' for number, numbers in enumerate(p, 1))
    q = ('%YAML:1.0\n---\nQ: !!opencv-matrix\n   rows: 4\n   cols: 4\n   dt: d\n'
         '   data: [ 1,0,0,-8, 0,1,0,-6, 0,0,0,100, 0,0,2,0 ]\n')
    texts = ['cam0=[100 0 8; 0 100 6; 0 0 1]\ncam1=[100 0 8; 0 100 6; 0 0 1]\nbaseline=600\n',
             f'P0: {p[0]}\nP1: {p[1]}\n', f'P_rect_02: {p[0]}\nP_rect_03: {p[1]}\n', p[1],
             f'P_rect_101: {p[0]}\nP_rect_103: {p[1]}\nT_103: -0.5 0 0\n', info, opencv, q,
             *_calibrations_of_rigs(p)]
    return [text.encode() for text in texts]


def _calibrations_of_rigs(p: list[str]) -> list[str]:
    """Both cameras in one YAML or JSON file; the last ones are rejected as raw."""
    lists = ''.join(f'P{number}: [{", ".join(numbers.split())}]\n'
                    for number, numbers in enumerate(p, 1))
    camera = '  intrinsics: [100, 100, 8, 6]\n  resolution: [16, 12]\n  distortion_coeffs: [0]\n'
    kalibr = (f'cam0:\n{camera}cam1:\n{camera}  T_cn_cnm1:\n  - [1, 0, 0, -0.5]\n'
              '  - [0, 1, 0, 0]\n  - [0, 0, 1, 0]\n  - [0, 0, 0, 1]\n')
    return [lists + 'imageSize: [16, 12]\n', kalibr,
            '%YAML:1.0\nCamera.fx: 100\nCamera.fy: 100\nCamera.cx: 8\nCamera.cy: 6\n'
            'Camera.bf: 50\n', '[LEFT_CAM_HD]\nfx=700\n', '{"cameraData": [[1, {"width": 16}]]}',
            'T_BS: {data: [1, 0, 0, 0]}\nintrinsics: [100, 100, 8, 6]\n']


def parameter_files() -> list[bytes]:
    """The presets, and a scenario."""
    scenario = ('inputs:\n  - pairs\n  - rendered: {frames: 2, width: 320, hard: true}\n'
                'conditions: [mean.regions.10_50_m.score.bad_3_estimated <= 2,\n'
                '  latency_ms.total.p50 <= 100, pairs.*.filled.d1_all <= 2.5]\n'
                'against: [sgbm]\n'
                'preset: road_full\nsettings: {levels: 3}\nrepeat: 1\n')
    return [scenario.encode(),
            *((PRESETS / f'{name}.yaml').read_bytes() for name in preset_names()[:4])]


def messages() -> dict[str, list[bytes]]:
    """CDR bytes by their type, headers with a stamp of 1 s."""
    left = [bytes(bags.serialize_image(10**9, 'left', *image)) for image in (
        (picture(), 'mono8'), (picture(3), 'bgr8'), (picture(1, 'u2'), 'mono16'))]
    infos = [bytes(bags.serialize_camera_info(10**9, side, CALIBRATION, WIDTH, HEIGHT))
             for side in ('left', 'right')]
    return {bags.IMAGE: left, bags.CAMERA_INFO: infos,
            bags.COMPRESSED_IMAGE: [bytes(bags.serialize_truth(10**9, picture().astype('f4')))]}


def recordings() -> list[tuple[str, bytes]]:
    """Suffix and content of a bag of each storage, with two pairs."""
    pairs = [one for stamp_ns in (10**9, 2 * 10**9)
             for one in written.pair(stamp_ns, picture(), picture(), CALIBRATION)]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, suffix in (('sqlite3', '.db3'), ('mcap', '.mcap')):
            bag = written.write(pathlib.Path(folder) / kind, pairs, kind)
            found += [(suffix, next(bag.glob(f'*{suffix}')).read_bytes()),
                      (f'.yaml{suffix}', (bag / 'metadata.yaml').read_bytes())]
        old = written.write(pathlib.Path(folder) / 'old', pairs, 'ros1')
        return [*found, ('.bag', old.read_bytes())]
