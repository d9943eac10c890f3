"""Rows of pairs that are evaluated: estimated along each sequence, and undone by the matchers.

A pair is matched with what the pairs before it have shown, as in the node: measured at once where
the estimate is new, else once a second of the stamps. A pair that follows no other is left as it
is. One without a stamp is measured by itself where somebody asks for it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Mapping

import numpy as np

from stereo_bp_ros.alignment import row_points
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation.datasets.entries import Pair
from stereo_bp_ros.evaluation.yaw_tracker import YawTracker
from stereo_bp_ros.findings import Finding
from stereo_bp_ros.grey import to_8_bits
from stereo_bp_ros.row_correction import RowCorrection, RowEstimator, RowState, undo_rows

#: Most nanoseconds from a pair to the next of the same sequence.
FOLLOWS_NS = 500_000_000

#: From one measurement to the next, seconds: as in the node.
INTERVAL_S = 1.0


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

    calibration: where the pair has none.
    limit:       rows.
    """
    left, _ = pair.images
    return RowEstimator.of_camera(left.width, left.height, pair.calibration or calibration,
                                  limit=limit)


def measure_rows(pair: Pair, config: MatcherConfig) -> np.ndarray:
    """`alignment.row_points` of a pair, in the range of a configuration."""
    left, right = (to_8_bits(image, config.mono16_scale) for image in pair.images)
    return row_points(left, right, config.min_disparity, config.max_disparity)


def describe(correction: RowCorrection) -> str:
    """What moved the right camera, in words."""
    offset, roll, scale, keystone, pitch = correction.terms
    u, v = correction.cx / correction.focal_px, correction.cy / correction.focal_px
    parts = {f'{abs(offset):.2f} px {"lower" if offset > 0 else "higher"}': offset,
             f'rolled by {math.degrees(math.atan(roll / correction.focal_px)):.2f} degrees': roll,
             f'focal length {100 * scale / correction.focal_px:+.2f} %'
             + ('' if correction.columns else ' in rows'): scale,
             f'keystone {keystone * u * v:+.2f} px in the corners': keystone,
             f'pitch {pitch * v * v:+.2f} px at the upper and lower edges': pitch}
    return ', '.join(text for text, value in parts.items() if value) or 'not moved'


@dataclasses.dataclass(frozen=True)
class PairRows:
    """The rows of a pair for one matcher.

    state:     what is known once the pair was looked at.
    undone_px: rows that are undone in it, anywhere at most; None: ``row_correction`` is measure.
    begins:    whether it begins a sequence.
    is_alone:  whether it has no stamp, and is measured by itself if at all.
    """

    state: RowState
    undone_px: float | None
    begins: bool
    is_alone: bool = False


def describe_state(state: RowState) -> str:
    """What is known of rows, in words."""
    if state.estimate is None:
        return f'unknown: {state.reason}'
    text = f'they miss by up to {state.largest:.2f} px (sigma {state.sigma:.2f})'
    if state.significant is None:
        return text
    return f'{text}: the right image is {describe(state.significant)}'


class RowTracker:
    """Estimates of one sequence after another.

    alone:       names of matchers that measure pairs without a stamp, too.
    calibration: of pairs that bring none.
    """

    def __init__(self, alone: Collection[str] = (), calibration: Calibration | None = None
                 ) -> None:
        self._alone = frozenset(alone)
        self._calibration = calibration
        self._estimators: dict[str, RowEstimator] = {}
        self._before: _Place | None = None
        self._measured_ns = 0
        self._yaw = YawTracker()
        #: What each matcher undoes in the latest pair.
        self.latest: dict[str, RowCorrection | None] = {}
        #: What is known of the latest pair, by the matchers that measure it.
        self.known: dict[str, PairRows] = {}
        #: What the latest pair says of a yaw, where it was measured.
        self.findings: list[Finding] = []

    def corrections(self, pair: Pair, configs: Mapping[str, MatcherConfig]
                    ) -> dict[str, RowCorrection | None]:
        """What each matcher that undoes rows undoes in a pair; once for every pair, in order.

        configs: of matchers by their names, with the range that they search in this pair.
        """
        wanted = {name: config for name, config in configs.items()
                  if config.row_correction != 'off'}
        before, self._before = self._before, _Place.of(pair)
        begins = before is None or not _follows(self._before, before)
        if begins:
            self._estimators, self._yaw = {}, YawTracker()
        self.latest, self.known, self.findings = {}, {}, []
        measure = self._measure_alone if pair.stamp_ns is None else self._measure
        for name, (state, correction) in measure(pair, wanted).items():
            undone_px = None
            if wanted[name].row_correction == 'correct':
                self.latest[name] = correction
                undone_px = 0.0 if correction is None else correction.largest(*self._before.size)
            self.known[name] = PairRows(state, undone_px, begins, pair.stamp_ns is None)
        for name, config in itertools.islice(wanted.items(), 1):
            self._measure_yaw(pair, config, self.latest.get(name))
        return self.latest

    def _measure_yaw(self, pair: Pair, config: MatcherConfig, correction: RowCorrection | None
                     ) -> None:
        """Now and then, in a sequence whose calibration is known."""
        if pair.stamp_ns is None or pair.calibration is None or not self._yaw.is_due(
                pair.stamp_ns * 1e-9):
            return
        left, right = (to_8_bits(image, config.mono16_scale) for image in pair.images)
        self.findings = self._yaw.add(left, undo_rows(right, correction), pair.calibration,
                                      config.max_disparity, pair.stamp_ns * 1e-9)

    def _measure(self, pair: Pair, configs: Mapping[str, MatcherConfig]) -> _Measured:
        """States behind a pair of a sequence, and what the pairs before it say of it."""
        assert pair.stamp_ns is not None
        time_s = pair.stamp_ns * 1e-9
        is_due = pair.stamp_ns - self._measured_ns >= INTERVAL_S * 1e9
        points: dict[tuple[int, int, float], np.ndarray] = {}
        found: _Measured = {}
        for name, config in configs.items():
            if name in self._estimators:
                estimator = self._estimators[name]
            else:
                estimator = self._new_estimator(pair, config)
                self._estimators[name] = estimator
                is_due = True
            correction = estimator.correction(time_s)
            if is_due or estimator.wants_pair:
                key = config.min_disparity, config.max_disparity, config.mono16_scale
                if key not in points:
                    points[key] = measure_rows(pair, config)
                estimator.add(points[key], time_s)
                self._measured_ns = pair.stamp_ns
            found[name] = estimator.state, correction
        return found

    def _measure_alone(self, pair: Pair, configs: Mapping[str, MatcherConfig]) -> _Measured:
        """The same by the pair itself, where it is asked for."""
        found: _Measured = {}
        for name, config in configs.items():
            state = self._new_estimator(pair, config).add(
                measure_rows(pair, config), 0.0) if name in self._alone else RowState()
            found[name] = state, state.significant
        return found

    def _new_estimator(self, pair: Pair, config: MatcherConfig) -> RowEstimator:
        return estimator_of(pair, self._calibration, config.row_correction_limit)


#: By matchers: the state, and what is to be undone.
_Measured = dict[str, tuple[RowState, RowCorrection | None]]
