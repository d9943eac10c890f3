"""Whether a camera is turned about its vertical axis: disparities all too large, or too small.

A yaw moves the right image along its rows, as a wrong column of a principal point does. The rows
still match, and one pair alone shows it only where a far point has negative disparity. While the
cameras move past something rigid, two pairs show it: what comes nearer has to grow in the image as
its disparity does (a point at infinity has disparity 0, whatever the calibration says). The seven
unknowns are the rotation, the translation in baselines, and the offset of all disparities; two
more are how it grows over columns and rows, as other focal lengths and a roll make it.

A yaw psi of the right camera to the right adds f tan(psi) (1 + u^2) to the disparity at the column
u = (x - cx) / f (Hartley and Zisserman 2004, section 8.4, to the first order).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np

from stereo_bp_ros.cameras.alignment import corner_matches
from stereo_bp_ros.cameras.calibration import Calibration

#: Disparities are searched from the one that such a yaw gives to infinity, degrees.
MAX_YAW_DEG = 0.75

#: Points are far from here on, by their own disparities, metres.
FAR_M = 150.0

#: A far point has a disparity below minus this, pixels: noise and the grid of pixels.
NEGATIVE_PX = 0.5

#: Corners, and their share, that have to move as one body.
MIN_POINTS, MIN_SHARE = 12, 0.4

#: Uncertainty of an offset, and robust deviation of its corners, with which it counts, pixels.
MAX_SIGMA_PX, MAX_SPREAD_PX = 0.5, 1.0

#: Standard deviations: of an offset before anything is known, and of a place of a corner.
PRIOR_PX, NOISE_PX = 3.0, 0.2

#: Of the least-squares fit; the first ones leave the offsets at 0, and smaller steps end it.
ITERATIONS, WITHOUT_OFFSETS, MIN_STEP = 40, 8, 1e-3

#: Seconds between two pairs whose motion is measured.
MIN_MOTION_S, MAX_MOTION_S = 0.2, 1.5

#: Offsets that an estimate needs.
MIN_ESTIMATES = 5

_BACK_PX = 0.3
_LK: dict[str, Any] = {
    'winSize': (15, 15), 'maxLevel': 3, 'flags': cv2.OPTFLOW_USE_INITIAL_FLOW,
    'criteria': (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 20, 0.02)}
_SIGMA = 1.4826                 # from a median absolute deviation to a standard deviation


class Points(NamedTuple):
    """Corners of a pair of which each has one partner in the columns of the range.

    places:    float32 N x 2, column and row in the left image, pixels.
    disparity: float64 N, pixels, 0 at infinity by the calibration.
    """

    places: np.ndarray
    disparity: np.ndarray


class FarPoints(NamedTuple):
    """Points above the horizon and beyond `FAR_M` by their disparities.

    number: how many there are.
    negative: of these, points with a disparity below -`NEGATIVE_PX`.
    offset: median disparity of these, pixels; 0 where there is none.
    """

    number: int
    negative: int
    offset: float


class DisparityOffset(NamedTuple):
    """By how much all disparities are too large, in the column of the principal point, pixels."""

    offset: float
    sigma: float


def match_points(left: np.ndarray, right: np.ndarray, calibration: Calibration, last: int,
                 places: np.ndarray | None = None) -> tuple[Points, np.ndarray]:
    """Match corners of a rectified pair, negative disparities included.

    left, right: uint8 H x W.
    last:        maximum disparity that is searched, unshifted, pixels.
    places:      float32 N x 2, instead of the best corners.
    Returns the points, and for each the index of its place.
    """
    reach = math.ceil(calibration.focal_px * math.tan(math.radians(MAX_YAW_DEG)))
    first = math.floor(calibration.shift) - reach
    starts, partners, index = corner_matches(left, right, first, last, places)
    ends, is_tracked = _track(left, right, starts, partners)
    starts, ends, index = starts[is_tracked], ends[is_tracked], index[is_tracked]
    disparity = (starts[:, 0] - ends[:, 0]).astype(np.float64) - calibration.shift
    return Points(starts, disparity), index


def far_points(points: Points, calibration: Calibration) -> FarPoints:
    """Count far points, and those with negative disparity."""
    limit = calibration.focal_px * calibration.baseline_m / FAR_M
    far = points.disparity[(points.places[:, 1] < calibration.cy) & (points.disparity < limit)]
    negative = far[far < -NEGATIVE_PX]
    return FarPoints(far.size, negative.size,
                     float(np.median(negative)) if negative.size else 0.0)


def disparity_offset(before: np.ndarray, points: Points, left: np.ndarray, right: np.ndarray,
                     calibration: Calibration, last: int) -> DisparityOffset | None:
    """Measure the offset of all disparities by the motion between two pairs.

    before:      uint8 H x W, left image of the first pair.
    points:      of the first pair.
    left, right: uint8 H x W, of the second pair.
    last:        as for `match_points`.
    Returns None where the motion does not show it: at rest, in a pure rotation, or where too few
    corners move as one rigid body.
    """
    moved, is_tracked = _track(before, left, points.places, points.places)
    after, index = match_points(left, right, calibration, last, moved[is_tracked])
    start, disparity = (values[is_tracked][index] for values in points)
    if len(start) < MIN_POINTS:
        return None
    return _solve(_rays(start, calibration), disparity, _rays(after.places, calibration),
                  after.disparity, calibration.focal_px)


def combine_offsets(offsets: Sequence[DisparityOffset]) -> DisparityOffset | None:
    """The median of several offsets with its standard deviation; None: there are too few."""
    if len(offsets) < MIN_ESTIMATES:
        return None
    values = np.array([one.offset for one in offsets])
    median = float(np.median(values))
    spread = max(float(np.median(np.abs(values - median))),
                 float(np.median([one.sigma for one in offsets])))
    # Of a median it is a quarter larger than of a mean.
    return DisparityOffset(median, 1.2533 * _SIGMA * spread / math.sqrt(len(values)))


def _track(image: np.ndarray, other: np.ndarray, places: np.ndarray, guess: np.ndarray
           ) -> tuple[np.ndarray, np.ndarray]:
    """Places in another image, float32 N x 2, and which of them lead back (Lucas and Kanade)."""
    if not len(places):
        return places, np.zeros(0, bool)
    there, seen, _ = cv2.calcOpticalFlowPyrLK(image, other, places, guess.copy(), **_LK)
    back, seen_back, _ = cv2.calcOpticalFlowPyrLK(other, image, there, places.copy(), **_LK)
    leads_back = np.abs(back - places).max(axis=1) < _BACK_PX
    return there, (seen[:, 0] > 0) & (seen_back[:, 0] > 0) & leads_back


def _rays(places: np.ndarray, calibration: Calibration) -> np.ndarray:
    """float64 N x 3: (x, y, 1) in focal lengths."""
    columns = (places[:, 0] - calibration.cx_left) / calibration.focal_px
    rows = (places[:, 1] - calibration.cy) / calibration.focal_y_px
    return np.column_stack([columns, rows, np.ones(len(places))]).astype(np.float64)


class _State(NamedTuple):
    rotation: np.ndarray
    translation: np.ndarray
    offsets: np.ndarray             # at the principal point, over columns, over rows, pixels

    def moved(self, step: np.ndarray) -> _State:
        return _State(cv2.Rodrigues(step[:3])[0] @ self.rotation, self.translation + step[3:6],
                      self.offsets + step[6:])


class _Motion:
    """Residuals of corners that move as one rigid body before both cameras.

    A ray h of true disparity D (in pixels) is the point h f / D, in baselines. Seen from the
    second pair it is q = R h + t D / f, up to the scale D / f: at q[:2] / q[2] with the
    disparity D / q[2]. So a point at infinity is a point like any other.
    """

    def __init__(self, rays: np.ndarray, disparity: np.ndarray, rays_after: np.ndarray,
                 disparity_after: np.ndarray, focal_px: float) -> None:
        self._rays, self._after, self._focal = rays, rays_after, focal_px
        self._disparity, self._disparity_after = disparity, disparity_after
        # What each offset adds to the disparity of a corner.
        self._gains, self._gains_after = (
            np.column_stack([1 + both[:, 0] ** 2, both[:, :2]]) for both in (rays, rays_after))

    def residuals(self, state: _State) -> np.ndarray:
        """N x 3: column, row and disparity after the motion, pixels."""
        true, _, q = self._seen(state)
        return np.column_stack([
            self._focal * (self._after[:, :2] - q[:, :2] / q[:, 2:]),
            self._disparity_after - self._gains_after @ state.offsets - true / q[:, 2]])

    def jacobian(self, state: _State) -> np.ndarray:
        """N x 3 x 9: of the residuals by rotation, translation and offsets."""
        true, turned, q = self._seen(state)
        by_q = np.zeros((len(q), 3, 3))
        by_q[:, 0, 0] = by_q[:, 1, 1] = -self._focal / q[:, 2]
        by_q[:, :2, 2] = self._focal * q[:, :2] / q[:, 2:] ** 2
        by_q[:, 2, 2] = true / q[:, 2] ** 2
        jacobian = np.empty((len(q), 3, 9))
        x, y, z = turned.T
        zero = np.zeros_like(x)
        # A small rotation w moves a vector p by w x p.
        by_rotation = np.array([[zero, z, -y], [-z, zero, x], [y, -x, zero]])
        jacobian[:, :, :3] = by_q @ by_rotation.transpose(2, 0, 1)
        jacobian[:, :, 3:6] = by_q * (true / self._focal)[:, None, None]
        along = by_q @ state.translation / self._focal
        jacobian[:, :, 6:] = -along[:, :, None] * self._gains[:, None]
        jacobian[:, 2, 6:] += self._gains / q[:, 2:] - self._gains_after
        return jacobian

    def _seen(self, state: _State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        true = self._disparity - self._gains @ state.offsets
        turned = self._rays @ state.rotation.T
        q = turned + np.outer(true / self._focal, state.translation)
        q[:, 2] = np.maximum(q[:, 2], 0.2)          # a point that the cameras passed
        return true, turned, q


def _solve(rays: np.ndarray, disparity: np.ndarray, rays_after: np.ndarray,
           disparity_after: np.ndarray, focal_px: float) -> DisparityOffset | None:
    """Levenberg and Marquardt with Geman and McClure's weights, which narrow step by step."""
    motion = _Motion(rays, disparity, rays_after, disparity_after, focal_px)
    prior = (NOISE_PX / PRIOR_PX) ** 2

    def cost(state: _State, scale: float) -> float:
        squared = np.square(motion.residuals(state)).sum(axis=1)
        return float((squared / (1 + squared / scale ** 2)).sum()
                     + prior * np.square(state.offsets).sum())

    state, damping, scale = _State(np.eye(3), np.zeros(3), np.zeros(3)), 1e-3, 30.0
    for iteration in range(ITERATIONS):
        errors = motion.residuals(state)
        spread = _SIGMA * float(np.median(np.abs(errors)))
        scale = max(0.8 * scale, 2.5 * spread, 0.5)
        weights = (1 + np.square(errors).sum(axis=1) / scale ** 2) ** -2.0
        jacobian = motion.jacobian(state)
        normal = np.einsum('n,nij,nik->jk', weights, jacobian, jacobian)
        gradient = np.einsum('n,nij,ni->j', weights, jacobian, errors)
        normal[6:, 6:] += prior * np.eye(3)
        gradient[6:] += prior * state.offsets
        size = 6 if iteration < WITHOUT_OFFSETS else 9
        for _ in range(6):
            damped = normal[:size, :size] + damping * np.diag(np.diag(normal)[:size])
            step = np.zeros(9)
            step[:size] = -np.linalg.lstsq(damped, gradient[:size], rcond=None)[0]
            tried = state.moved(step)
            if cost(tried, scale) <= cost(state, scale):
                state, damping = tried, max(damping / 5, 1e-6)
                break
            damping *= 5
        if size == 9 and scale < 1.01 * max(2.5 * spread, 0.5) and np.abs(step).max() < MIN_STEP:
            break
    covariance = np.linalg.pinv(normal)
    sigma = max(spread, NOISE_PX / 2) * math.sqrt(max(0.0, covariance[6, 6]))
    agree = np.count_nonzero(weights > 0.25)
    if (agree < max(MIN_POINTS, MIN_SHARE * len(rays)) or sigma > MAX_SIGMA_PX
            or spread > MAX_SPREAD_PX):
        return None
    return DisparityOffset(float(state.offsets[0]), sigma)
