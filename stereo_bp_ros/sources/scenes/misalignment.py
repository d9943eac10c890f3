"""A right camera that is not quite as it was calibrated: turned, offset, of another focal length.

A camera that turns about its centre sees the same rays elsewhere: its picture is the perfect one
moved by a homography (Hartley and Zisserman 2004, section 8.4), whatever the depth. So the truth
stays that of the perfect pair, and the error has a known size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

from stereo_bp_ros.sources.scenes.renderer import Camera

#: Of each error, in either direction.
MAX_ERRORS = {'vertical_offset_px': 100.0, 'pitch_deg': 10.0, 'yaw_deg': 10.0, 'roll_deg': 10.0,
           'focal_error_percent': 20.0}

#: Pixels around a place that the interpolation of `Misalignment.picture` looks at.
INTERPOLATION_PX = 4


@dataclass(frozen=True)
class Misalignment:
    """How a camera differs from its calibration; the street's is always the right one.

    vertical_offset_px:  its picture lies this many rows lower.
    pitch_deg:           it looks up: the picture lies lower, focal length x tan(pitch) at the
                         principal point, and its sides a little more.
    yaw_deg:             it looks right: the picture lies further left, so disparities are larger,
                         by focal length x tan(yaw) at the principal point.
    roll_deg:            it leans right, its right side down: the picture turns the other way.
    focal_error_percent: its focal length is longer: the picture is larger, seen from the
                         principal point.

    It turns by yaw first, then by pitch, then by roll, each about its own axes.

    :raises ValueError: an error is larger than `MAX_ERRORS`.
    """

    vertical_offset_px: float = 0.0
    pitch_deg: float = 0.0
    yaw_deg: float = 0.0
    roll_deg: float = 0.0
    focal_error_percent: float = 0.0

    def __post_init__(self) -> None:
        for name, most in MAX_ERRORS.items():
            if not abs(getattr(self, name)) <= most:
                raise ValueError(f'{name} is {getattr(self, name)}, but must be from {-most:g} '
                                 f'to {most:g}')

    def __bool__(self) -> bool:
        """Whether there is any error."""
        return self != Misalignment()

    def homography(self, camera: Camera) -> np.ndarray:
        """From places (x, y, 1) in the perfect picture to those in this one, float64 3 x 3."""
        by_pitch, by_yaw, by_roll = (
            cv2.Rodrigues(-math.radians(angle) * axis)[0]
            for angle, axis in zip((self.pitch_deg, self.yaw_deg, self.roll_deg), np.eye(3),
                                   strict=True))
        longer = camera.focal_px * (1 + self.focal_error_percent / 100)
        to_pixels = np.array([[longer, 0, camera.cx],
                              [0, longer, camera.cy + self.vertical_offset_px], [0, 0, 1]])
        return np.asarray(to_pixels @ by_roll @ by_pitch @ by_yaw
                          @ np.linalg.inv(camera.intrinsics()))

    def widened(self, camera: Camera) -> Camera:
        """A camera that sees all that this one does: the same, with a border around its picture.

        Below the picture the street's ground ends soon, and so does the border.
        """
        right, bottom = camera.width - 1, camera.height - 1
        corners = np.array([[0, 0, 1], [right, 0, 1], [0, bottom, 1], [right, bottom, 1]], float)
        seen = np.linalg.solve(self.homography(camera), corners.T)
        move = np.abs(seen[:2] / seen[2] - corners.T[:2]).max()
        rim = math.ceil(move) + INTERPOLATION_PX
        below = min(rim, int(0.08 * (bottom - camera.cy)))
        return Camera(camera.width + 2 * rim, camera.height + rim + below, camera.focal_px,
                      camera.cx + rim, camera.cy + rim, camera.baseline_m, camera.x_m)

    def picture(self, light: np.ndarray, widened: Camera, camera: Camera) -> np.ndarray:
        """What the camera sees of ``light``, which fills the picture of ``widened``.

        light: float32 H' x W'. Returns float32 H x W: interpolated by Lanczos over 8 x 8 pixels,
        at places that OpenCV rounds to 1/32 pixel, within the extremes of 3 x 3 pixels there: a
        white sky would throw dark lines on what stands before it.
        """
        # Both have the same focal length and the same rays: their pictures differ by a shift.
        shift = camera.intrinsics() @ np.linalg.inv(widened.intrinsics())
        move = self.homography(camera) @ shift
        around = np.ones((3, 3), np.uint8)
        size = (camera.width, camera.height)
        low, seen, high = (
            cv2.warpPerspective(image, move, size, flags=flag, borderMode=cv2.BORDER_REPLICATE)
            for image, flag in ((cv2.erode(light, around), cv2.INTER_NEAREST),
                                (light, cv2.INTER_LANCZOS4),
                                (cv2.dilate(light, around), cv2.INTER_NEAREST)))
        return np.asarray(np.clip(seen, low, high))
