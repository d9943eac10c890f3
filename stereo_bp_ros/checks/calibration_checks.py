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


def _turned(offset_px: float, calibration: Calibration, bound: str = '') -> str:
    """What an offset of all disparities means, and what explains it."""
    disparity = calibration.focal_px * calibration.baseline_m / EXAMPLE_M
    measured = disparity + offset_px
    result = ('have a negative disparity' if measured <= 0 else
              f'are measured as {EXAMPLE_M * disparity / measured:.0f} m')
    side = 'right' if offset_px > 0 else 'left'
    return (f'disparities are{bound} {abs(offset_px):.2f} px too '
            f'{"large" if offset_px > 0 else "small"}, and {EXAMPLE_M:g} m '
            f'{result}: a yaw of{bound} {abs(yaw_degrees(offset_px, calibration)):.2f} degrees of '
            f'the right camera to the {side} explains it, seen from the left one (or a cx that '
            'is wrong by as many pixels); calibrate the cameras anew')


def check_yaw(offset_px: float, calibration: Calibration, negative: int = 0, far: int = 0
              ) -> list[Issue]:
    """All disparities are too large (below 0: too small) by so many pixels.

    :param negative, far: where only far points show it: how many have negative disparity, of all.
    """
    text = (f'{negative} of {far} far points have negative disparity: '
            + _turned(offset_px, calibration, ' at least') if far else
            _turned(offset_px, calibration))
    return [IssueCode.YAW.issue(text, abs(offset_px))]
