"""Calibrations of rectified pairs in the files of data sets, of ROS and of OpenCV.

Every reader raises ValueError with a sentence that names the file and what is wrong with it.
"""

from __future__ import annotations

import functools
import logging
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config.files import parse_yaml
from stereo_bp_ros.evaluation import raw_calibrations
from stereo_bp_ros.evaluation.files import LARGEST_SIDE, PathLike, read_text

_log = logging.getLogger(__name__)

LARGEST_NUMBER = 1e9
"""No focal length, principal point or baseline is larger, in pixels or millimetres."""

VIRTUAL_KITTI_BASELINE = 0.532725
"""Metres between the cameras of Virtual KITTI 2, which no file of it says."""

NAMES = ('P_left.txt', 'calib.txt', 'left.yaml', 'left.yml', 'stereo.yaml', 'stereo.yml',
         'extrinsics.yml')
"""Names that a calibration beside images may have; the first that is there is taken."""

FORMATS = ('lines cam0=, cam1= and baseline= (Middlebury, ETH3D), lines P0: and P1: (KITTI) or '
           'P_rect_101: and P_rect_103: (DrivingStereo), 12 numbers of P_left.txt beside '
           'P_right.txt, left.yaml beside right.yaml (camera_info of ROS), or a YAML file of '
           'OpenCV with P1 and P2, or Q')

GREY_CAMERAS, COLOUR_CAMERAS = (0, 1), (2, 3)
"""Numbers of the left and right camera of KITTI's two pairs."""

PROJECTION_KEYS = (('P0', 'P1'), ('P1', 'P2'), ('P2', 'P3'), ('P_left', 'P_right'),
                   ('P_l', 'P_r'), ('Pl', 'Pr'), ('LEFT.P', 'RIGHT.P'), ('P_rect_00', 'P_rect_01'))
"""Names of the two projection matrices in YAML; the first pair that is there is taken."""

CAMERA_KEYS = (('left', 'right'), ('left_camera', 'right_camera'), ('cam0', 'cam1'))
"""Names of the two cameras in a YAML file of both."""

YAML_MARK = re.compile(r'^%YAML|!!opencv-matrix|^[ \t]*[{"\']|^[A-Za-z_][\w.]*\s*:', re.MULTILINE)
"""What is in every YAML or JSON file of a calibration."""

CAMERA_INFO_KEYS = ('projection_matrix', 'P', 'p')
"""Names of P in the YAML of one camera: a calibration file, or a message as ROS prints it."""


def find_calibration(folder: Path) -> Path | None:
    """The calibration beside the images of a folder, or None.

    One that describes the left camera alone counts only with that of the right one.
    """
    for name in NAMES:
        path = folder / name
        if path.is_file() and ('left' not in name or other_side(path).is_file()):
            return path
    return None


def read_calibration(path: PathLike, image: PathLike | None = None) -> Calibration:
    """Read a calibration in any format, which its content tells.

    A file of one camera (P_left.txt, left.yaml) is read with that of the other one beside it.

    :param image: the left image: of KITTI's four cameras its folder tells the pair. Without it,
        or in another folder, a warning says which pair was taken.
    :raises ValueError: no such file, no known format, raw cameras, or it is damaged.
    """
    text = read_text(path, 'calibration')
    if re.search(r'^[ \t]*cam[01][ \t]*=', text, re.MULTILINE):
        return read_middlebury_calibration(path)
    if re.search(r'^P_rect_10[13]:', text, re.MULTILINE):
        return read_driving_stereo_calibration(path)
    pairs = [cameras for cameras in (GREY_CAMERAS, COLOUR_CAMERAS) if re.search(
        rf'^P(_rect_0)?{cameras[0]}:[ \t]*[-+.\d]', text, re.MULTILINE)]
    if pairs:
        return _read_kitti_pair(path, pairs, cameras_of_image(image))
    if text.startswith('frame cameraID'):
        return read_virtual_kitti_calibration(path)
    if re.match(r'\s*[-+\d.]', text) and not text.startswith('---'):
        return read_projection_calibration(*_sides(path))
    if text.startswith('<'):
        raise ValueError(f'calibration {path} is XML: write it as YAML, as cv2.FileStorage does '
                         'for a name that ends in .yaml')
    raw_calibrations.reject_settings_of_zed(path, text)
    if YAML_MARK.search(text):
        content = _yaml_content(path, text)
        calibration = _read_yaml_calibration(path, content) if isinstance(content, dict) else None
        if calibration is not None:
            return calibration
        if '!!opencv-matrix' in text:
            return read_opencv_calibration(path)
    raise ValueError(f'calibration {path} is in no known format: it should have {FORMATS}')


def _read_yaml_calibration(path: PathLike, content: dict[str, Any]) -> Calibration | None:
    """By the names in it; None: they are of no known format."""
    if any(key in content for key in CAMERA_INFO_KEYS):
        return read_camera_info_calibration(*_sides(path))
    for sides in CAMERA_KEYS:
        infos = [content.get(side) for side in sides]
        if all(isinstance(info, dict) and any(key in info for key in CAMERA_INFO_KEYS)
               for info in infos):
            return _of_camera_infos([f'{path}: {side}' for side in sides], infos)
    found = raw_calibrations.read(path, content)
    if found is not None:
        return _calibration(path, *found)
    return read_opencv_calibration(path) if 'Q' in content or _projection_keys(content) else None


def cameras_of_image(image: PathLike | None) -> tuple[int, int] | None:
    """The pair of KITTI's cameras that an image is of, by the folder that it lies in, or None."""
    for name in reversed(Path(image).absolute().parts[:-1] if image else ()):
        if re.fullmatch(r'image_0?[01]', name):
            return GREY_CAMERAS
        if re.fullmatch(r'image_0?[23]|colored_[01]', name):
            return COLOUR_CAMERAS
    return None


def _read_kitti_pair(path: PathLike, pairs: list[tuple[int, int]],
                     told: tuple[int, int] | None) -> Calibration:
    """That of the cameras that are told, else of the first pair, with a warning where the file
    has two."""
    calibration = read_kitti_calibration(path, told or pairs[0])
    if not told and len(pairs) > 1:
        _warn_once(f'calibration {path} has four cameras: 0 and 1 (grey) were taken, with a '
                   f'baseline of {calibration.baseline_m:.4f} m. Images of 2 and 3 (colour) need '
                   'to lie in folders named image_2 and image_3, or image_02 and image_03')
    return calibration


@functools.cache
def _warn_once(text: str) -> None:
    """A data set reads its calibration again for every pair."""
    _log.warning(text)


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
    lines = {name.strip(): value for name, _, value in (
        line.partition('=') for line in read_text(path, 'calibration').splitlines())}
    left, right = (_numbers(path, name, lines.get(name), 9) for name in ('cam0', 'cam1'))
    baseline, = _numbers(path, 'baseline', lines.get('baseline'), 1)
    return _calibration(
        path, projection(left[0], left[2], left[5], 0.0, left[4]),
        projection(right[0], right[2], right[5], baseline / 1000.0, right[4]),
        size=_size(path, lines.get('width'), lines.get('height')))


def read_projection_calibration(left: PathLike, right: PathLike) -> Calibration:
    """Read two text files with one 3 x 4 projection matrix each (P_left.txt, P_right.txt).

    :raises ValueError: no such file, or not twelve numbers.
    """
    return _calibration(right, _numbers(left, 'P', read_text(left, 'calibration'), 12),
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
    return _calibration(path, left, right,
                        size=_size(path, *lines.get(f'S_rect_0{cameras[0]}', '').split()))


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
    right[3] = -right[0] * math.hypot(*offset)
    return _calibration(path, left, right)


def read_virtual_kitti_calibration(path: PathLike) -> Calibration:
    """Read intrinsic.txt of Virtual KITTI 2: a head, then frame, camera, fx, fy, cx, cy a line.

    All frames have the same numbers; the first of camera 0 is taken.

    :raises ValueError: no such file, or no line of camera 0.
    """
    lines = [line.split() for line in read_text(path, 'calibration').splitlines()[1:]]
    for words in lines:
        if len(words) == 6 and words[1] == '0':
            fx, fy, cx, cy = _numbers(path, 'the first line of camera 0', ' '.join(words[2:]), 4)
            return rectified(path, fx, VIRTUAL_KITTI_BASELINE, cx, cy, fy)
    raise ValueError(f'calibration {path} has no line with 6 numbers of camera 0')


def read_camera_info_calibration(left: PathLike, right: PathLike) -> Calibration:
    """Read two YAML files of ROS (camera_calibration, camera_info_manager): P of each camera.

    Images are taken as rectified: distortion, K and R do not matter.

    :raises ValueError: no such file, no projection_matrix of 12 numbers, different sizes, or
        cameras that are swapped.
    """
    return _of_camera_infos((left, right), [
        _yaml_content(path, read_text(path, 'calibration')) for path in (left, right)])


def _of_camera_infos(names: Sequence[PathLike], infos: Sequence[Any]) -> Calibration:
    projections, sizes = [], []
    for name, info in zip(names, infos, strict=True):
        key = next((key for key in CAMERA_INFO_KEYS if isinstance(info, dict) and key in info),
                   None)
        if key is None:
            raise ValueError(f'calibration {name} has no projection_matrix with data')
        projections.append(_matrix(name, key, info[key], 3))
        sizes.append(_size_in(name, info))
    if sizes[0] != sizes[1]:
        raise ValueError(f'calibrations {names[0]} and {names[1]} are of images of different '
                         'sizes: {} x {} and {} x {}'.format(*sizes[0], *sizes[1]))
    return _calibration(f'{names[0]} and {names[1]}', projections[0], projections[1],
                        size=sizes[0])


def read_opencv_calibration(path: PathLike) -> Calibration:
    """Read a stereo calibration of OpenCV (cv2.FileStorage): P1 and P2, or else Q.

    See cv2.stereoRectify for the three matrices. Their unit has to be metres. Lists of numbers,
    also nested, are as good as OpenCV's matrices.

    :raises ValueError: no such file, none of the matrices, cameras one above the other, or a
        baseline that is not in metres.
    """
    content = _yaml_content(path, read_text(path, 'calibration'))
    if not isinstance(content, dict):
        raise ValueError(f'calibration {path} has no matrices by name')
    keys = _projection_keys(content)
    if keys:
        left, right = (_matrix(path, name, content[name], 3) for name in keys)
    elif content.get('Q') is not None:
        left, right = _projections_of_q(path, _matrix(path, 'Q', content['Q'], 4))
    else:
        raise ValueError(f'calibration {path} has neither P1 and P2 nor Q: write what '
                         'cv2.stereoRectify returns')
    return _calibration(path, left, right, size=_size_in(path, content))


def _projection_keys(content: dict[str, Any]) -> tuple[str, str] | None:
    return next((keys for keys in PROJECTION_KEYS
                 if all(content.get(key) is not None for key in keys)), None)


def _projections_of_q(path: PathLike, q: list[float]) -> tuple[list[float], list[float]]:
    """Projections of which cv2.stereoRectify makes this Q."""
    if q[14] == 0:
        raise ValueError(f'calibration {path}: Q[3][2] is 0, which is 1 / baseline')
    # Q[3] is (0, 0, -1 / Tx, (cx - cx') / Tx).
    baseline, shift = 1 / q[14], -q[15] / q[14]
    return (projection(q[11], -q[3], -q[7]),
            projection(q[11], -q[3] - shift, -q[7], baseline))


def _yaml_content(path: PathLike, text: str) -> Any:
    try:
        # %YAML:1.0, as OpenCV begins its files, is no directive of YAML.
        # A message as ROS prints it ends with the separator of documents.
        return parse_yaml(re.sub(r'^\ufeff?%YAML.*|\n---\s*$', '\n', text))
    except ValueError as error:
        raise ValueError(f'calibration {path}: {error}') from error


def _matrix(path: PathLike, name: str, matrix: Any, rows: int) -> list[float]:
    """The numbers, row by row, of a matrix of 4 columns: OpenCV's or ROS's, or a list."""
    data = matrix
    if isinstance(matrix, dict):
        data = matrix.get('data')
        if (matrix.get('rows'), matrix.get('cols')) not in ((rows, 4), (None, None)):
            data = None
    if isinstance(data, list) and len(data) == rows and all(
            isinstance(row, list) and len(row) == 4 for row in data):
        data = [value for row in data for value in row]
    if not isinstance(data, list):
        raise ValueError(f'calibration {path}: {name} is no matrix of {rows} rows and 4 cols with '
                         'data')
    try:
        text = ' '.join(map(str, data))
    except ValueError as error:         # a number of more than 4300 digits
        raise ValueError(f'calibration {path}: {name} is not made of numbers') from error
    return _numbers(path, name, text, 4 * rows)


def _size_in(path: PathLike, content: dict[str, Any]) -> tuple[int, int]:
    """Width and height of the images that a YAML file speaks of; (0, 0) = it does not say."""
    for keys in (('image_width', 'image_height'), ('width', 'height')):
        if all(key in content for key in keys):
            return _size(path, *(content[key] for key in keys))
    for key in ('imageSize', 'image_size', 'resolution'):
        if isinstance(content.get(key), list):
            return _size(path, *content[key])
    return 0, 0


def _size(path: PathLike, *values: object) -> tuple[int, int]:
    """Width and height, or (0, 0) where one is missing."""
    if len(values) != 2 or None in values:
        return 0, 0
    words = ' '.join(word for word in map(str, values) if len(word) < 40)
    width, height = _numbers(path, 'the size of the images', words, 2)
    if not all(1 <= side <= LARGEST_SIDE and side == int(side) for side in (width, height)):
        raise ValueError(f'calibration {path} is of images of {width:g} x {height:g} pixels, but '
                         f'sides have 1 to {LARGEST_SIDE}')
    return int(width), int(height)


def _named_lines(path: PathLike) -> dict[str, str]:
    return dict(line.split(':', 1) for line in read_text(path, 'calibration').splitlines()
                if ':' in line)


def projection(focal_px: float, cx: float, cy: float, baseline_m: float = 0.0,
               focal_y_px: float = 0.0) -> list[float]:
    """The 12 numbers of P of a camera so far to the right of the left one.

    :param focal_y_px: 0 = ``focal_px``.
    """
    return [focal_px, 0.0, cx, -focal_px * baseline_m, 0.0, focal_y_px or focal_px, cy, 0.0,
            0.0, 0.0, 1.0, 0.0]


def rectified(path: PathLike, focal_px: float, baseline_m: float, cx: float, cy: float,
              focal_y_px: float = 0.0, size: tuple[int, int] = (0, 0)) -> Calibration:
    """Of two cameras with the same numbers, which a data set has.

    :raises ValueError: they make no calibration.
    """
    return _calibration(path, projection(focal_px, cx, cy, 0.0, focal_y_px),
                        projection(focal_px, cx, cy, baseline_m, focal_y_px), size)


def _calibration(path: PathLike, left: Sequence[float], right: Sequence[float],
                 size: tuple[int, int] = (0, 0)) -> Calibration:
    """Of both projection matrices, row by row.

    :param size: width and height of the images, pixels; (0, 0) = unknown.
    """
    try:
        return Calibration.from_projections(left, right, size)
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
