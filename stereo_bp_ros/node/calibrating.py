"""The calibration of a pair of camera_infos, by the settings. Knows no ROS."""

from __future__ import annotations

from typing import Any

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.rectification import Rectification


def calibrate(left_info: Any, right_info: Any, config: MatcherConfig
              ) -> tuple[Calibration, Rectification | None]:
    """Calibration of the rectified images, and with ``rectify`` how raw ones become such.

    :raises InputError: as ``Calibration.from_camera_info`` and ``Rectification``.
    """
    if not config.rectify:
        return Calibration.from_camera_info(left_info, right_info), None
    rectification = Rectification.from_camera_info(
        left_info, right_info, config.rectified_width, config.rectified_height)
    return rectification.calibration, rectification
