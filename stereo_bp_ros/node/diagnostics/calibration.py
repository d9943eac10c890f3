"""What rows do not show of a calibration: a yaw, by motion and far points; and the road's height.

Measured in the thread beside frames, from pairs that the worker leaves now and then.
"""

from __future__ import annotations

import collections
import dataclasses
import threading

import numpy as np

from stereo_bp_ros import calibration_checks as checks
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.findings import Finding, believe
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
    MIN_ESTIMATES,
    MIN_MOTION_S,
    DisparityOffset,
    FarPoints,
    combine_offsets,
    disparity_offset,
    far_points,
    match_points,
)

#: The key of what is wrong with a calibration whose rows match.
CALIBRATION_DRIFT = 'calibration drift'

#: Seconds that measurements count for, and from one to the next.
WINDOW_S, INTERVAL_S = 60.0, 1.8

#: Far points that are needed in all measurements.
MIN_FAR = 20

#: An offset is told from so many pixels and standard deviations on, and until it falls below.
MIN_OFFSET_PX, NO_OFFSET_PX, SIGNIFICANT = 1.0, 0.75, 5.0

#: Share of the far points behind infinity from which it is told, and how many there must be.
MIN_BEHIND, MIN_BEHIND_POINTS = 0.05, 5

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


@dataclasses.dataclass(frozen=True)
class _Measurement:
    stamp_ns: int
    far: FarPoints
    offset: DisparityOffset | None
    height_m: float | None


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
            self._history, self._greys = _History(), RectifiedGreys()
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


def _measure(before: _Pair, now: _Pair, greys: RectifiedGreys) -> _Measurement:
    last, seconds = before.config.max_disparity, (now.stamp_ns - before.stamp_ns) * 1e-9
    (left, right), (later_left, later_right) = (
        _matched(pair, greys) for pair in (before, now))
    points, _ = match_points(left, right, before.calibration, last)
    offset = None
    if MIN_MOTION_S <= seconds <= MAX_MOTION_S and left.shape == later_left.shape:
        offset = disparity_offset(left, points, later_left, later_right, now.calibration, last)
    return _Measurement(now.stamp_ns, far_points(points, before.calibration), offset,
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


class _History:
    """The measurements of the last ``WINDOW_S``, and what they add up to."""

    def __init__(self) -> None:
        self._calibration: Calibration | None = None
        self._measurements: collections.deque[_Measurement] = collections.deque()
        self._is_told = False

    def is_recent(self, stamp_ns: int) -> bool:
        """Whether the last measurement is too recent for another one."""
        return bool(self._measurements) and (
            0 <= stamp_ns - self._measurements[-1].stamp_ns < INTERVAL_S * 1e9)

    def add(self, measurement: _Measurement, calibration: Calibration) -> None:
        if self._calibration != calibration or (
                self._measurements and measurement.stamp_ns < self._measurements[-1].stamp_ns):
            self._measurements.clear()
        self._calibration = calibration
        self._measurements.append(measurement)
        while measurement.stamp_ns - self._measurements[0].stamp_ns > WINDOW_S * 1e9:
            self._measurements.popleft()

    @property
    def offset(self) -> DisparityOffset | None:
        """Median with its standard deviation; None where too little was measured."""
        return combine_offsets([one.offset for one in self._measurements
                                if one.offset is not None])

    @property
    def far(self) -> FarPoints:
        """Of all measurements together."""
        parts = [one.far for one in self._measurements]
        behind = [one.offset for one in parts if one.behind]
        return FarPoints(sum(one.number for one in parts), sum(one.behind for one in parts),
                         float(np.median(behind)) if behind else 0.0)

    @property
    def height(self) -> float | None:
        """Median, metres; None where too few roads were seen."""
        heights = [one.height_m for one in self._measurements if one.height_m is not None]
        return float(np.median(heights)) if len(heights) >= MIN_ESTIMATES else None

    def findings(self, calibration: Calibration, camera_height: float) -> list[Finding]:
        findings = []
        offset, far = self.offset, self.far
        if offset is not None:
            limit = NO_OFFSET_PX if self._is_told else MIN_OFFSET_PX
            self._is_told = abs(offset.offset) >= max(limit, SIGNIFICANT * offset.sigma)
            if self._is_told:
                findings = checks.check_yaw(offset.offset, calibration)
        elif (far.number >= MIN_FAR and far.behind >= max(MIN_BEHIND_POINTS,
                                                        MIN_BEHIND * far.number)):
            findings = checks.check_yaw(far.offset, calibration, far.behind, far.number)
        height = self.height
        if height is not None and camera_height:
            findings += checks.check_camera_height(height, camera_height, calibration)
        return findings

    def report(self) -> dict[str, str]:
        if not self._measurements or self._calibration is None:
            return {}
        offset, far, height = self.offset, self.far, self.height
        values = {'far points': str(far.number), 'behind infinity': str(far.behind),
                  'disparity offset px': 'unknown'}
        if offset is not None:
            values |= {'disparity offset px': f'{offset.offset:.2f}',
                       'disparity offset sigma px': f'{offset.sigma:.2f}',
                       'yaw degrees':
                           f'{checks.yaw_degrees(offset.offset, self._calibration):.3f}'}
        if height is not None:
            values['camera height m'] = f'{height:.2f}'
        return values
