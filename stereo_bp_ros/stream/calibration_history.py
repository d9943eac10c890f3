"""What rows do not show of a calibration, over time: a yaw, by motion and by far points."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.yaw import DisparityOffset, FarPoints, combine_offsets
from stereo_bp_ros.checks import calibration_checks as checks
from stereo_bp_ros.issues import Issue

#: Seconds that measurements count for, and from one to the next.
WINDOW_S, INTERVAL_S = 60.0, 1.8

#: Far points that are needed in all measurements.
MIN_FAR = 20

#: Pixels and standard deviations from which an offset is reported, and below which that ends.
MIN_OFFSET_PX, NO_OFFSET_PX, SIGNIFICANT = 1.0, 0.75, 5.0

#: Share and number of far points with negative disparity from which it is reported.
MIN_NEGATIVE, MIN_NEGATIVE_POINTS = 0.05, 5


@dataclasses.dataclass(frozen=True)
class CalibrationMeasurement:
    """What one pair, and its motion since another one, show.

    offset: None where no motion shows it.
    """

    stamp_ns: int
    far: FarPoints
    offset: DisparityOffset | None


class CalibrationHistory:
    """The latest measurements of a calibration, and what they add up to.

    window_s: how long each counts, seconds.
    """

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._calibration: Calibration | None = None
        self._measurements: collections.deque[CalibrationMeasurement] = collections.deque()
        self._is_significant = False

    def add(self, measurement: CalibrationMeasurement, calibration: Calibration) -> None:
        if self._calibration != calibration or (
                self._measurements and measurement.stamp_ns < self._measurements[-1].stamp_ns):
            self._measurements.clear()
        self._calibration = calibration
        self._measurements.append(measurement)
        while measurement.stamp_ns - self._measurements[0].stamp_ns > self._window_s * 1e9:
            self._measurements.popleft()

    @property
    def motions(self) -> int:
        """How many measurements show the offset."""
        return sum(one.offset is not None for one in self._measurements)

    @property
    def offset(self) -> DisparityOffset | None:
        """Median with its standard deviation; None where too little was measured."""
        return combine_offsets([one.offset for one in self._measurements
                                if one.offset is not None])

    @property
    def far(self) -> FarPoints:
        """Of all measurements together."""
        parts = [one.far for one in self._measurements]
        offsets = [one.offset for one in parts if one.negative]
        return FarPoints(sum(one.number for one in parts), sum(one.negative for one in parts),
                         float(np.median(offsets)) if offsets else 0.0)

    def issues(self, calibration: Calibration) -> list[Issue]:
        """What does not fit a calibration."""
        offset, far = self.offset, self.far
        if offset is not None:
            limit = NO_OFFSET_PX if self._is_significant else MIN_OFFSET_PX
            self._is_significant = abs(offset.offset) >= max(limit, SIGNIFICANT * offset.sigma)
            if self._is_significant:
                return checks.check_yaw(offset.offset, calibration)
        elif (far.number >= MIN_FAR and far.negative >= max(MIN_NEGATIVE_POINTS,
                                                        MIN_NEGATIVE * far.number)):
            return checks.check_yaw(far.offset, calibration, far.negative, far.number)
        return []

    def report(self) -> dict[str, str]:
        if not self._measurements or self._calibration is None:
            return {}
        offset, far = self.offset, self.far
        values = {'far points': str(far.number), 'behind infinity': str(far.negative),
                  'disparity offset px': 'unknown'}
        if offset is not None:
            values |= {'disparity offset px': f'{offset.offset:.2f}',
                       'disparity offset sigma px': f'{offset.sigma:.2f}',
                       'yaw degrees':
                           f'{checks.yaw_degrees(offset.offset, self._calibration):.3f}'}
        return values
