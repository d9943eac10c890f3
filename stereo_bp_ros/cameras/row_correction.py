"""Vertical disparity of a pair: the motion of the right camera, and its correction.

A right camera that turns about its centre, shifts its picture or changes its focal length moves
its rectified image by a homography (Hartley and Zisserman 2004, section 8.4), whatever the depth.
To first order in the error, with ``u = (x - cx) / f`` and ``v = (y - cy) / f``, rows move by

    dy = c0 + c1 u + c2 v + c3 u v + c4 v^2

c0: offset, or pitch (then c4 = c0); c1: roll; c2: focal length; c3: yaw; c4: pitch. Columns follow
for roll, focal length and pitch. They do not for c3: a yaw moves them by ``c3 (1 + u^2)``, but
real pairs (KITTI 2012: 1.5 px in the corners) have its rows without these columns.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.cameras.rectification import RightWarp

#: The terms of a correction, and what each is, for people.
TERMS = ('offset', 'roll', 'scale', 'keystone', 'pitch')

#: Places of a side at which rows are compared, the corners and the middle among them.
PLACES = 5

@dataclasses.dataclass(frozen=True)
class RowCorrection:
    """How the right image is moved; equal and hashed by value.

    terms:    c0 to c4, pixels.
    focal_px: focal length, pixels, > 0.
    cx, cy:   principal point of the right image, pixels.
    columns:  the scale of columns, which is c2 or 0, pixels.
    """

    terms: tuple[float, ...]
    focal_px: float
    cx: float
    cy: float
    columns: float = 0.0

    def homography(self) -> tuple[float, ...]:
        """Where a pixel of the corrected right image lies in the image as it comes.

        :returns: 9 numbers, row by row: (x, y, 1) of the corrected image is mapped, both in
            pixels of the rectified image. c3 is not in it, but in ``warp``.
        """
        offset, roll, scale, _, pitch = np.array(self.terms) / self.focal_px
        move = np.array([[1 + self.columns / self.focal_px, -roll, 0], [roll, 1 + scale, offset],
                         [0, -pitch, 1]])
        camera = np.array([[self.focal_px, 0, self.cx], [0, self.focal_px, self.cy], [0, 0, 1]])
        return tuple((camera @ move @ np.linalg.inv(camera)).reshape(-1).tolist())

    def warp(self) -> tuple[float, ...]:
        """The same with c3, as ``rectification.RightWarp`` takes it."""
        keystone = self.terms[3] / self.focal_px**2
        return self.homography() + ((keystone, self.cx, self.cy) if keystone else ())

    def rows(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Rows by which places of the corrected image lie lower in the one that comes, pixels.

        :param x, y: float N, pixels.
        """
        return self.factors(x, y) @ np.array(self.terms)

    def factors(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """What each term is multiplied with at places, float64 N x 5; as ``rows``."""
        u, v = (x - self.cx) / self.focal_px, (y - self.cy) / self.focal_px
        return np.stack([np.ones_like(u), u, v, u * v, v * v], axis=1)

    @property
    def text(self) -> str:
        """What moved the right camera, in words."""
        offset, roll, scale, keystone, pitch = self.terms
        u, v = self.cx / self.focal_px, self.cy / self.focal_px
        parts = {f'{abs(offset):.2f} px {"lower" if offset > 0 else "higher"}': offset,
                 f'rolled by {math.degrees(math.atan(roll / self.focal_px)):.2f} degrees': roll,
                 f'focal length {100 * scale / self.focal_px:+.2f} %'
                 + ('' if self.columns else ' in rows'): scale,
                 f'keystone {keystone * u * v:+.2f} px in the corners': keystone,
                 f'pitch {pitch * v * v:+.2f} px at the upper and lower edges': pitch}
        return ', '.join(text for text, value in parts.items() if value) or 'not moved'

    def rows_of_image(self, width: int, height: int) -> np.ndarray:
        """Rows at ``places`` all over an image of a size in pixels."""
        return self.rows(*places(width, height))

    def max_offset(self, width: int, height: int) -> float:
        """The maximum of their absolute values, pixels."""
        return float(np.abs(self.rows_of_image(width, height)).max())

    def middle(self, width: int, height: int) -> float:
        """Rows in the middle of an image, pixels."""
        return float(self.rows_of_image(width, height)[PLACES**2 // 2])

    def tilt(self, width: int) -> float:
        """In the last column of an image, less that in the first one, pixels."""
        return self.terms[1] * (width - 1) / self.focal_px


def places(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and rows of ``PLACES`` x ``PLACES`` places all over an image, float64, pixels."""
    x, y = np.meshgrid(np.linspace(0, width - 1, PLACES), np.linspace(0, height - 1, PLACES))
    return x.reshape(-1), y.reshape(-1)


def apply_correction(right: np.ndarray, correction: RowCorrection | None) -> np.ndarray:
    """The right image as a matcher sees it that corrects rows.

    right: H x W, grey values of a rectified image.
    """
    if correction is None:
        return right
    warp = RightWarp(correction.warp())
    warp.prepare(None, right.shape[1], right.shape[0])
    return np.asarray(cv2.remap(right, *warp.maps, cv2.INTER_LINEAR))


def corrected_info(info: Any, correction: RowCorrection) -> Any:
    """A copy of the right camera's CameraInfo that needs no correction.

    Offset and pitch become a rotation about x in R, roll one about z; a scale that is corrected in
    columns, too, becomes one of the focal lengths in K. P stays.
    """
    offset, roll = np.array(correction.terms[:2]) / correction.focal_px
    turn, _ = cv2.Rodrigues(np.array([-offset, 0, roll]))
    found = copy.copy(info)
    r = np.reshape(info.r, (3, 3)) if any(info.r) else np.eye(3)
    found.r = (turn.T @ r).reshape(-1).tolist()
    found.k = list(info.k)
    for index in (0, 4):
        found.k[index] *= 1 + correction.columns / correction.focal_px
    return found
