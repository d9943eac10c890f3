"""The camera_infos of a calibration file, for cameras whose driver publishes none."""

from __future__ import annotations

from typing import Any

from sensor_msgs.msg import CameraInfo

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.calibration_files import read_projections
from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.images.stamps import SIDES


def read_camera_infos(path: str, rectify: bool, size: tuple[int, int] = (0, 0)
                      ) -> dict[str, CameraInfo]:
    """By side, without a stamp and a frame.

    :param rectify: of raw images, with D, K, R and P; else of rectified ones, with P alone.
    :param size: width and height of raw images, where the file does not say it; pixels.
    :raises ValueError: as ``Rectification.from_file`` with ``rectify``, else as
        ``Calibration.from_file``.
    """
    if rectify:
        found = Rectification.from_file(path, size)
        return {side: _camera_info(camera.p, (found.width, found.height),
                                   distortion_model=camera.model, d=camera.d, k=camera.k,
                                   r=camera.r)
                for side, camera in zip(SIDES, (found.left, found.right), strict=True)}
    Calibration.from_file(path)     # rejects what makes no pair
    left, right, size = read_projections(path)
    return {side: _camera_info(p, size, distortion_model='plumb_bob', d=(),
                               k=(*p[0:3], *p[4:7], *p[8:11]), r=(1, 0, 0, 0, 1, 0, 0, 0, 1))
            for side, p in zip(SIDES, (left, right), strict=True)}


def _camera_info(p: Any, size: tuple[int, int], **fields: Any) -> CameraInfo:
    info = CameraInfo(width=size[0], height=size[1], p=list(map(float, p)))
    for name, values in fields.items():
        setattr(info, name, values if name == 'distortion_model' else list(map(float, values)))
    return info
