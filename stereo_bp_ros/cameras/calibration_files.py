"""Calibrations of rectified pairs in the files of data sets, of ROS, OpenCV and SLAM systems.

Every error is a ValueError whose sentence names the file and what is wrong with it.
"""

from __future__ import annotations

import functools
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.config.files import parse_yaml
from stereo_bp_ros.images.files import MAX_SIDE, PathLike, read_text

_log = logging.getLogger(__name__)

#: No focal length, principal point or baseline is larger, in pixels or millimetres.
MAX_NUMBER = 1e9

NAMES = ('P_left.txt', 'calib.txt', 'left.yaml', 'left.yml', 'stereo.yaml', 'stereo.yml',
         'extrinsics.yml')
"""Names that a calibration beside images may have; the first that is there is taken."""

FORMATS = ('lines cam0=, cam1= and baseline= (Middlebury, ETH3D), lines P0: and P1: (KITTI) or '
           'P_rect_101: and P_rect_103: (DrivingStereo), 12 numbers of P_left.txt beside '
           'P_right.txt, left.yaml beside right.yaml (camera_info of ROS), or a YAML file of '
           'OpenCV with P1 and P2, or Q')

#: Numbers of the left and right camera of KITTI's two pairs.
GREY_CAMERAS, COLOUR_CAMERAS = (0, 1), (2, 3)

PROJECTION_KEYS = (('P0', 'P1'), ('P1', 'P2'), ('P2', 'P3'), ('P_left', 'P_right'),
                   ('P_l', 'P_r'), ('Pl', 'Pr'), ('LEFT.P', 'RIGHT.P'), ('P_rect_00', 'P_rect_01'))
"""Names of the two projection matrices in YAML; the first pair that is there is taken."""

#: Names of the two cameras in a YAML file of both.
CAMERA_KEYS = (('left', 'right'), ('left_camera', 'right_camera'), ('cam0', 'cam1'))

#: Names of P in the YAML of one camera: a calibration file, or a message as ROS prints it.
CAMERA_INFO_KEYS = ('projection_matrix', 'P', 'p')

#: Of cameras that count as rectified: pixels by which rows or focal lengths may differ, and the
#: part of the baseline that is not along the rows.
MAX_OFFSET_PX, MAX_SLOPE = 0.1, 1e-3

Projections = tuple[Sequence[float], Sequence[float], tuple[int, int]]
"""P of the left and of the right camera, and width and height of their images; 0 = unknown."""


def find_calibration(folder: Path) -> Path | None:
    """The calibration beside the images of a folder, or None.

    One that describes the left camera alone counts only with that of the right one.
    """
    for name in NAMES:
        path = folder / name
        if path.is_file() and ('left' not in name or other_side(path).is_file()):
            return path
    return None


def read_projections(path: PathLike, image: PathLike | None = None) -> Projections:
    """Read both projection matrices in any format, which the content of the file determines.

    :param path, image: as of ``Calibration.from_file``.
    :raises ValueError: as ``Calibration.from_file``, unless the matrices make no pair.
    """
    file = CalibrationFile(path)
    for mark, read in READERS.items():
        if re.search(mark, file.text, re.MULTILINE):
            found = read(file, image) if read is _read_kitti else read(file)
            if found is not None:
                return found
    raise file.error(f' is in no known format: it should have {FORMATS}')


def make_projection(focal_px: float, cx: float, cy: float, baseline_m: float = 0.0,
                    focal_y_px: float = 0.0) -> list[float]:
    """The 12 numbers of P of a camera so far to the right of the left one; 0 = ``focal_px``."""
    return [focal_px, 0.0, cx, -focal_px * baseline_m, 0.0, focal_y_px or focal_px, cy, 0.0,
            0.0, 0.0, 1.0, 0.0]


def other_side(path: Path) -> Path:
    """The file of the other camera: 'left' in the name becomes 'right', and the reverse."""
    own, other = ('left', 'right') if 'left' in path.name else ('right', 'left')
    start, found, end = path.name.rpartition(own)
    return path.with_name(start + other + end) if found else path


class CalibrationFile:
    """A calibration file, whose errors name it."""

    def __init__(self, path: PathLike) -> None:
        self.path = path
        self.text = read_text(path, 'calibration')

    def error(self, what: str) -> ValueError:
        return ValueError(f'calibration {self.path}{what}')

    def raw_cameras(self, what: str) -> ValueError:
        return self.error(f' {what}, not rectified images. Rectify the images, and write P1 and '
                          'P2 of cv2.stereoRectify to stereo.yaml, or the camera_info of the '
                          'rectified images to left.yaml and right.yaml')

    def numbers(self, name: str, values: object, count: int | None = None) -> list[float]:
        """Finite numbers of a text, or of a list that may be nested."""
        if values is None:
            raise self.error(f' has no {name}')
        if isinstance(values, str):
            values = values.strip().strip('[]').replace(';', ' ').split()
        try:
            found = np.asarray(values, np.float64).ravel()
        except (TypeError, ValueError, OverflowError) as error:
            raise self.error(f': {name} is not made of numbers') from error
        if count is not None and found.size != count:
            raise self.error(f': {name} should be {count} numbers, not {found.size}')
        if not (np.abs(found) <= MAX_NUMBER).all():
            raise self.error(f': {name} has a number that is not finite, or beyond '
                             f'{MAX_NUMBER:g}')
        return [float(value) for value in found]

    def matrix(self, name: str, matrix: Any, rows: int) -> list[float]:
        """The numbers, row by row, of a matrix of 4 columns: OpenCV's or ROS's, or a list."""
        data = matrix
        if isinstance(matrix, dict):
            data = matrix.get('data')
            if (matrix.get('rows'), matrix.get('cols')) not in ((rows, 4), (None, None)):
                data = None
        if not isinstance(data, list):
            raise self.error(f': {name} is no matrix of {rows} rows and 4 cols with data')
        return self.numbers(name, data, 4 * rows)

    def size(self, values: object) -> tuple[int, int]:
        """Width and height of images; (0, 0) where they are unknown."""
        if values is None:
            return 0, 0
        width, height = self.numbers('the size of the images', values, 2)
        if not all(1 <= side <= MAX_SIDE and side == int(side) for side in (width, height)):
            raise self.error(f' is of images of {width:g} x {height:g} pixels, but sides have 1 '
                             f'to {MAX_SIDE}')
        return int(width), int(height)

    def lines(self, separator: str) -> dict[str, str]:
        """Values of lines by the names in front of the separator."""
        parts = (line.partition(separator) for line in self.text.splitlines())
        return {name.strip(): value for name, found, value in parts if found}

    def yaml(self) -> Any:
        try:
            # %YAML:1.0, as OpenCV begins its files, is no directive of YAML.
            # A message as ROS prints it ends with the separator of documents.
            return parse_yaml(re.sub(r'^\ufeff?%YAML.*|\n---\s*$', '\n', self.text))
        except ValueError as error:
            raise self.error(f': {error}') from error

    def sides(self) -> tuple[CalibrationFile, CalibrationFile]:
        """This file and the one beside it: those of the left and of the right camera."""
        own = Path(self.path)
        other = other_side(own)
        if other == own:
            raise self.error(' is of one camera, and its name has neither left nor right: name '
                             'both files so, beside each other')
        if not other.is_file():
            raise self.error(f' is of one camera: put {other.name} of the other one beside it')
        beside = CalibrationFile(other)
        return (self, beside) if 'left' in own.name else (beside, self)


def _read_middlebury(file: CalibrationFile) -> Projections:
    """calib.txt of Middlebury since 2014 or ETH3D; its baseline is in millimetres."""
    lines = file.lines('=')
    left, right = (file.numbers(name, lines.get(name), 9) for name in ('cam0', 'cam1'))
    baseline, = file.numbers('baseline', lines.get('baseline'), 1)
    size = f'{lines["width"]} {lines["height"]}' if {'width', 'height'} <= lines.keys() else None
    return (make_projection(left[0], left[2], left[5], 0.0, left[4]),
            make_projection(right[0], right[2], right[5], baseline / 1000.0, right[4]),
            file.size(size))


def _read_driving_stereo(file: CalibrationFile) -> Projections:
    """DrivingStereo, whose cameras are 101 (left) and 103.

    The baseline is the length of T_103: the files of the half size keep P_rect_103[3] of the
    full size, twice as large.
    """
    lines = file.lines(':')
    left, right = (file.numbers(name, lines.get(name), 12)
                   for name in ('P_rect_101', 'P_rect_103'))
    right[3] = -right[0] * math.hypot(*file.numbers('T_103', lines.get('T_103'), 3))
    return left, right, (0, 0)


def _read_kitti(file: CalibrationFile, image: PathLike | None) -> Projections:
    """KITTI: lines are 'P0: ...' or, as in calib_cam_to_cam, 'P_rect_00: ...'."""
    lines = file.lines(':')
    pairs = [cameras for cameras in (GREY_CAMERAS, COLOUR_CAMERAS)
             if f'P{cameras[0]}' in lines or f'P_rect_0{cameras[0]}' in lines]
    of_image = _cameras_of_image(image)
    cameras = of_image or pairs[0]
    left, right = (file.numbers(f'P{camera}', lines.get(
        f'P{camera}', lines.get(f'P_rect_0{camera}')), 12) for camera in cameras)
    found = left, right, file.size(lines.get(f'S_rect_0{cameras[0]}'))
    if not of_image and len(pairs) > 1:
        baseline_m = left[3] / (left[0] or math.nan) - right[3] / (right[0] or math.nan)
        _warn_once(f'calibration {file.path} has four cameras: 0 and 1 (grey) were taken, with a '
                   f'baseline of {baseline_m:.4f} m. Images of 2 and 3 (colour) need to lie in '
                   'folders named image_2 and image_3, or image_02 and image_03')
    return found


def _cameras_of_image(image: PathLike | None) -> tuple[int, int] | None:
    """The pair of KITTI's cameras that an image is of, by the folder that it lies in."""
    folders = re.findall(r'/(?:image_0?([0-3])|colored_[01])(?=/)',
                         str(Path(image).absolute()) if image else '')
    if not folders:
        return None
    return GREY_CAMERAS if folders[-1] in ('0', '1') else COLOUR_CAMERAS


@functools.cache
def _warn_once(text: str) -> None:
    """A data set reads its calibration again for every pair."""
    _log.warning(text)


def _read_projections(file: CalibrationFile) -> Projections:
    """P_left.txt and P_right.txt: 12 numbers each."""
    left, right = (one.numbers('P', one.text, 12) for one in file.sides())
    return left, right, (0, 0)


def _reject(file: CalibrationFile) -> Projections:
    if file.text.startswith('<'):
        raise file.error(' is XML: write it as YAML, as cv2.FileStorage does for a name that ends '
                         'in .yaml')
    raise file.raw_cameras('has the factory settings of a ZED (SN*.conf), which describe raw '
                           'cameras in several resolutions')


def _read_yaml(file: CalibrationFile) -> Projections | None:
    """By the names in it; None: they are of no known format."""
    content = file.yaml()
    if not isinstance(content, dict):
        content = {}
    if any(key in content for key in CAMERA_INFO_KEYS):
        sides = file.sides()
        return _read_camera_infos(sides, [one.yaml() for one in sides])
    for keys in CAMERA_KEYS:
        infos = [content.get(key) for key in keys]
        if all(isinstance(info, dict) and any(key in info for key in CAMERA_INFO_KEYS)
               for info in infos):
            return _read_camera_infos((file, file), infos)
    found = _read_raw_cameras(file, content)
    if found is not None:
        return found
    for keys in PROJECTION_KEYS:
        if all(content.get(key) is not None for key in keys):
            left, right = (file.matrix(key, content[key], 3) for key in keys)
            return left, right, size_in(file, content)
    if content.get('Q') is not None:
        try:
            left, right = projections_of_q(file.matrix('Q', content['Q'], 4))
        except ValueError as error:
            raise file.error(f': {error}') from error
        return left, right, size_in(file, content)
    if 'Q' in content or '!!opencv-matrix' in file.text:
        raise file.error(' has neither P1 and P2 nor Q: write what cv2.stereoRectify returns')
    return None


def _read_camera_infos(files: Sequence[CalibrationFile], infos: Sequence[Any]) -> Projections:
    """Images are taken as rectified: distortion, K and R do not matter."""
    projections, sizes = [], []
    for file, info in zip(files, infos, strict=True):
        key = next((key for key in CAMERA_INFO_KEYS if isinstance(info, dict) and key in info),
                   None)
        if key is None:
            raise file.error(' has no projection_matrix with data')
        projections.append(file.matrix(key, info[key], 3))
        sizes.append(size_in(file, info))
    if sizes[0] != sizes[1]:
        raise files[0].error(f' and {files[1].path} are of images of different sizes: '
                             '{} x {} and {} x {}'.format(*sizes[0], *sizes[1]))
    return projections[0], projections[1], sizes[0]


def projections_of_q(q: Sequence[float]) -> tuple[list[float], list[float]]:
    """Projections of which ``cv2.stereoRectify`` makes this Q, 16 numbers row by row.

    :raises ValueError: it has no baseline or no rows.
    """
    if q[14] == 0:
        raise ValueError('Q[3][2] is 0, which is 1 / baseline')
    if q[5] == 0:
        raise ValueError('Q[1][1] is 0, which is 1, or focal length / vertical focal length')
    # Q[3] is (0, 0, -1 / Tx, (cx - cx') / Tx).
    baseline, shift = 1 / q[14], -q[15] / q[14]
    cy, focal_y_px = -q[7] / q[5], q[11] / q[5]
    return (make_projection(q[11], -q[3], cy, 0.0, focal_y_px),
            make_projection(q[11], -q[3] - shift, cy, baseline, focal_y_px))


def size_in(file: CalibrationFile, content: Mapping[str, Any]) -> tuple[int, int]:
    """Width and height of the images that a YAML file speaks of; (0, 0) = it does not say."""
    for keys in (('image_width', 'image_height'), ('width', 'height')):
        if all(content.get(key) is not None for key in keys):
            return file.size([content[key] for key in keys])
    return file.size(next((content[key] for key in ('imageSize', 'image_size', 'resolution')
                           if isinstance(content.get(key), list)), None))


# Raw cameras: kalibr, EuRoC, ORB-SLAM and OAK. Their numbers hold for rectified images only where
# the cameras are parallel and without distortion already: rectification chooses the focal
# length and the principal point anew.

class _Camera(NamedTuple):
    """intrinsics: fx, fy, cx, cy; pose: 4 x 4, from the rig to the camera."""

    intrinsics: np.ndarray
    distortion: Sequence[float]
    pose: np.ndarray
    size: tuple[int, int]


def _camera(file: CalibrationFile, about: Mapping[str, Any], distortion: str, pose: np.ndarray
            ) -> _Camera:
    return _Camera(np.array(file.numbers('intrinsics', about['intrinsics'], 4)),
                   file.numbers(distortion, about.get(distortion, [])), pose,
                   file.size(about.get('resolution')))


def _read_raw_cameras(file: CalibrationFile, content: Mapping[str, Any]) -> Projections | None:
    if 'cameraData' in content or 'stereoRectificationData' in content:
        raise file.raw_cameras('is that of an OAK (DepthAI), which describes raw cameras')
    try:
        if isinstance(content.get('cam0'), dict) and 'intrinsics' in content['cam0']:
            return _parallel(file, 'a camchain of kalibr', *_read_kalibr(file, content))
        if 'T_BS' in content and 'intrinsics' in content:
            return _parallel(file, 'a sensor.yaml of EuRoC', *_read_euroc(file))
        if 'Camera.bf' in content:
            return _parallel(file, 'a settings file of ORB-SLAM', *_read_orb_slam(file, content))
    except (TypeError, KeyError, OverflowError, np.linalg.LinAlgError) as error:
        raise file.error(f' is damaged: {error!r:.80}') from error
    return None


def _read_kalibr(file: CalibrationFile, content: Mapping[str, Any]) -> tuple[_Camera, _Camera]:
    cameras = [content['cam0'], content.get('cam1')]
    if not isinstance(cameras[1], dict):
        raise file.error(' is a camchain of kalibr with one camera: a pair has cam0 and cam1')
    for name, camera in zip(('cam0', 'cam1'), cameras, strict=True):
        if camera.get('camera_model', 'pinhole') != 'pinhole':
            raise file.raw_cameras('is a camchain of kalibr that describes raw cameras '
                                   f'({name} is no pinhole)')
    pose = np.reshape(file.numbers('T_cn_cnm1', cameras[1]['T_cn_cnm1'], 16), (4, 4))
    left, right = (_camera(file, camera, 'distortion_coeffs', own)
                   for camera, own in zip(cameras, (np.eye(4), pose), strict=True))
    return left, right


def _read_euroc(file: CalibrationFile) -> tuple[_Camera, _Camera]:
    """Files of both cameras: cam0/sensor.yaml and cam1/sensor.yaml."""
    cameras = []
    for name in ('cam0', 'cam1'):
        own = CalibrationFile(Path(file.path).absolute().parent.parent / name / 'sensor.yaml')
        content = own.yaml()
        if not isinstance(content, dict):
            raise own.error(' is not a table of a camera')
        pose = np.reshape(own.numbers('T_BS', content['T_BS']['data'], 16), (4, 4))
        cameras.append(_camera(own, content, 'distortion_coefficients', np.linalg.inv(pose)))
    return cameras[0], cameras[1]


def _read_orb_slam(file: CalibrationFile, content: Mapping[str, Any]) -> tuple[_Camera, _Camera]:
    """ORB-SLAM takes rectified stereo images, whose baseline is Camera.bf / Camera.fx."""
    *intrinsics, bf = file.numbers('the camera', [
        content[f'Camera.{name}'] for name in ('fx', 'fy', 'cx', 'cy', 'bf')])
    distortion = file.numbers('the distortion', [
        value for name, value in content.items() if re.fullmatch(r'Camera\.[kp]\d', str(name))])
    sides = [content.get(f'Camera.{name}') for name in ('width', 'height')]
    pose = np.eye(4)
    pose[0, 3] = -bf / (intrinsics[0] or math.nan)
    left = _Camera(np.array(intrinsics), distortion, np.eye(4),
                   file.size(None if None in sides else sides))
    return left, left._replace(pose=pose)


def _parallel(file: CalibrationFile, kind: str, left: _Camera, right: _Camera) -> Projections:
    """Projections of cameras that are parallel, along the rows and without distortion."""
    pose = right.pose @ np.linalg.inv(left.pose)
    if left.size != right.size:
        raise file.error(': images of the two cameras have different sizes: '
                         '{} x {} and {} x {}'.format(*left.size, *right.size))
    turn = np.abs(pose[:3, :3] - np.eye(3)).max()
    causes = {
        'distortion': np.any(left.distortion) or np.any(right.distortion),
        'a rotation between the cameras': turn * abs(left.intrinsics[0]) > MAX_OFFSET_PX,
        'an offset across the rows': np.abs(pose[1:3, 3]).max() > MAX_SLOPE * abs(pose[0, 3]),
        'unequal focal lengths or rows': np.abs(
            left.intrinsics - right.intrinsics)[[0, 1, 3]].max() > MAX_OFFSET_PX}
    found = [cause for cause, is_there in causes.items() if is_there]
    if found:
        raise file.raw_cameras(f'is {kind} that describes raw cameras ({", ".join(found)})')
    fx, fy, cx, cy = left.intrinsics.tolist()
    right_fx, right_fy, right_cx, right_cy = right.intrinsics.tolist()
    return (make_projection(fx, cx, cy, 0.0, fy),
            make_projection(right_fx, right_cx, right_cy, -float(pose[0, 3]), right_fy), left.size)


#: Readers by what their files have in them; the first one that returns something counts.
READERS: Mapping[str, Callable[..., Projections | None]] = {
    r'^[ \t]*cam[01][ \t]*=': _read_middlebury,
    r'^P_rect_10[13]:': _read_driving_stereo,
    r'^P(_rect_0)?[02]:[ \t]*[-+.\d]': _read_kitti,
    r'\A(?!---)\s*[-+\d.]': _read_projections,
    r'\A<|^\[(LEFT|RIGHT)_CAM_\w+\]': _reject,
    r'^%YAML|!!opencv-matrix|^[ \t]*[{"\']|^[A-Za-z_][\w.]*\s*:': _read_yaml}
