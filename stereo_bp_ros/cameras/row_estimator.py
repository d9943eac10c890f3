"""Follows how the right image of a camera is moved, from what its pairs show one after another."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import NamedTuple

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.row_correction import TERMS, RowCorrection, places

#: What a pair needs: so many points that agree, and at most so much spread of all, pixels.
MIN_POINTS, MAX_SPREAD = 20, 0.75

#: From which a correction is significant: standard deviations, and pixels, at one place at least.
SIGNIFICANT_SIGMAS, MIN_CORRECTION_PX = 5.0, 0.15

#: Pairs until another one should be measured soon, which confirms the first.
MIN_PAIRS = 2

#: What a correction differs from the estimate by before it follows: pixels, standard deviations.
HYSTERESIS_PX, HYSTERESIS_SIGMAS = 0.05, 2.0

#: Why a pair shows no rows.
NO_TEXTURE = 'too little texture'
CONTRADICTION = 'the points of a pair contradict each other'

#: Maximum rate of a correction anywhere, pixels a second, and its steps, pixels.
MAX_RATE_PX_S, RATE_STEP_PX = 4.0, 0.1

#: Rows at the image's edge from which a scale is that of the focal length: columns follow it.
MIN_FOCAL_PX = 0.5

#: What a pair differs from the estimate by where a camera was moved: pixels, standard deviations.
BUMP_PX, BUMP_SIGMAS = 0.3, 5.0

#: Standard deviations of each term, as pixels at the image's edge: before anything is measured,
#: and of what changes in a second.
PRIOR_PX, DRIFT_PX = 10.0, 0.03

#: Standard deviation of what no term explains, pixels: all points of a cell have it in common. So
#: many cells lie side by side.
UNEXPLAINED_PX, CELLS = 0.05, 8

#: Minimum standard deviation of a point, pixels.
MIN_POINT_SIGMA = 0.05

#: By how much a term must lower the sum of squares, in variances: three standard deviations, and
#: one where the estimate has it already. With one threshold for both, terms come and go.
TERM_PENALTY, KEPT_PENALTY = 9.0, 1.0

#: Rounds of reweighting, and residual, in standard deviations, from which a point has no weight.
ROUNDS, TUKEY = 15, 4.685

#: From a median absolute deviation to a standard deviation.
_SIGMA = 1.4826


@dataclasses.dataclass(frozen=True)
class RowState:
    """What is known of the rows of a pair.

    estimate: how the right image is moved; None before the first pair that shows it.
    sigmas:   standard deviation of each term, pixels; 0 of a term that is left out.
    max_px:   maximum vertical disparity anywhere in the image, pixels.
    sigma:    standard deviation of that, pixels.
    remaining_px: the same once the correction has come to its target.
    residual: robust standard deviation of the latest pair's points around the estimate, pixels.
    places:   float64 2 x points, columns and rows of that pair's points that agree, pixels.
    pairs:    pairs in the estimate.
    reason:   why the estimate is not corrected, or not by the latest pair; '' = all is well.
    measured_s: time of the latest pair that shows rows; None before the first one.
    corrected_s: time from which on the present correction holds; None without one.
    """

    estimate: RowCorrection | None = None
    sigmas: tuple[float, ...] = (0.0,) * len(TERMS)
    max_px: float = 0.0
    sigma: float = math.inf
    remaining_px: float = 0.0
    residual: float = math.inf
    places: np.ndarray = dataclasses.field(
        default_factory=lambda: np.zeros((2, 0)), repr=False, compare=False)
    pairs: int = 0
    reason: str = 'nothing measured'
    measured_s: float | None = None
    corrected_s: float | None = None

    @property
    def points(self) -> int:
        """Points of the latest pair that agree."""
        return self.places.shape[1]

    def typical(self, other: RowCorrection | None = None) -> float:
        """Median vertical disparity of the points, pixels; nothing is extrapolated.

        :param other: what is corrected; None = nothing.
        """
        if self.estimate is None or not self.points:
            return 0.0
        rows = self.estimate.rows(*self.places)
        if other is not None:
            rows = rows - other.rows(*self.places)
        return float(np.median(np.abs(rows)))

    @property
    def text(self) -> str:
        """What is known, in words."""
        if self.estimate is None:
            return f'unknown: {self.reason}'
        return (f'vertical disparity up to {self.max_px:.2f} px (sigma {self.sigma:.2f}): the '
                f'right image is {self.estimate.text}')


class _Gaussian(NamedTuple):
    """Estimated terms: float64 5, and their covariance, 5 x 5, pixels."""

    mean: np.ndarray
    covariance: np.ndarray

    def drifted(self, variances: np.ndarray) -> _Gaussian:
        return _Gaussian(self.mean, self.covariance + np.diag(variances))

    def updated(self, pair: _Pair) -> _Gaussian:
        """With what one pair says."""
        information = np.linalg.inv(self.covariance)
        covariance = np.linalg.inv(information + pair.information)
        return _Gaussian(covariance @ (information @ self.mean + pair.information @ pair.terms),
                         covariance)


class _Ramp(NamedTuple):
    """From one correction to another, each float64 6 (terms and columns), since a time."""

    begin: np.ndarray
    end: np.ndarray
    since_s: float


class _Pair(NamedTuple):
    """Terms that fit the points of one pair, their information (5 x 5), how well they do, and
    places of points that agree (2 x N)."""

    terms: np.ndarray
    information: np.ndarray
    residual: float
    places: np.ndarray


class RowEstimator:
    """Follows how the right image is moved, from what pairs show one after the other.

    A Kalman filter over the five terms, which wander; robust within a pair. A pair that differs
    from the estimate is left aside until the next one confirms it: then a camera was moved.
    One thread calls ``add`` and ``clear``; what is read may be read in any.

    :param width, height: of the rectified images, pixels.
    :param focal_px, cx, cy: of the right camera; 0 and None = width, and the middle.
    :param limit: rows; an estimate with a term that moves any place by more is not corrected.
    """

    def __init__(self, width: int, height: int, *, focal_px: float = 0.0,
                 cx: float | None = None, cy: float | None = None, limit: float = 4.0) -> None:
        self.limit = limit
        self._width = width
        self._camera = RowCorrection(
            (0.0,) * len(TERMS), focal_px or float(width),
            (width - 1) / 2 if cx is None else cx, (height - 1) / 2 if cy is None else cy)
        self._places = self._camera.factors(*places(width, height))
        factors = np.abs(self._places).max(axis=0)
        self._scales = 1 / np.where(factors > 0, factors, 1)    # of one row some move nothing
        #: Of terms and of columns: how far each moves a place.
        self._moves = np.append(self._places, self._places[:, 1:2], axis=1)
        self._prior = _Gaussian(np.zeros(len(TERMS)), np.diag((PRIOR_PX * self._scales) ** 2))
        self.clear()

    @classmethod
    def of_camera(cls, width: int, height: int, calibration: Calibration | None, *,
                  limit: float = 4.0) -> RowEstimator:
        """For rectified images of a calibration; None, or no principal point: not known."""
        if calibration is None:
            return cls(width, height, limit=limit)
        is_known = calibration.cx_left or calibration.cy
        return cls(width, height, limit=limit, focal_px=calibration.focal_px,
                   cx=calibration.cx_right if is_known else None,
                   cy=calibration.cy if is_known else None)

    def clear(self) -> None:
        """Forget everything."""
        self.state = RowState()
        #: Whether another pair should be measured soon: one that confirms the latest.
        self.wants_pair = False
        self._known = self._prior
        self._bump: _Pair | None = None
        none = np.zeros(len(TERMS) + 1)
        self._ramp = _Ramp(none, none, -math.inf)

    def add(self, points: np.ndarray, time_s: float) -> RowState:
        """Learn from one pair; returns the new state.

        :param points: float N x 3, as ``alignment.row_points`` finds them in images without a
            correction.
        :param time_s: when it was taken, seconds of any clock; not before the previous one.
        """
        pair = self._fit(np.asarray(points, np.float64).reshape(-1, 3))
        if isinstance(pair, str):
            return self.skip(pair)
        self.wants_pair = False
        state, known = self.state, self._known
        if state.measured_s is not None:
            known = known.drifted((DRIFT_PX * self._scales) ** 2
                                  * max(0.0, time_s - state.measured_s))
        pairs = state.pairs + 1
        if state.pairs and self._differ(known, self._prior.updated(pair)):
            bump, self._bump = self._bump, pair
            if bump is None or self._differ(self._prior.updated(bump), self._prior.updated(pair)):
                self.wants_pair = bump is None      # scenes that contradict each other go on so
                self.state = dataclasses.replace(
                    state, reason='a pair contradicts those before it')
                return self.state
            known, pairs = self._prior.updated(bump), MIN_PAIRS
        self._bump = None
        self._known = known.updated(pair)
        self.wants_pair = pairs < MIN_PAIRS
        self._conclude(pair, pairs, time_s)
        return self.state

    def skip(self, reason: str) -> RowState:
        """Learn nothing from a pair, for a reason in words; returns the new state."""
        self.wants_pair = False
        self._bump = None
        self.state = dataclasses.replace(self.state, reason=reason)
        return self.state

    def correction(self, time_s: float) -> RowCorrection | None:
        """The correction of an image of this time; None = none.

        By the first pair it is the estimate at once; after a change that takes some steps.
        """
        return self._correction(self._in_use(time_s))

    @property
    def target(self) -> RowCorrection | None:
        """The end of the ramp of ``correction``."""
        return self._correction(self._ramp.end)

    def _correction(self, values: np.ndarray) -> RowCorrection | None:
        *terms, columns = values.tolist()
        return dataclasses.replace(self._camera, terms=tuple(terms), columns=columns) if any(
            terms) else None

    def _fit(self, points: np.ndarray) -> _Pair | str:
        """The robust fit (Tukey's weights) of all terms; why there is none in words."""
        if len(points) < MIN_POINTS:
            return NO_TEXTURE
        at, dy = self._camera.factors(points[:, 0], points[:, 1]), points[:, 2]
        prior = np.linalg.inv(self._prior.covariance)
        terms = np.zeros(len(TERMS))
        terms[0] = np.median(dy)
        for number in range(ROUNDS):
            rest = np.abs(dy - at @ terms)
            sigma = max(MIN_POINT_SIGMA, _SIGMA * float(np.median(rest)))
            # Absolute values first: they find the many from anywhere.
            weights = (sigma / np.maximum(rest, sigma) if number < ROUNDS // 3
                       else np.maximum(0, 1 - (rest / (TUKEY * sigma)) ** 2) ** 2)
            weighted = at.T * (weights / sigma**2)
            terms = np.linalg.solve(weighted @ at + prior, weighted @ dy)
        agree = np.abs(dy - at @ terms) <= 3 * sigma
        if sigma > MAX_SPREAD or np.count_nonzero(agree) < MIN_POINTS:
            return CONTRADICTION
        # Many points of a cell say no more than one with the error that they have in common.
        side = self._width / CELLS
        _, cell = np.unique(points[:, :2] // side, axis=0, return_inverse=True)
        of_cell = np.bincount(cell.reshape(-1), weights)[cell.reshape(-1)]
        weights = weights / (sigma**2 + UNEXPLAINED_PX**2 * of_cell)
        return _Pair(terms, (at.T * weights) @ at, sigma, points[agree, :2].T)

    def _differ(self, one: _Gaussian, other: _Gaussian) -> bool:
        """Whether two estimates move any place by different rows."""
        rows = np.abs(self._places @ (one.mean - other.mean))
        return bool(np.any(rows > np.maximum(BUMP_PX, BUMP_SIGMAS * self._sigmas_at(
            one.covariance + other.covariance))))

    def _sigmas_at(self, covariance: np.ndarray) -> np.ndarray:
        """Standard deviation of rows at all places, pixels."""
        return np.sqrt(np.einsum('ij,jk,ik->i', self._places, covariance, self._places))

    def _conclude(self, pair: _Pair, pairs: int, time_s: float) -> None:
        """Choose the terms, and the correction from now on."""
        before = self.state.estimate
        best = _chosen(self._known, np.array(before.terms) != 0 if before is not None
                       else np.zeros(len(TERMS), bool))
        rows, sigmas = np.abs(self._places @ best.mean), self._sigmas_at(best.covariance)
        place = int(rows.argmax())
        is_significant = bool(np.any(rows >= np.maximum(MIN_CORRECTION_PX,
                                                        SIGNIFICANT_SIGMAS * sigmas)))
        is_beyond = bool(np.any(np.abs(best.mean / self._scales) > self.limit))
        reason = ''
        if is_beyond:
            reason = f'beyond the limit of {self.limit:g} px'
        elif not (is_significant or np.any(self._ramp.end)):
            reason = 'not significant'
        else:
            apart = np.abs(self._places @ (best.mean - self._ramp.end[:-1]))
            if np.any(apart > np.maximum(HYSTERESIS_PX, HYSTERESIS_SIGMAS * sigmas)):
                end = np.append(best.mean, self._columns(best))
                # Nothing was seen before the first pair that could jump.
                self._ramp = _Ramp(end if pairs == 1 else self._in_use(time_s), end, time_s)
        apart = np.abs(self._places @ (best.mean - self._ramp.end[:-1]))
        since_s = self._ramp.since_s if np.any(self._ramp.end) else None
        estimate = dataclasses.replace(self._camera, terms=tuple(best.mean.tolist()),
                                       columns=self._columns(best))
        self.state = RowState(
            estimate, tuple(np.sqrt(np.maximum(0, np.diag(best.covariance))).tolist()),
            float(rows[place]), float(sigmas[place]), float(apart.max()), pair.residual,
            pair.places, pairs, reason, time_s, since_s)

    def _columns(self, best: _Gaussian) -> float:
        """The scale of columns: that of rows where it is surely one of the focal length."""
        rows = abs(best.mean[2]) / self._scales[2]
        sigma = math.sqrt(max(0.0, best.covariance[2, 2])) / self._scales[2]
        # Hysteresis: a correction ends later than it begins.
        threshold = MIN_FOCAL_PX * (0.8 if self._ramp.end[-1] else 1.0)
        return float(best.mean[2]) if rows >= max(threshold, SIGNIFICANT_SIGMAS * sigma) else 0.0

    def _in_use(self, time_s: float) -> np.ndarray:
        """Terms and columns of the ramp from the previous correction to the present one."""
        begin, end, since_s = self._ramp
        length = float(np.abs(self._moves * (end - begin)).sum(axis=1).max())
        gone = MAX_RATE_PX_S * max(0.0, time_s - since_s)
        if gone >= length:
            return end
        return begin + (end - begin) * (RATE_STEP_PX * math.floor(gone / RATE_STEP_PX) / length)


def _chosen(known: _Gaussian, before: np.ndarray) -> _Gaussian:
    """The estimate with the terms that a penalty for each keeps; others are 0.

    An information criterion: without terms z the sum of squares rises by
    ``mean_z^T covariance_zz^-1 mean_z``.

    before: bool 5, the terms that were chosen last.
    """
    penalties = np.where(before, KEPT_PENALTY, TERM_PENALTY)

    def criterion(kept: tuple[int, ...]) -> float:
        left_out = [k for k in range(len(TERMS)) if k not in kept]
        mean = known.mean[left_out]
        return float(mean @ np.linalg.solve(known.covariance[np.ix_(left_out, left_out)], mean)
                     ) + float(penalties[list(kept)].sum())

    kept = min((subset for count in range(len(TERMS) + 1)
                for subset in itertools.combinations(range(len(TERMS)), count)), key=criterion)
    left_out = [k for k in range(len(TERMS)) if k not in kept]
    gain = known.covariance[:, left_out] @ np.linalg.inv(
        known.covariance[np.ix_(left_out, left_out)])
    mean = known.mean - gain @ known.mean[left_out]
    covariance = known.covariance - gain @ known.covariance[left_out]
    mean[left_out] = covariance[left_out] = covariance[:, left_out] = 0
    return _Gaussian(mean, covariance)
