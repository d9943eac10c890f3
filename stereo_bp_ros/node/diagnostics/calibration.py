"""What rows do not show of a calibration: a yaw, by motion and far points; and the road's height.

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
from stereo_bp_ros.road_plane import fit_road, height_above
from stereo_bp_ros.row_correction import RowCorrection, undo_rows
from stereo_bp_ros.stamps import SIDES
from stereo_bp_ros.types import DisparityFrame
from stereo_bp_ros.yaw import (
    MAX_MOTION_S,
    MIN_MOTION_S,
    disparity_offset,
    far_points,
    match_points,
)

#: The key of what is wrong with a calibration whose rows match.
CALIBRATION_DRIFT = 'calibration drift'

#: Share of the lower half of the image that a road has at least.
MIN_ROAD = 0.2

#: The plane of the road is fitted to every so-many-th row and column.
STRIDE = 4


@dataclasses.dataclass(frozen=True)
class _Pair:
    left: RawImage
    right: RawImage
    config: MatcherConfig
    rectification: Rectification | None
    calibration: Calibration
    stamp_ns: int
    disparity: np.ndarray | None
    correction: RowCorrection | None


class CalibrationMonitor:
    """Follows what rows do not show of a calibration; for any number of threads.

    ``offer`` only keeps the images: ``measure`` takes some 100 ms, in another thread than frames.

    :param conditions: is told of what does not fit the calibration.
    """

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._camera_height = 0.0
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
              frame: DisparityFrame, correction: RowCorrection | None = None) -> None:
        """Leave a pair to be measured; from here on nobody may write into its images.

        :param rectification: of raw images.
        :param frame: of the pair; its road is fitted where it has a disparity.
        :param correction: what the matcher undoes in the right image.
        """
        disparity = None
        if frame.disparity is not None and self._camera_height:
            sample = frame.disparity[::STRIDE, ::STRIDE]
            disparity = np.where(sample >= np.float32(frame.min_disparity), sample,
                                 np.float32(np.nan))
        pair = _Pair(left, right, config, rectification, calibration, stamp_ns, disparity,
                     correction)
        with self._lock:
            self._pairs.append(pair)

    def measure(self, camera_height: float) -> None:
        """Measure the two pairs that were left last, if they are new.

        :param camera_height: of the camera above the road, metres; 0 = unknown.
        """
        with self._lock:
            self._camera_height = camera_height
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
            findings = history.findings(now.calibration, camera_height)
            self._conditions.hold(CALIBRATION_DRIFT, Severity.WARN, *map(str, believe(
                findings, now.config)))

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
    return CalibrationMeasurement(now.stamp_ns, far_points(points, before.calibration), offset,
                        _height(now))


def _matched(pair: _Pair, greys: RectifiedGreys) -> tuple[np.ndarray, np.ndarray]:
    """uint8 H x W, left and right, as they are matched."""
    left, right = (greys.of(side, image, pair.config, pair.rectification)
                   for side, image in zip(SIDES, (pair.left, pair.right), strict=True))
    return left, undo_rows(right, pair.correction)


def _height(pair: _Pair) -> float | None:
    """Of the camera above the road, metres; None where no road is seen."""
    if pair.disparity is None:
        return None
    road = fit_road(pair.disparity, np.isfinite(pair.disparity))
    if road is None or road.inliers < MIN_ROAD * road.pixels:
        return None
    return height_above(road.plane, pair.calibration, STRIDE)
