"""What a calibration must satisfy that only time shows: see ``checks``."""

from __future__ import annotations

import math

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.issues import Issue, IssueCode

#: Distance that a yaw is explained by, metres.
EXAMPLE_M = 50.0


def yaw_degrees(offset_px: float, calibration: Calibration) -> float:
    """By how much the right camera looks further to the right than calibrated, degrees.

    :param offset_px: by how much all disparities are too large, pixels.
    """
    return math.degrees(math.atan(offset_px / calibration.focal_px))


def _turned(offset_px: float, calibration: Calibration, least: str = '') -> str:
    """What an offset of all disparities means, and what explains it."""
    disparity = calibration.focal_px * calibration.baseline_m / EXAMPLE_M
    measured = disparity + offset_px
    shown = ('behind infinity' if measured <= 0 else
             f'as {EXAMPLE_M * disparity / measured:.0f} m')
    side = 'right' if offset_px > 0 else 'left'
    return (f'disparities are{least} {abs(offset_px):.2f} px too '
            f'{"large" if offset_px > 0 else "small"}, and {EXAMPLE_M:g} m are measured '
            f'{shown}: a yaw of{least} {abs(yaw_degrees(offset_px, calibration)):.2f} degrees of '
            f'the right camera to the {side} explains it, seen from the left one (or a cx that '
            'is wrong by as many pixels); calibrate the cameras anew')


def check_yaw(offset_px: float, calibration: Calibration, behind: int = 0, far: int = 0
              ) -> list[Issue]:
    """All disparities are too large (below 0: too small) by so many pixels.

    :param behind, far: where only far points tell it: how many are behind infinity, of how many.
    """
    text = (f'{behind} of {far} far points are behind infinity: '
            + _turned(offset_px, calibration, ' at least') if far else
            _turned(offset_px, calibration))
    return [IssueCode.YAW.issue(text, abs(offset_px))]
