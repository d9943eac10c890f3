"""The plane of the road in a disparity map, by RANSAC (Fischler and Bolles, CACM 1981).

A plane in space is one over the image, too: disparity = a x column + b x row + c. Without roll
(a = 0) it is the line of the v-disparity of Labayrade et al., IV 2002.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stereo_bp_ros.camera import Calibration

#: Most that the disparity of a pixel of the plane differs from it, pixels.
TOLERANCE_PX = 1.0

#: Planes tried, each through three pixels; pixels that vote for them; seed of both.
TRIALS, SAMPLES, SEED = 1000, 5000, 20

#: Fewer make no road.
MIN_PIXELS = 100


@dataclass(frozen=True)
class Plane:
    """disparity = a x column + b x row + c, pixels."""

    a: float
    b: float
    c: float

    def at(self, column: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Disparities at columns and rows, pixels; arrays of one shape, or that broadcast."""
        return np.asarray(self.a * column + self.b * row + self.c)


@dataclass(frozen=True)
class RoadFit:
    """A plane, and how well the lower half of the image keeps to it.

    pixels:  of the lower half with a disparity.
    inliers: of these, at most ``TOLERANCE_PX`` from the plane.
    squared: sum over the inliers of the squared distance, squared pixels of disparity.
    """

    plane: Plane
    pixels: int
    inliers: int
    squared: float


def fit_road(disparity: np.ndarray, valid: np.ndarray, infinity: float = 0.0) -> RoadFit | None:
    """Find the plane that most pixels of the lower half of the image lie on, None without one.

    A plane is a road where its disparity grows downwards, and faster than sidewards, and where
    it reaches infinity (at the middle column) above the lower half, at most the height of the
    image above the image. The best plane is fitted by least squares to its pixels, twice.

    disparity: H x W, pixels.
    valid:     bool H x W, where `disparity` is known.
    infinity:  disparity of infinite distance, pixels.
    """
    height, width = disparity.shape
    row, column = np.nonzero(valid[height // 2:] & np.isfinite(disparity[height // 2:]))
    row += height // 2
    if row.size < MIN_PIXELS:
        return None
    points = np.column_stack([column, row, disparity[row, column]]).astype(np.float64)
    random = np.random.default_rng(SEED)
    voters = points[random.integers(0, len(points), min(SAMPLES, len(points)))]
    planes = _planes(points[random.integers(0, len(points), (TRIALS, 3))])
    a, b, c = planes.T
    with np.errstate(divide='ignore', invalid='ignore'):
        horizon = (infinity - c - a * width / 2) / b
    planes = planes[(b > np.abs(a)) & (horizon >= -height) & (horizon <= height / 2)]
    if not len(planes):
        return None
    votes = [np.count_nonzero(np.abs(_residual(plane, voters)) <= TOLERANCE_PX)
             for plane in planes]
    plane = planes[int(np.argmax(votes))]
    for _ in range(2):
        near = points[np.abs(_residual(plane, points)) <= TOLERANCE_PX]
        plane = _fitted(near)
    residual = _residual(plane, points)
    residual = residual[np.abs(residual) <= TOLERANCE_PX]
    return RoadFit(Plane(*plane.tolist()), len(points), residual.size,
                   float(np.square(residual).sum()))


def height_above(plane: Plane, calibration: Calibration, stride: int = 1) -> float:
    """Height of the camera above a road, metres.

    With disparity = f t / Z, and column and row by x = f X / Z and y = f Y / Z, the plane is
    a f X + b f Y + c' Z = f t. As b is much the largest, the height is nearly t / b: an offset of
    all disparities, as a yaw makes it, tilts the road and leaves its height, and so does another
    focal length of both cameras. A wrong baseline does not.

    plane:  over disparities that are 0 at infinity.
    stride: columns and rows of the image from one column and row of the plane to the next.
    """
    focal, focal_y = calibration.focal_px, calibration.focal_y_px
    a, b = plane.a / stride, plane.b / stride
    forward = plane.c + a * calibration.cx_left + b * calibration.cy
    return focal * calibration.baseline_m / math.hypot(a * focal, b * focal_y, forward)


def _planes(triples: np.ndarray) -> np.ndarray:
    """a, b and c of the planes through n x 3 points of column, row, disparity: m x 3, m <= n."""
    first = triples[:, 0]
    normal = np.cross(triples[:, 1] - first, triples[:, 2] - first)
    is_upright = normal[:, 2] != 0          # else its points lie in a line of the image
    first, normal = first[is_upright], normal[is_upright]
    slopes = -normal[:, :2] / normal[:, 2:]
    return np.column_stack([slopes, first[:, 2] - np.sum(slopes * first[:, :2], axis=1)])


def _fitted(points: np.ndarray) -> np.ndarray:
    """a, b and c of the plane of least squares through n x 3 points.

    By the normal equations, whose sums do not depend on the threads of linear algebra.
    """
    middle = points.mean(axis=0)
    column, row, disparity = (points - middle).T
    sums = np.array([[(one * other).sum() for other in (column, row, disparity)]
                     for one in (column, row)])
    slopes = np.linalg.lstsq(sums[:, :2], sums[:, 2], rcond=None)[0]
    return np.array([*slopes, middle[2] - (slopes * middle[:2]).sum()])


def _residual(plane: np.ndarray, points: np.ndarray) -> np.ndarray:
    a, b, c = plane
    return np.asarray(points[:, 2] - (a * points[:, 0] + b * points[:, 1] + c))
