"""Errors of a map in metres: what an error in disparity means at its distance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.evaluation.sums import Sums, none_for_nan

#: Truths farther away are not compared; an estimate farther away, or at infinity, counts as this
#: far.
FARTHEST_M = 1000.0

#: Limits of the bins of the errors from which percentiles come, metres: 32 bins a decade, each
#: 7.5 % wide. Errors outside count in the first and the last bin.
ERRORS = np.geomspace(1e-3, FARTHEST_M, 193)


@dataclass(frozen=True)
class DepthError(Sums):
    """Errors |Z - Z*| of the pixels of one map or of many; two of them add up.

    compared: pixels with a disparity whose truth is at most ``FARTHEST_M`` away.
    absolute: sum of the errors, metres.
    relative: sum of the errors, each divided by its true distance.
    counts:   of the errors in the bins of ``ERRORS``.
    """

    compared: int = 0
    absolute: float = 0.0
    relative: float = 0.0
    counts: tuple[int, ...] = ()

    @property
    def mean_m(self) -> float:
        """Mean error, metres; NaN without any pixel."""
        return self.absolute / self.compared if self.compared else math.nan

    @property
    def relative_mean(self) -> float:
        """Mean of the errors in per cent of the true distance; NaN without any pixel."""
        return 100.0 * self.relative / self.compared if self.compared else math.nan

    def percentile_m(self, share: float) -> float:
        """Error that ``share`` per cent of the pixels do not exceed, metres; NaN without any.

        The logarithms of errors count as spread evenly over their bin.
        """
        if not self.counts:
            return math.nan
        reached = np.cumsum(self.counts)
        wanted = share / 100 * reached[-1]
        place = int(np.searchsorted(reached, wanted))
        short = (reached[place] - wanted) / max(self.counts[place], 1)
        return float(ERRORS[place + 1] * (ERRORS[place] / ERRORS[place + 1]) ** short)

    def as_dict(self) -> dict[str, float | int | None]:
        """Every figure by its key of ``MEANINGS``; None where there is no value."""
        return none_for_nan({
            'compared': self.compared, 'mean_m': self.mean_m, 'p50_m': self.percentile_m(50),
            'p90_m': self.percentile_m(90), 'relative_mean': self.relative_mean})


#: The figures of ``DepthError.as_dict``: key to words and unit.
MEANINGS = {
    'compared': ('pixels with a disparity and a truth in metres', ''),
    'mean_m': ('mean error of their distance', 'm'),
    'p50_m': ('error that half of them do not exceed', 'm'),
    'p90_m': ('error that 90 % of them do not exceed', 'm'),
    'relative_mean': ('mean error in per cent of the true distance', '%')}


def distances(disparity: np.ndarray, calibration: Calibration) -> np.ndarray:
    """Distances along the optical axis, float64 metres; infinite where rays do not meet.

    Z = focal length x baseline / (disparity - (cx_left - cx_right)).

    disparity: unshifted, pixels, finite, of any shape.
    """
    difference = disparity.astype(np.float64) - calibration.shift
    metres = np.full(disparity.shape, np.inf)
    np.divide(calibration.focal_px * calibration.baseline_m, difference, out=metres,
              where=difference > 0)
    return metres


@dataclass(frozen=True)
class DepthErrorMap:
    """The errors of every pixel of a map, to be summed over parts of it.

    compared: bool H x W, pixels that are compared: n of them, row by row.
    error:    n errors, float64 metres.
    relative: n errors divided by the true distance.
    place:    the bins of the n errors.
    """

    compared: np.ndarray
    error: np.ndarray
    relative: np.ndarray
    place: np.ndarray

    def part(self, mask: np.ndarray | None = None) -> DepthError:
        """Of the pixels of a mask, H x W, not 0 where it is; None: of all."""
        chosen = slice(None) if mask is None else mask[self.compared] != 0
        error = self.error[chosen]
        if not error.size:
            return DepthError()
        counts = np.bincount(self.place[chosen], minlength=ERRORS.size - 1)
        return DepthError(int(error.size), float(error.sum()),
                          float(self.relative[chosen].sum()), tuple(counts.tolist()))


def compare(disparity: np.ndarray, valid: np.ndarray, truth: np.ndarray,
            calibration: Calibration) -> DepthErrorMap:
    """Compare a map with its truth in metres.

    disparity: H x W, unshifted, pixels.
    valid:     bool H x W, where `disparity` is an estimate.
    truth:     H x W, pixels. NaN and infinity are unknown.
    """
    compared = valid.astype(bool) & np.isfinite(disparity) & np.isfinite(truth)
    true = distances(truth[compared], calibration)
    near = true <= FARTHEST_M
    compared[compared] = near
    found = np.minimum(distances(disparity[compared], calibration), FARTHEST_M)
    error = np.abs(found - true[near])
    return DepthErrorMap(compared, error, error / true[near], np.digitize(error, ERRORS[1:-1]))
