"""The yaw of a sequence of pairs, by their far points and by the motion from one to the next."""

from __future__ import annotations

import math

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.yaw import (
    MAX_MOTION_S,
    MIN_MOTION_S,
    FarPoints,
    Points,
    disparity_offset,
    far_points,
    match_points,
)
from stereo_bp_ros.issues import Issue
from stereo_bp_ros.stream.calibration_history import (
    INTERVAL_S,
    WINDOW_S,
    CalibrationHistory,
    CalibrationMeasurement,
)

#: From a pair to the one that shows its motion, seconds.
MOTION_S = 0.5


class YawTracker:
    """Follows what motion and far points say of a calibration.

    window_s: how long a measurement counts, seconds.
    is_chain: whether every pair is added, and shows its motion to the next, too.
    """

    def __init__(self, window_s: float = WINDOW_S, *, is_chain: bool = False) -> None:
        self._is_chain = is_chain
        self.history = CalibrationHistory(window_s)
        self._before: tuple[float, np.ndarray, Points] | None = None
        self._first_s = -math.inf

    def is_due(self, time_s: float) -> bool:
        """Whether a pair of this time is to be added: two of them, every other second."""
        since_s = time_s - self._first_s
        has_moved = self._before is not None and self._before[0] == self._first_s and (
            since_s >= MOTION_S - 1e-3)
        return has_moved or since_s >= MOTION_S + INTERVAL_S or since_s < 0

    def add(self, left: np.ndarray, right: np.ndarray, calibration: Calibration, last: int,
            time_s: float) -> list[Issue]:
        """Measure one more pair; returns what does not fit the calibration.

        left, right: uint8 H x W, whose rows match.
        last:        maximum disparity that is searched, unshifted, pixels.
        time_s:      when it was taken.
        """
        before, offset = self._before, None
        if (before is not None and before[1].shape == left.shape
                and MIN_MOTION_S <= time_s - before[0] <= MAX_MOTION_S):
            offset = disparity_offset(before[1], before[2], left, right, calibration, last)
        else:
            self._first_s = time_s
        self._before, far = None, FarPoints(0, 0, 0.0)
        if offset is None or self._is_chain:        # else the pair before has been counted
            points, _ = match_points(left, right, calibration, last)
            self._before, far = (time_s, left, points), far_points(points, calibration)
        self.history.add(CalibrationMeasurement(round(1e9 * time_s), far, offset), calibration)
        return self.history.issues(calibration)
