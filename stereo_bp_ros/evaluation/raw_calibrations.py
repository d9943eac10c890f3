"""Calibration files of raw cameras: kalibr, EuRoC, ORB-SLAM, ZED and OAK.

They describe cameras before rectification. Their numbers hold for rectified images only where the
cameras are parallel and without distortion as they are; every other file is rejected, because
rectification chooses the focal length and the principal point anew.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.evaluation.files import PathLike

MAX_OFFSET_PX = 0.1
"""Pixels by which rows or focal lengths of cameras that count as rectified may differ."""

MAX_SLOPE = 1e-3
"""Largest part of the baseline that is not along the rows."""

Projections = tuple[list[float], list[float], tuple[int, int]]
"""P of the left and of the right camera, and width and height of their images."""

WAY_OUT = ('Rectify the images, and write P1 and P2 of cv2.stereoRectify to stereo.yaml, or the '
           'camera_info of the rectified images to left.yaml and right.yaml')


@dataclasses.dataclass(frozen=True)
class _Camera:
    """intrinsics: fx, fy, cx, cy; pose: 4 x 4, from the rig to the camera."""

    intrinsics: np.ndarray
    distortion: np.ndarray
    pose: np.ndarray
    size: tuple[int, int]


def reject_settings_of_zed(path: PathLike, text: str) -> None:
    """Reject SN*.conf of a ZED, which has raw cameras of several resolutions.

    :raises ValueError: it is one.
    """
    if re.search(r'^\[(LEFT|RIGHT)_CAM_\w+\]', text, re.MULTILINE):
        raise _rejected(path, 'has the factory settings of a ZED (SN*.conf), which describe raw '
                              'cameras in several resolutions')


def read(path: PathLike, content: Mapping[str, Any]) -> Projections | None:
    """Projections of cameras that are parallel as they are; None: another kind of file.

    :raises ValueError: a file of raw cameras that have to be rectified, or a damaged one.
    """
    if 'cameraData' in content or 'stereoRectificationData' in content:
        raise _rejected(path, 'is that of an OAK (DepthAI), which describes raw cameras')
    try:
        if isinstance(content.get('cam0'), dict) and 'intrinsics' in content['cam0']:
            return _parallel(path, 'a camchain of kalibr', *_of_kalibr(path, content))
        if 'T_BS' in content and 'intrinsics' in content:
            return _parallel(path, 'a sensor.yaml of EuRoC', *_of_euroc(path))
        if 'Camera.bf' in content:
            return _parallel(path, 'a settings file of ORB-SLAM', *_of_orb_slam(content))
    except (TypeError, KeyError, OverflowError, np.linalg.LinAlgError) as error:
        raise ValueError(f'calibration {path} is damaged: {error!r:.80}') from error
    return None


def _of_kalibr(path: PathLike, content: Mapping[str, Any]) -> tuple[_Camera, _Camera]:
    if not isinstance(content.get('cam1'), dict):
        raise ValueError(f'calibration {path} is a camchain of kalibr with one camera: a pair has '
                         'cam0 and cam1')
    for name in ('cam0', 'cam1'):
        model = content[name].get('camera_model', 'pinhole')
        if model != 'pinhole':
            raise _rejected(path, 'is a camchain of kalibr that describes raw cameras '
                                  f'({name} is no pinhole)')
    left, right = (_Camera(_array(path, camera['intrinsics'], 4),
                           _array(path, camera.get('distortion_coeffs', [])), np.eye(4),
                           _size(path, camera.get('resolution')))
                   for camera in (content['cam0'], content['cam1']))
    pose = _array(path, content['cam1']['T_cn_cnm1'], 16).reshape(4, 4)
    return left, dataclasses.replace(right, pose=pose)


def _of_euroc(path: PathLike) -> tuple[_Camera, _Camera]:
    """Files of both cameras: cam0/sensor.yaml and cam1/sensor.yaml."""
    rig = Path(path).absolute().parent.parent
    cameras = []
    for name in ('cam0', 'cam1'):
        place = rig / name / 'sensor.yaml'
        try:
            content = read_yaml(place)
        except ValueError as error:
            raise ValueError(f'calibration {place}: {error}') from error
        if not isinstance(content, dict):
            raise ValueError(f'calibration {place} is not a table of a camera')
        pose = _array(place, content['T_BS']['data'], 16).reshape(4, 4)
        cameras.append(_Camera(_array(place, content['intrinsics'], 4),
                               _array(place, content.get('distortion_coefficients', [])),
                               np.linalg.inv(pose), _size(place, content.get('resolution'))))
    return cameras[0], cameras[1]


def _of_orb_slam(content: Mapping[str, Any]) -> tuple[_Camera, _Camera]:
    """ORB-SLAM takes rectified stereo images, whose baseline is Camera.bf / Camera.fx."""
    names = [f'Camera.{name}' for name in ('fx', 'fy', 'cx', 'cy', 'bf')]
    *intrinsics, bf = (float(content[name]) for name in names)
    distortion = [float(value) for name, value in content.items()
                  if re.fullmatch(r'Camera\.[kp]\d', str(name))]
    pose = np.eye(4)
    pose[0, 3] = -bf / intrinsics[0] if intrinsics[0] else np.nan
    size = (int(content.get('Camera.width', 0)), int(content.get('Camera.height', 0)))
    left = _Camera(np.array(intrinsics), np.array(distortion), np.eye(4), size)
    return left, dataclasses.replace(left, pose=pose)


def _parallel(path: PathLike, kind: str, left: _Camera, right: _Camera) -> Projections:
    """Projections of cameras that are parallel, along the rows and without distortion."""
    numbers = np.concatenate([part.ravel() for camera in (left, right) for part in (
        camera.intrinsics, camera.distortion, camera.pose)])
    if not (np.abs(numbers) <= 1e9).all():
        raise ValueError(f'calibration {path} has a number that is not finite, or beyond 1e9')
    pose = right.pose @ np.linalg.inv(left.pose)
    if left.size != right.size:
        raise ValueError(f'calibration {path}: images of the two cameras have different sizes: '
                         '{} x {} and {} x {}'.format(*left.size, *right.size))
    turn = np.abs(pose[:3, :3] - np.eye(3)).max()
    focal = left.intrinsics[0]
    causes = {
        'distortion': np.any(left.distortion) or np.any(right.distortion),
        'a rotation between the cameras': turn * abs(focal) > MAX_OFFSET_PX,
        'an offset across the rows': np.abs(pose[1:3, 3]).max() > MAX_SLOPE * abs(pose[0, 3]),
        'unequal focal lengths or rows': np.abs(
            left.intrinsics - right.intrinsics)[[0, 1, 3]].max() > MAX_OFFSET_PX}
    found = [cause for cause, is_there in causes.items() if is_there]
    if found:
        raise _rejected(path, f'is {kind} that describes raw cameras ({", ".join(found)})')
    p = [[fx, 0.0, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0]
         for fx, fy, cx, cy in (left.intrinsics.tolist(), right.intrinsics.tolist())]
    p[1][3] = p[1][0] * float(pose[0, 3])
    return p[0], p[1], left.size


def _rejected(path: PathLike, what: str) -> ValueError:
    return ValueError(f'calibration {path} {what}, not rectified images. {WAY_OUT}')


def _array(path: PathLike, values: object, count: int | None = None) -> np.ndarray:
    try:
        found = np.asarray(values, np.float64).ravel()
    except (ValueError, OverflowError) as error:
        raise ValueError(f'calibration {path}: {values!r:.60} is not made of numbers') from error
    if count is not None and found.size != count:
        raise ValueError(f'calibration {path}: {values!r:.60} should be {count} numbers')
    return found


def _size(path: PathLike, values: object) -> tuple[int, int]:
    if values is None:
        return 0, 0
    width, height = _array(path, values, 2)
    return int(width), int(height)
