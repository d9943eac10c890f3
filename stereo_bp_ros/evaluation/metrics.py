"""Scores of a disparity map against ground truth, in the field's usual figures.

Bad-N and the mean absolute error (the end-point error, EPE) are those of the Middlebury
evaluation; a pixel is bad where its error is greater than N pixels. D1 is that of KITTI 2015: a
pixel is an outlier where its error is greater than 3 pixels and than 5 % of the truth. A map with
holes has two well-known figures of each: over the pixels that have an estimate (Middlebury's
"invalid" kept apart, KITTI's "est"), and over all pixels with known truth, a hole counting as bad.
The third, over all pixels once holes are filled, is the score of a map of ``filling``.

docs/reference/metrics.md defines all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stereo_bp_ros.evaluation.sums import Sums, none_for_nan

#: Errors above which a pixel is bad, pixels of disparity.
THRESHOLDS = (0.5, 1.0, 2.0, 3.0, 4.0)

#: An outlier of KITTI 2015 exceeds both: pixels of disparity, and this share of the truth.
D1_PIXELS, D1_SHARE = 3.0, 0.05


@dataclass(frozen=True)
class Score(Sums):
    """Counts and sums of one map or of many; every figure follows from them.

    Adding two scores gives the score of all their pixels together, so a mean over frames is
    weighted by the pixels of each.

    thresholds:     errors above which a pixel is bad, pixels of disparity.
    pixels:         pixels looked at (those in the mask).
    matched:        of these, pixels with an estimate.
    known:          of `pixels`, those with known truth.
    estimated:      of `known`, those with an estimate.
    bad:            of `estimated`, those with an error above each threshold.
    outliers:       of `estimated`, those that D1 counts.
    absolute_error: sum over `estimated`, pixels of disparity.
    squared_error:  sum over `estimated`, squared pixels of disparity.
    """

    thresholds: tuple[float, ...] = THRESHOLDS
    pixels: int = 0
    matched: int = 0
    known: int = 0
    estimated: int = 0
    bad: tuple[int, ...] = (0,) * len(THRESHOLDS)
    outliers: int = 0
    absolute_error: float = 0.0
    squared_error: float = 0.0

    def __post_init__(self) -> None:
        if len(self.bad) != len(self.thresholds):
            raise ValueError(f'{len(self.bad)} counts of bad pixels for '
                             f'{len(self.thresholds)} thresholds')

    @property
    def coverage(self) -> float:
        """Percentage of all pixels looked at that have an estimate; NaN where there are none."""
        return _percent(self.matched, self.pixels)

    @property
    def density(self) -> float:
        """Percentage of the pixels with known truth that have an estimate; NaN without any."""
        return _percent(self.estimated, self.known)

    @property
    def mae(self) -> float:
        """Mean absolute (end-point) error of the estimated pixels, pixels; NaN without any."""
        return self.absolute_error / self.estimated if self.estimated else math.nan

    @property
    def rms(self) -> float:
        """Root mean square error of the estimated pixels, pixels; NaN without any."""
        return math.sqrt(self.squared_error / self.estimated) if self.estimated else math.nan

    @property
    def d1_estimated(self) -> float:
        """Percentage of the estimated pixels that are outliers; NaN without any."""
        return _percent(self.outliers, self.estimated)

    @property
    def d1_all(self) -> float:
        """Percentage of the pixels with known truth that are outliers or have no estimate."""
        return _percent(self.outliers + self.known - self.estimated, self.known)

    def bad_estimated(self, threshold: float) -> float:
        """Percentage of the estimated pixels that are bad; NaN without any.

        :raises KeyError: the score was not made for this threshold.
        """
        return _percent(self._count(threshold), self.estimated)

    def bad_all(self, threshold: float) -> float:
        """Percentage of the pixels with known truth that are bad or have no estimate.

        :raises KeyError: the score was not made for this threshold.
        """
        return _percent(self._count(threshold) + self.known - self.estimated, self.known)

    def _count(self, threshold: float) -> int:
        if threshold not in self.thresholds:
            raise KeyError(f'no threshold of {threshold} pixels: this score has '
                           + ', '.join(f'{value:g}' for value in self.thresholds))
        return self.bad[self.thresholds.index(threshold)]

    def __add__(self, other: Score) -> Score:
        """The score of the pixels of both.

        :raises ValueError: the two have different thresholds.
        """
        if isinstance(other, Score) and self.thresholds != other.thresholds:
            raise ValueError(f'scores with thresholds {self.thresholds} and {other.thresholds} '
                             'cannot be added')
        return replace(super().__add__(other), thresholds=self.thresholds)

    def as_dict(self) -> dict[str, float | int | None]:
        """Every figure by its key of ``meanings``; None where there is no value."""
        figures: dict[str, float] = {
            'pixels': self.pixels, 'matched': self.matched, 'known': self.known,
            'estimated': self.estimated, 'coverage': self.coverage, 'density': self.density}
        for threshold in self.thresholds:
            figures[f'bad_{threshold:g}_estimated'] = self.bad_estimated(threshold)
            figures[f'bad_{threshold:g}_all'] = self.bad_all(threshold)
        figures['d1_estimated'] = self.d1_estimated
        figures['d1_all'] = self.d1_all
        figures['mae'] = self.mae
        figures['rms'] = self.rms
        return none_for_nan(figures)


def meanings(thresholds: Sequence[float] = THRESHOLDS) -> dict[str, tuple[str, str]]:
    """What the figures of ``Score.as_dict`` are: key to words and unit."""
    figures = {
        'pixels': ('all pixels', ''),
        'matched': ('pixels with a disparity', ''),
        'known': ('pixels with truth', ''),
        'estimated': ('pixels with truth and a disparity', ''),
        'coverage': ('coverage: pixels with a disparity, of all', '%'),
        'density': ('density: pixels with a disparity, of those with truth', '%')}
    for value in thresholds:
        wrong = f'pixels wrong by more than {value:g} px'
        figures[f'bad_{value:g}_estimated'] = (
            f'bad-{value:g} of estimated: {wrong}, of those with truth and a disparity', '%')
        figures[f'bad_{value:g}_all'] = (
            f'bad-{value:g}: {wrong} or without a disparity, of those with truth', '%')
    wrong = f'pixels wrong by more than {D1_PIXELS:g} px and {100 * D1_SHARE:g} % of the truth'
    figures['d1_estimated'] = (
        f'D1 of estimated: {wrong}, of those with truth and a disparity', '%')
    figures['d1_all'] = (f'D1: {wrong}, or without a disparity, of those with truth', '%')
    figures['mae'] = ('mean absolute error (EPE) of pixels with truth and a disparity', 'px')
    figures['rms'] = ('root mean square error of the same pixels', 'px')
    return figures


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else math.nan


def score(disparity: np.ndarray, truth: np.ndarray, valid: np.ndarray | None = None,
          thresholds: Sequence[float] = THRESHOLDS, mask: np.ndarray | None = None) -> Score:
    """Compare a disparity map with ground truth.

    disparity:  H x W, pixels. NaN and infinity are no estimate.
    truth:      H x W, pixels. NaN and infinity are unknown.
    valid:      bool H x W, where `disparity` is an estimate (`DisparityFrame.valid`); None: where
                it is finite.
    thresholds: errors above which a pixel is bad, pixels.
    mask:       H x W, not 0 at pixels to look at (for instance the non-occluded); None: all.

    :raises ValueError: an array is not two-dimensional or not of the same shape.
    """
    for name, array in (('disparity', disparity), ('truth', truth), ('valid', valid),
                        ('mask', mask)):
        if array is not None and (array.ndim != 2 or array.shape != disparity.shape):
            raise ValueError(f'{name} has shape {array.shape}, but a map of '
                             f'{disparity.shape} is compared')
    looked_at = np.ones(disparity.shape, bool) if mask is None else mask.astype(bool)
    matched = looked_at & np.isfinite(disparity)
    if valid is not None:
        matched &= valid.astype(bool)
    known = looked_at & np.isfinite(truth)
    compared = matched & known
    true = truth[compared].astype(np.float64)
    error = np.abs(disparity[compared].astype(np.float64) - true)
    # No sum here is one of linear algebra, which depends on the threads that it has.
    return Score(
        thresholds=tuple(float(value) for value in thresholds),
        pixels=int(np.count_nonzero(looked_at)), matched=int(np.count_nonzero(matched)),
        known=int(np.count_nonzero(known)), estimated=int(error.size),
        bad=tuple(int(np.count_nonzero(error > value)) for value in thresholds),
        outliers=int(np.count_nonzero((error > D1_PIXELS) & (error > D1_SHARE * np.abs(true)))),
        absolute_error=float(error.sum()), squared_error=float(np.square(error).sum()))
