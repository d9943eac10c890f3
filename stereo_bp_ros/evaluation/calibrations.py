"""Calibrations of rectified pairs in the files of data sets, of ROS and of OpenCV.

Every reader raises ValueError with a sentence that names the file and what is wrong with it.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import yaml

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config.files import parse_yaml, read_yaml
from stereo_bp_ros.evaluation.files import PathLike, read_text

LARGEST_NUMBER = 1e9
"""No focal length, principal point or baseline is larger, in pixels or millimetres."""

LARGEST_BASELINE = 10.0
"""Metres; a baseline above it was measured in another unit."""

VIRTUAL_KITTI_BASELINE = 0.532725
"""Metres between the cameras of Virtual KITTI 2, which no file of it says."""

NAMES = ('P_left.txt', 'calib.txt', 'left.yaml', 'stereo.yaml', 'stereo.yml', 'extrinsics.yml')
"""Names that a calibration beside images may have; the first that is there is taken."""

FORMATS = ('lines cam0=, cam1= and baseline= (Middlebury, ETH3D), lines P0: and P1: (KITTI) or '
           'P_rect_101: and P_rect_103: (DrivingStereo), 12 numbers of P_left.txt beside '
           'P_right.txt, left.yaml beside right.yaml (camera_info of ROS), or a YAML file of '
           'OpenCV with P1 and P2, or Q')


def find_calibration(folder: Path) -> Path | None:
    """The calibration beside the images of a folder, or None.

    One that describes the left camera alone counts only with that of the right one.
    """
    for name in NAMES:
        path = folder / name
        if path.is_file() and ('left' not in name or other_side(path).is_file()):
            return path
    return None


def read_calibration(path: PathLike) -> Calibration:
    """Read a calibration in any format, which its content tells.

    A file of one camera (P_left.txt, left.yaml) is read with that of the other one beside it.

    :raises ValueError: no such file, no known format, or it is damaged.
    """
    text = read_text(path, 'calibration')
    if '!!opencv-matrix' in text:
        return read_opencv_calibration(path)
    if re.search(r'^projection_matrix\s*:', text, re.MULTILINE):
        return read_camera_info_calibration(*_sides(path))
    if re.search(r'^\s*cam[01]\s*=', text, re.MULTILINE):
        return read_middlebury_calibration(path)
    if re.search(r'^P_rect_10[13]:', text, re.MULTILINE):
        return read_driving_stereo_calibration(path)
    for cameras in ((0, 1), (2, 3)):
        if re.search(rf'^P(_rect_0)?{cameras[0]}:', text, re.MULTILINE):
            return read_kitti_calibration(path, cameras)
    if text.startswith('frame cameraID'):
        return read_virtual_kitti_calibration(path)
    if re.match(r'\s*[-+\d.]', text):
        return read_projection_calibration(*_sides(path))
    raise ValueError(f'calibration {path} is in no known format: it should have {FORMATS}')


def other_side(path: Path) -> Path:
    """The file of the other camera: 'left' in the name becomes 'right', and the reverse."""
    stem = path.name
    own, other = ('left', 'right') if 'left' in stem else ('right', 'left')
    start, found, end = stem.rpartition(own)
    return path.with_name(start + other + end) if found else path


def _sides(path: PathLike) -> tuple[Path, Path]:
    """Files of the left and of the right camera, of which one is named."""
    own = Path(path)
    other = other_side(own)
    if other == own:
        raise ValueError(f'calibration {path} is of one camera, and its name has neither left nor '
                         'right: name both files so, beside each other')
    if not other.is_file():
        raise ValueError(f'calibration {path} is of one camera: put {other.name} of the other '
                         'one beside it')
    return (own, other) if 'left' in own.name else (other, own)


def read_middlebury_calibration(path: PathLike) -> Calibration:
    """Read calib.txt of Middlebury since 2014 or ETH3D (cam0, cam1, baseline in millimetres).

    :raises ValueError: no such file, or a line that is needed is missing or unreadable.
    """
    lines = dict(line.split('=', 1) for line in read_text(path, 'calibration').splitlines()
                 if '=' in line)
    left = _numbers(path, 'cam0', lines.get('cam0'), 9)
    right = _numbers(path, 'cam1', lines.get('cam1'), 9)
    baseline, = _numbers(path, 'baseline', lines.get('baseline'), 1)
    return _calibration(path, left[0], baseline / 1000.0, left[2], right[2], left[5])


def read_projection_calibration(left: PathLike, right: PathLike) -> Calibration:
    """Read two text files with one 3 x 4 projection matrix each (P_left.txt, P_right.txt).

    :raises ValueError: no such file, or not twelve numbers.
    """
    return _from_projections(right, _numbers(left, 'P', read_text(left, 'calibration'), 12),
                             _numbers(right, 'P', read_text(right, 'calibration'), 12))


def read_kitti_calibration(path: PathLike, cameras: tuple[int, int] = (0, 1)) -> Calibration:
    """Read a calibration file of KITTI for a pair of its cameras.

    Lines are 'P0: ...' or, as in calib_cam_to_cam, 'P_rect_00: ...'.

    :raises ValueError: no such file, or a matrix that is needed is missing or unreadable.
    """
    lines = _named_lines(path)
    left, right = (_numbers(path, f'P{camera}',
                            lines.get(f'P{camera}', lines.get(f'P_rect_0{camera}')), 12)
                   for camera in cameras)
    return _from_projections(path, left, right)


def read_driving_stereo_calibration(path: PathLike) -> Calibration:
    """Read a calibration file of DrivingStereo, whose cameras are 101 (left) and 103.

    The baseline is the length of T_103: the files of the half size keep P_rect_103[3] of the
    full size, twice as large.

    :raises ValueError: no such file, or a line that is needed is missing or unreadable.
    """
    lines = _named_lines(path)
    left, right = (_numbers(path, name, lines.get(name), 12)
                   for name in ('P_rect_101', 'P_rect_103'))
    offset = _numbers(path, 'T_103', lines.get('T_103'), 3)
    return _calibration(path, right[0], math.hypot(*offset), left[2], right[2], left[6])


def read_virtual_kitti_calibration(path: PathLike) -> Calibration:
    """Read intrinsic.txt of Virtual KITTI 2: a head, then frame, camera, fx, fy, cx, cy a line.

    All frames have the same numbers; the first of camera 0 is taken.

    :raises ValueError: no such file, or no line of camera 0.
    """
    lines = [line.split() for line in read_text(path, 'calibration').splitlines()[1:]]
    for words in lines:
        if len(words) == 6 and words[1] == '0':
            fx, _, cx, cy = _numbers(path, 'the first line of camera 0', ' '.join(words[2:]), 4)
            return _calibration(path, fx, VIRTUAL_KITTI_BASELINE, cx, cx, cy)
    raise ValueError(f'calibration {path} has no line with 6 numbers of camera 0')


def read_camera_info_calibration(left: PathLike, right: PathLike) -> Calibration:
    """Read two YAML files of ROS (camera_calibration, camera_info_manager): P of each camera.

    Images are taken as rectified: distortion, K and R do not matter.

    :raises ValueError: no such file, no projection_matrix of 12 numbers, different sizes, or
        cameras that are swapped.
    """
    content = [_camera_info(path) for path in (left, right)]
    sizes = [(info.get('image_width'), info.get('image_height')) for info in content]
    if sizes[0] != sizes[1]:
        raise ValueError(f'calibrations {left} and {right} are of images of different sizes: '
                         f'{sizes[0][0]} x {sizes[0][1]} and {sizes[1][0]} x {sizes[1][1]}')
    projections = [_listed(path, info) for path, info in zip((left, right), content, strict=True)]
    try:
        return Calibration.from_projections(projections[0], projections[1])
    except ValueError as error:
        raise ValueError(f'calibrations {left} and {right}: {error}') from error


def _camera_info(path: PathLike) -> dict[str, object]:
    try:
        content = read_yaml(path)
    except ValueError as error:
        raise ValueError(f'calibration {path}: {error}') from error
    if not isinstance(content, dict):
        raise ValueError(f'calibration {path} is not a table of a camera')
    return content


def _listed(path: PathLike, info: dict[str, object]) -> list[float]:
    matrix = info.get('projection_matrix')
    data = matrix.get('data') if isinstance(matrix, dict) else None
    if not isinstance(data, list):
        raise ValueError(f'calibration {path} has no projection_matrix with data')
    return _listed_numbers(path, 'projection_matrix', data, 12)


def read_opencv_calibration(path: PathLike) -> Calibration:
    """Read a stereo calibration of OpenCV (cv2.FileStorage): P1 and P2, or else Q.

    See cv2.stereoRectify for the three matrices. Their unit has to be metres.

    :raises ValueError: no such file, none of the matrices, cameras one above the other, or a
        baseline that is not in metres.
    """
    text = read_text(path, 'calibration')
    try:
        # %YAML:1.0, as OpenCV begins its files, is no directive of YAML.
        content = parse_yaml(re.sub(r'^%YAML.*', '', text), _OpenCvLoader)
    except ValueError as error:
        raise ValueError(f'calibration {path}: {error}') from error
    if not isinstance(content, dict):
        raise ValueError(f'calibration {path} has no matrices by name')
    p1, p2, q = (_matrix(path, name, content.get(name)) for name in ('P1', 'P2', 'Q'))
    if p1 is not None and p2 is not None:
        left, right = p1, p2
    elif q is not None:
        if q[14] == 0:
            raise ValueError(f'calibration {path}: Q[3][2] is 0, which is 1 / baseline')
        # Q[3] is (0, 0, -1 / Tx, (cx - cx') / Tx).
        baseline, shift = 1 / q[14], -q[15] / q[14]
        left = [q[11], 0, -q[3], 0, 0, q[11], -q[7], 0]
        right = [q[11], 0, -q[3] - shift, -q[11] * baseline, 0, q[11], -q[7], 0]
    else:
        raise ValueError(f'calibration {path} has neither P1 and P2 nor Q: write what '
                         'cv2.stereoRectify returns')
    if left[7] or right[7]:
        raise ValueError(f'calibration {path}: one camera is above the other, but the pair must '
                         'be beside each other')
    calibration = _from_projections(path, left, right)
    if calibration.baseline_m > LARGEST_BASELINE:
        raise ValueError(f'calibration {path}: the baseline is {calibration.baseline_m:g} m: give '
                         'OpenCV the size of the board in metres')
    return calibration


class _OpenCvLoader(yaml.SafeLoader):
    """Reads a matrix of OpenCV as a mapping. OpenCV's own parser trusts what a file says."""


def _mapping(loader: _OpenCvLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    return loader.construct_mapping(node, deep=True)


_OpenCvLoader.add_constructor('tag:yaml.org,2002:opencv-matrix', _mapping)


def _matrix(path: PathLike, name: str, matrix: object) -> list[float] | None:
    if matrix is None:
        return None
    rows = 4 if name == 'Q' else 3
    data = matrix.get('data') if isinstance(matrix, dict) else None
    if (not isinstance(matrix, dict) or not isinstance(data, list)
            or (matrix.get('rows'), matrix.get('cols')) != (rows, 4)):
        raise ValueError(f'calibration {path}: {name} is no matrix of {rows} rows and 4 cols with '
                         'data')
    return _listed_numbers(path, name, data, 4 * rows)


def _listed_numbers(path: PathLike, name: str, values: list[object], count: int) -> list[float]:
    try:
        text = ' '.join(map(str, values))
    except ValueError as error:         # a number of more than 4300 digits
        raise ValueError(f'calibration {path}: {name} is not made of numbers') from error
    return _numbers(path, name, text, count)


def _named_lines(path: PathLike) -> dict[str, str]:
    return dict(line.split(':', 1) for line in read_text(path, 'calibration').splitlines()
                if ':' in line)


def _from_projections(path: PathLike, left: list[float], right: list[float]) -> Calibration:
    for matrix in (left, right):
        if matrix[0] == 0:
            raise ValueError(f'calibration {path}: the focal length is 0')
    # Both cameras may be displaced from the rig's origin, as KITTI's second pair is.
    baseline = left[3] / left[0] - right[3] / right[0]
    return _calibration(path, right[0], baseline, left[2], right[2], left[6])


def _calibration(path: PathLike, focal_px: float, baseline_m: float, cx_left: float,
                 cx_right: float, cy: float) -> Calibration:
    try:
        return Calibration(focal_px=focal_px, baseline_m=baseline_m, cx_left=cx_left,
                           cx_right=cx_right, cy=cy)
    except ValueError as error:
        raise ValueError(f'calibration {path}: {error}') from error


def _numbers(path: PathLike, name: str, text: str | None, count: int) -> list[float]:
    if text is None:
        raise ValueError(f'calibration {path} has no {name}')
    try:
        numbers = [float(word) for word in text.strip().strip('[]').replace(';', ' ').split()]
    except ValueError as error:
        raise ValueError(f'calibration {path}: {name} is not made of numbers') from error
    if len(numbers) != count:
        raise ValueError(f'calibration {path}: {name} should be {count} numbers, '
                         f'not {len(numbers)}')
    if not all(abs(number) <= LARGEST_NUMBER for number in numbers):
        raise ValueError(f'calibration {path}: {name} has a number that is not finite, or beyond '
                         f'{LARGEST_NUMBER:g}')
    return numbers
