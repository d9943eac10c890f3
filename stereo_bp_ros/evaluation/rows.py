"""Rows of pairs that are evaluated: estimated along each sequence, and undone by the matchers.

A pair is matched with what the pairs before it have shown, as in the node: measured at once where
the estimate is new, else once a second of the stamps. A pair that follows no other is left as it
is. One without a stamp is measured by itself where somebody asks for it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping

import numpy as np

from stereo_bp_ros.alignment import row_points
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation.datasets.entries import Pair
from stereo_bp_ros.grey import to_8_bits
from stereo_bp_ros.row_correction import RowCorrection, RowEstimator

FOLLOWS_NS = 500_000_000
"""Most nanoseconds from a pair to the next of the same sequence."""

INTERVAL_S = 1.0
"""From one measurement to the next, seconds: as in the node."""


def follows(pair: Pair, before: Pair) -> bool:
    """Whether a pair is the next of the same sequence."""
    return _follows(_Place.of(pair), _Place.of(before))


@dataclasses.dataclass(frozen=True)
class _Place:
    """What tells whether a pair is of the same sequence as another: no images."""

    stamp_ns: int | None
    size: tuple[int, int]

    @classmethod
    def of(cls, pair: Pair) -> _Place:
        left, _ = pair.images
        return cls(pair.stamp_ns, (left.width, left.height))


def _follows(pair: _Place, before: _Place) -> bool:
    return (pair.stamp_ns is not None and before.stamp_ns is not None
            and 0 < pair.stamp_ns - before.stamp_ns <= FOLLOWS_NS and pair.size == before.size)


def estimator_of(pair: Pair, calibration: Calibration | None, limit: float) -> RowEstimator:
    """For pairs like this one.

    calibration: where the pair has none; its principal point is not used.
    limit:       rows.
    """
    left, _ = pair.images
    if pair.calibration is None:
        return RowEstimator(left.width, left.height, limit=limit,
                            focal_px=calibration.focal_px if calibration else 0.0)
    own = pair.calibration
    return RowEstimator(left.width, left.height, focal_px=own.focal_px, cx=own.cx_right,
                        cy=own.cy, limit=limit)


def measure_rows(pair: Pair, config: MatcherConfig) -> np.ndarray:
    """`alignment.row_points` of a pair, in the range of a configuration."""
    left, right = (to_8_bits(image, config.mono16_scale) for image in pair.images)
    return row_points(left, right, config.min_disparity, config.max_disparity)


def describe(correction: RowCorrection) -> str:
    """What moved the right camera, in words."""
    offset, roll, scale, keystone, _ = correction.terms
    parts = {f'{abs(offset):.2f} px {"lower" if offset > 0 else "higher"}': offset,
             f'rolled by {math.degrees(math.atan(roll / correction.focal_px)):.2f} degrees': roll,
             f'focal length {100 * scale / correction.focal_px:+.2f} %'
             + ('' if correction.columns else ' in rows'): scale,
             f'keystone {keystone:+.2f} px at u v = 1': keystone}
    return ', '.join(text for text, value in parts.items() if value) or 'not moved'


def largest_rows(correction: RowCorrection | None, pair: Pair) -> float:
    """Rows by which a correction moves any place of the right image at most, pixels."""
    if correction is None:
        return 0.0
    left, _ = pair.images
    x, y = np.meshgrid(np.linspace(0, left.width - 1, 5), np.linspace(0, left.height - 1, 5))
    return float(np.abs(correction.rows(x.reshape(-1), y.reshape(-1))).max())


class RowTracker:
    """Estimates of one sequence after another; travels by pickle.

    alone:       names of matchers that undo rows in pairs without a stamp, too.
    calibration: of pairs that bring none.
    """

    def __init__(self, alone: Collection[str] = (), calibration: Calibration | None = None
                 ) -> None:
        self._alone = frozenset(alone)
        self._calibration = calibration
        self._estimators: dict[str, RowEstimator] = {}
        self._before: _Place | None = None
        self._measured_ns = 0
        #: What each matcher that undoes rows undoes in the latest pair.
        self.latest: dict[str, RowCorrection | None] = {}

    def corrections(self, pair: Pair, configs: Mapping[str, MatcherConfig]
                    ) -> dict[str, RowCorrection | None]:
        """What each matcher that undoes rows undoes in a pair; once for every pair, in order.

        configs: of matchers by their names, with the range that they search in this pair.
        """
        wanted = {name: config for name, config in configs.items()
                  if config.row_correction == 'correct'}
        before, self._before = self._before, _Place.of(pair)
        if before is None or not _follows(self._before, before):
            self._estimators = {}
        if pair.stamp_ns is None:
            self.latest = {name: self._alone_in(pair, config) if name in self._alone else None
                           for name, config in wanted.items()}
            return self.latest
        time_s = pair.stamp_ns * 1e-9
        is_due = pair.stamp_ns - self._measured_ns >= INTERVAL_S * 1e9
        points: dict[tuple[int, int, float], np.ndarray] = {}
        self.latest = {}
        for name, config in wanted.items():
            if name in self._estimators:
                estimator = self._estimators[name]
            else:
                estimator = self._new_estimator(pair, config)
                self._estimators[name] = estimator
                is_due = True
            self.latest[name] = estimator.correction(time_s)
            if is_due or estimator.wants_pair:
                key = config.min_disparity, config.max_disparity, config.mono16_scale
                if key not in points:
                    points[key] = measure_rows(pair, config)
                estimator.add(points[key], time_s)
                self._measured_ns = pair.stamp_ns
        return self.latest

    def _alone_in(self, pair: Pair, config: MatcherConfig) -> RowCorrection | None:
        return self._new_estimator(pair, config).add(measure_rows(pair, config), 0.0).significant

    def _new_estimator(self, pair: Pair, config: MatcherConfig) -> RowEstimator:
        return estimator_of(pair, self._calibration, config.row_correction_limit)
