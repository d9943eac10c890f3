"""Rows of the two images that miss each other: measured, warned of, and what is to be undone."""

from __future__ import annotations

import dataclasses
import threading
from typing import NamedTuple

import numpy as np

from stereo_bp_ros import checks, geometry
from stereo_bp_ros.alignment import row_points, vertical_offset
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.errors import Doubt, ignored_keys
from stereo_bp_ros.grey import to_8_bits
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.node.diagnostics.conditions import Conditions, Severity
from stereo_bp_ros.node.diagnostics.greys import RectifiedGreys
from stereo_bp_ros.rectification import Rectification
from stereo_bp_ros.row_correction import (
    CERTAIN_SIGMAS,
    CONTRADICTION,
    NO_TEXTURE,
    PLACES,
    TERMS,
    RowCorrection,
    RowEstimator,
)
from stereo_bp_ros.stamps import SIDES

#: The key of what is wrong with the rows of a pair.
VERTICAL_OFFSET = Doubt.VERTICAL_OFFSET.value

#: Pairs after which rows are warned of, and with which a drift is compared.
SETTLED_PAIRS = 5

#: Why rows are not learnt from a pair that may be rejected.
EXCHANGED = 'the images seem to be exchanged'

#: Seconds after the latest pair that shows rows from which their offset is unknown.
UNKNOWN_S = 3.0

#: Points of a pair whose images cannot be exchanged: of those that are, far things alone match.
SURE_POINTS = 100

#: Seconds by which the images of a pair may be apart: what moves between them moves rows, too.
MAX_APART_S = 0.001

#: Pairs in a row whose images must seem to be exchanged before pairs are rejected.
EXCHANGED_PAIRS = 2


@dataclasses.dataclass(frozen=True)
class _Camera:
    """Of which pair an estimate is: it begins anew with another one."""

    width: int
    height: int
    calibration: Calibration | None
    rectification: Rectification | None


class _Offer(NamedTuple):
    """A pair to be measured."""

    left: RawImage
    right: RawImage
    config: MatcherConfig
    camera: _Camera
    time_s: float
    apart_s: float


class OffsetMonitor:
    """Follows how the rows of a node's pairs miss each other; for any number of threads.

    ``offer`` only keeps the images: ``measure`` takes some 90 ms, in another thread than frames.

    :param conditions: is told of rows that miss each other by too much.
    """

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget everything: what is measured next is what a drift is compared with."""
        with self._lock:
            self._greys = RectifiedGreys()
            self._pair: _Offer | None = None
            self._rows: _Rows | None = None
            self._exchanged: list[checks.Finding] = []
            self._exchanged_pairs = 0
            self._conditions.clear(VERTICAL_OFFSET)

    def offer(self, left: RawImage, right: RawImage, config: MatcherConfig,
              rectification: Rectification | None = None, calibration: Calibration | None = None,
              time_s: float = 0.0, apart_s: float = 0.0) -> None:
        """Leave a pair to be measured; from here on nobody may write into its images.

        :param rectification: of raw images.
        :param calibration: of the rectified images.
        :param time_s: its stamp, seconds.
        :param apart_s: by how much the stamps of its images differ.
        """
        camera = _camera(config, left, rectification, calibration)
        with self._lock:
            self._pair = _Offer(left, right, config, camera, time_s, apart_s)

    @property
    def wants_pair(self) -> bool:
        """Whether a pair should be offered and measured at once: one that confirms the latest."""
        rows = self._rows
        return rows is not None and rows.estimator.wants_pair

    def measure(self, limit: float) -> None:
        """Measure the pair that was left last, if there is a new one.

        :param limit: rows that miss each other by more are a warning. 0 = none, and only what
            ``row_correction`` asks for is measured.
        """
        with self._lock:
            pair, self._pair = self._pair, None
            if pair is None:
                return
            config = pair.config
            is_measured = bool(limit) or config.row_correction != 'off'
            if not is_measured:
                self._rows = None
            elif self._rows is None or self._rows.camera != pair.camera:
                self._rows = _Rows(pair.camera)
            rows, greys = self._rows, self._greys
        left, right = (greys.of(side, image, config, pair.camera.rectification)
                       for side, image in zip(SIDES, (pair.left, pair.right), strict=True))
        reach = config.min_disparity, config.max_disparity
        points = np.zeros((0, 3))
        if rows is not None and pair.apart_s <= MAX_APART_S:
            points = row_points(left, right, *reach)
        is_sure = len(points) >= SURE_POINTS
        exchanged = [] if is_sure else checks.check_exchanged(left, right, config)
        shows_rows = False
        if rows is not None:
            rows.estimator.limit = config.row_correction_limit
            why_not = EXCHANGED if exchanged else '' if pair.apart_s <= MAX_APART_S else (
                f'the images of a pair are {1e3 * pair.apart_s:.1f} ms apart')
            shows_rows = rows.add(points, pair.time_s, why_not)
        if is_sure and not shows_rows:
            exchanged = checks.check_exchanged(left, right, config)
        texts = []
        if rows is not None and limit:
            if (pair.camera.rectification is not None and pair.apart_s <= MAX_APART_S
                    and (not shows_rows or rows.error(config) > limit)):
                as_they_come = vertical_offset(
                    to_8_bits(pair.left, config.mono16_scale),
                    to_8_bits(pair.right, config.mono16_scale), *reach)
                texts = [str(one) for one in checks.believe(checks.check_rectified_once(
                    as_they_come and as_they_come.largest, limit), config)]
            if VERTICAL_OFFSET not in ignored_keys(config.ignored_checks):
                texts += rows.warnings(limit, config)
        with self._lock:
            if self._rows is not rows:              # cleared in the meantime
                return
            self._exchanged, self._exchanged_pairs = exchanged, (
                self._exchanged_pairs + 1 if exchanged else 0)
            self._conditions.hold(VERTICAL_OFFSET, Severity.WARN, *texts)

    def correction(self, left: RawImage, config: MatcherConfig,
                   rectification: Rectification | None, calibration: Calibration | None,
                   time_s: float) -> RowCorrection | None:
        """What the matcher undoes in a pair of this time; None = nothing."""
        rows = self._rows
        if (rows is None or config.row_correction != 'correct'
                or rows.camera != _camera(config, left, rectification, calibration)):
            return None
        return rows.estimator.correction(time_s)

    @property
    def target(self) -> RowCorrection | None:
        """What a new calibration of the right camera would have to change; None = nothing known.
        """
        rows = self._rows
        return None if rows is None else rows.estimator.target

    def rejections(self) -> list[checks.Finding]:
        """Why pairs have to be rejected by what was measured; empty where they need not."""
        with self._lock:
            return self._exchanged if self._exchanged_pairs >= EXCHANGED_PAIRS else []

    def report(self, mode: str = 'off') -> dict[str, str]:
        """Keys and values for people; empty where nothing was measured.

        :param mode: the setting ``row_correction``.
        """
        rows = self._rows
        return {} if rows is None else rows.report(mode)


def _camera(config: MatcherConfig, image: RawImage, rectification: Rectification | None,
            calibration: Calibration | None) -> _Camera:
    return _Camera(*geometry.rectified_size(config, image.width, image.height), calibration,
                   rectification)


class _Rows:
    """The rows of one camera, and what they are compared with."""

    def __init__(self, camera: _Camera) -> None:
        self.camera = camera
        self.estimator = RowEstimator.of_camera(camera.width, camera.height, camera.calibration)
        self._reference: RowCorrection | None = None
        self._seen_s: float | None = None

    def add(self, points: np.ndarray, time_s: float, why_not: str = '') -> bool:
        """Learn from a pair, unless there is a reason not to; returns whether it shows any rows.
        """
        self._seen_s = time_s
        if why_not:
            self.estimator.skip(why_not)
            return False
        state = self.estimator.add(points, time_s)
        if self._reference is None and state.pairs >= SETTLED_PAIRS:
            self._reference = state.estimate
        return state.reason not in (NO_TEXTURE, CONTRADICTION)

    @property
    def _is_known(self) -> bool:
        """Whether a pair has shown rows lately."""
        measured_s = self.estimator.state.measured_s
        return measured_s is not None and self._seen_s is not None and (
            self._seen_s - measured_s < UNKNOWN_S)

    def error(self, config: MatcherConfig) -> float:
        """Rows that miss each other at most, after what is corrected."""
        state = self.estimator.state
        return state.remaining if config.row_correction == 'correct' else state.largest

    def warnings(self, limit: float, config: MatcherConfig) -> list[str]:
        state, now = self.estimator.state, self.estimator.state.estimate
        if now is None or state.pairs < SETTLED_PAIRS or not self._is_known:
            return []
        texts = []
        error = self.error(config)
        if error - CERTAIN_SIGMAS * state.sigma > limit:
            why = f' ({state.reason})' if config.row_correction == 'correct' else ''
            texts.append(
                f'the rows of the two images miss each other by up to {error:.2f} px{why} '
                f'(max_vertical_offset {limit:g}): the right image is '
                f'{self._middle(now):.2f} px lower, and {self._tilt(now):.2f} px more at its '
                'right edge than at its left; calibrate the cameras anew')
        if self._reference is not None and config.row_correction != 'correct':
            moved = float(np.abs(self._rows(now) - self._rows(self._reference)).max())
            if moved > limit:
                texts.append(f'the rows of the two images have moved by up to {moved:.2f} px '
                             'since activation: has a camera moved in its mounting?')
        return texts

    def report(self, mode: str) -> dict[str, str]:
        state, now = self.estimator.state, self.estimator.state.estimate
        if self._seen_s is None:
            return {}
        if now is None:
            return {'vertical offset px': 'unknown', 'row correction': f'none: {state.reason}'}
        values = {
            'vertical offset px': f'{self._middle(now):.2f}' if self._is_known else 'unknown',
            'vertical tilt px': f'{self._tilt(now):.2f}',
            'vertical error px': f'{state.largest:.2f}',
            'vertical error sigma px': f'{state.sigma:.3f}',
            'vertical terms px': ', '.join(
                f'{name} {value:.2f} +- {sigma:.2f}' for name, value, sigma in zip(
                    TERMS, now.terms, state.sigmas, strict=True) if value) or 'none',
            'vertical spread px': f'{state.residual:.2f}', 'vertical points': str(state.points)}
        if self._reference is not None:
            then = self._reference
            values |= {
                'vertical offset drift px': f'{self._middle(now) - self._middle(then):.2f}',
                'vertical tilt drift px': f'{self._tilt(now) - self._tilt(then):.2f}'}
        target = self.estimator.target
        if mode == 'correct' and target is not None:
            most = target.largest(self.camera.width, self.camera.height)
            values |= {'row correction': f'up to {most:.2f} px'
                       + (f' ({state.reason})' if state.reason else ''),
                       'row correction since s': f'{state.corrected_s:.3f}',
                       'row correction remaining px': f'{state.remaining:.2f}'}
        elif mode != 'off':
            values['row correction'] = 'none: ' + (state.reason or 'row_correction is measure')
        return values

    def _rows(self, of: RowCorrection) -> np.ndarray:
        return of.rows_of_image(self.camera.width, self.camera.height)

    def _middle(self, of: RowCorrection) -> float:
        return float(self._rows(of)[PLACES**2 // 2])

    def _tilt(self, of: RowCorrection) -> float:
        """In the last column, less that in the first one."""
        return of.terms[1] * (self.camera.width - 1) / of.focal_px
