"""What rows do not show of a calibration: a yaw, by motion and far points.

Measured in the thread beside frames, from pairs that the worker leaves now and then.
"""

from __future__ import annotations

import collections
import dataclasses
import threading

import numpy as np

from stereo_bp_ros.calibration_history import CalibrationHistory, CalibrationMeasurement
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.findings import believe
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.node.diagnostics.conditions import Conditions, Severity
from stereo_bp_ros.node.diagnostics.greys import RectifiedGreys
from stereo_bp_ros.rectification import Rectification
from stereo_bp_ros.row_correction import RowCorrection, undo_rows
from stereo_bp_ros.stamps import SIDES
from stereo_bp_ros.yaw import (
    MAX_MOTION_S,
    MIN_MOTION_S,
    disparity_offset,
    far_points,
    match_points,
)

#: The key of what is wrong with a calibration whose rows match.
CALIBRATION_DRIFT = 'calibration drift'


@dataclasses.dataclass(frozen=True)
class _Pair:
    left: RawImage
    right: RawImage
    config: MatcherConfig
    rectification: Rectification | None
    calibration: Calibration
    stamp_ns: int
    correction: RowCorrection | None


class CalibrationMonitor:
    """Follows what rows do not show of a calibration; for any number of threads.

    ``offer`` only keeps the images: ``measure`` takes some 100 ms, in another thread than frames.

    :param conditions: is told of what does not fit the calibration.
    """

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._pairs: collections.deque[_Pair] = collections.deque(maxlen=2)
            self._history, self._greys = CalibrationHistory(), RectifiedGreys()
            self._conditions.clear(CALIBRATION_DRIFT)

    def offer(self, left: RawImage, right: RawImage, config: MatcherConfig,
              rectification: Rectification | None, calibration: Calibration, stamp_ns: int,
              correction: RowCorrection | None = None) -> None:
        """Leave a pair to be measured; from here on nobody may write into its images.

        :param rectification: of raw images.
        :param correction: what the matcher undoes in the right image.
        """
        pair = _Pair(left, right, config, rectification, calibration, stamp_ns, correction)
        with self._lock:
            self._pairs.append(pair)

    def measure(self) -> None:
        """Measure the two pairs that were left last, if they are new."""
        with self._lock:
            pairs, history, greys = list(self._pairs), self._history, self._greys
            if len(pairs) < 2 or history.is_recent(pairs[1].stamp_ns):
                return
            self._pairs.clear()
        before, now = pairs
        if before.calibration != now.calibration or before.stamp_ns >= now.stamp_ns:
            self.clear()
            return
        measurement = _measure(before, now, greys)
        with self._lock:
            if self._history is not history:        # cleared in the meantime
                return
            history.add(measurement, now.calibration)
            self._conditions.hold(CALIBRATION_DRIFT, Severity.WARN, *map(str, believe(
                history.findings(now.calibration), now.config)))

    def report(self) -> dict[str, str]:
        """Keys and values for people; empty where nothing was measured."""
        with self._lock:
            return self._history.report()


def _measure(before: _Pair, now: _Pair, greys: RectifiedGreys) -> CalibrationMeasurement:
    last, seconds = before.config.max_disparity, (now.stamp_ns - before.stamp_ns) * 1e-9
    (left, right), (later_left, later_right) = (
        _matched(pair, greys) for pair in (before, now))
    points, _ = match_points(left, right, before.calibration, last)
    offset = None
    if MIN_MOTION_S <= seconds <= MAX_MOTION_S and left.shape == later_left.shape:
        offset = disparity_offset(left, points, later_left, later_right, now.calibration, last)
    return CalibrationMeasurement(now.stamp_ns, far_points(points, before.calibration), offset)


def _matched(pair: _Pair, greys: RectifiedGreys) -> tuple[np.ndarray, np.ndarray]:
    """uint8 H x W, left and right, as they are matched."""
    left, right = (greys.of(side, image, pair.config, pair.rectification)
                   for side, image in zip(SIDES, (pair.left, pair.right), strict=True))
    return left, undo_rows(right, pair.correction)
