"""What raw images are rectified with, in the files of ROS, OpenCV and ORB-SLAM: D, K, R and P.

Every error is a ValueError whose sentence names the file and what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stereo_bp_ros.cameras.calibration_files import (
    CAMERA_INFO_KEYS,
    CAMERA_KEYS,
    CalibrationFile,
    size_in,
)
from stereo_bp_ros.images.files import PathLike


class CameraNumbers(NamedTuple):
    """The fields of a ``RawCamera``, and width and height of its images; (0, 0) = not known."""

    model: str
    d: Sequence[float]
    k: Sequence[float]
    r: Sequence[float]
    p: Sequence[float]
    size: tuple[int, int]


#: Names of D, K, R and P of one camera: a calibration file of ROS, or a message as it prints it.
ROS_KEYS = (('distortion_coefficients', 'D', 'd'), ('camera_matrix', 'K', 'k'),
            ('rectification_matrix', 'R', 'r'), CAMERA_INFO_KEYS)

#: Those of both cameras in one file: OpenCV's, as its samples or their users write them.
OPENCV_KEYS = tuple(
    ((f'D{one}', f'distCoeffs{one}', f'D_{side}', f'{side.upper()}.D'),
     (f'M{one}', f'K{one}', f'cameraMatrix{one}', f'K_{side}', f'{side.upper()}.K'),
     (f'R{one}', f'R_{side}', f'{side.upper()}.R'),
     (f'P{one}', f'P_{side}', f'{side.upper()}.P'))
    for one, side in ((1, 'left'), (2, 'right')))

#: OpenCV's sample writes two files: cameras to the one, how they are rectified to the other.
OTHER_FILE = {'extrinsics': 'intrinsics', 'intrinsics': 'extrinsics'}


def read_cameras(path: PathLike) -> tuple[CameraNumbers, CameraNumbers]:
    """The left and the right camera of a file, or of one camera's file and that beside it.

    :raises ValueError: no such file, D, K, R or P is not in it, or it is damaged.
    """
    file = CalibrationFile(path)
    content = _mapping(file)
    if _has(content, ROS_KEYS[1]) and _has(content, ROS_KEYS[3]):
        left, right = (_ros_camera(side, _mapping(side)) for side in file.sides())
        return left, right
    for names in CAMERA_KEYS:
        if all(isinstance(content.get(name), Mapping) for name in names):
            left, right = (_ros_camera(file, content[name]) for name in names)
            return left, right
    own = Path(path)
    if own.stem in OTHER_FILE:
        other = own.with_stem(OTHER_FILE[own.stem])
        if other.is_file():
            content = {**_mapping(CalibrationFile(other)), **content}
    left, right = (_opencv_camera(file, content, keys, side) for keys, side in zip(
        OPENCV_KEYS, ('LEFT', 'RIGHT'), strict=True))
    return left, right


def _mapping(file: CalibrationFile) -> Mapping[str, Any]:
    content = file.yaml()
    if not isinstance(content, Mapping):
        raise file.error(' is no YAML of a camera: write D, K, R and P to it')
    return content


def _has(content: Mapping[str, Any], names: Sequence[str]) -> bool:
    return any(content.get(name) is not None for name in names)


def _ros_camera(file: CalibrationFile, content: Mapping[str, Any]) -> CameraNumbers:
    d, k, r, p = (_numbers(file, content, names) for names in ROS_KEYS)
    model = content.get('distortion_model') or content.get('camera_model') or 'plumb_bob'
    return CameraNumbers(str(model), d, k, r, p, size_in(file, content))


def _opencv_camera(file: CalibrationFile, content: Mapping[str, Any],
                   keys: Sequence[Sequence[str]], side: str) -> CameraNumbers:
    d, k, r, p = (_numbers(file, content, names) for names in keys)
    size = size_in(file, content)
    if size == (0, 0):
        size = size_in(file, {name: content.get(f'{side}.{name}')
                              for name in ('width', 'height')})
    return CameraNumbers(str(content.get('distortion_model', 'plumb_bob')), d, k, r, p, size)


def _numbers(file: CalibrationFile, content: Mapping[str, Any], names: Sequence[str]
             ) -> list[float]:
    """The numbers of the first of these names that is there, row by row."""
    for name in names:
        if (found := content.get(name)) is not None:
            data = found.get('data') if isinstance(found, Mapping) else found
            return file.numbers(name, data)
    raise file.error(f' has no {names[0]} ({", ".join(names[1:])}): raw images need D, K, R and '
                     'P of both cameras, as cv2.stereoRectify and camera_calibration of ROS '
                     'write them')
