"""What the pixels of a result must satisfy: too few have a disparity, or too many the maximum."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.frame.disparity_frame import DisparityFrame
from stereo_bp_ros.issues import Issue, IssueCode

#: Every so many rows are looked at.
STRIDE = 8

#: Part of the valid pixels at the maximum disparity from which something may be nearer than can be
#: measured, and below which that ends.
PILED_UP, NO_LONGER_PILED_UP = 0.005, 0.0025

#: Part of the valid window that must have a disparity.
MIN_VALID_FRACTION = 0.05

#: Factor on ``min_valid_fraction`` from which pixels count as enough again.
ENOUGH_AGAIN = 1.2

#: Looks in a row after which an issue begins or ends.
LOOKS = 3

#: Issues of images that explain whatever their disparities show.
CAUSES = {IssueCode.IDENTICAL, IssueCode.EXPOSURE, IssueCode.BITS,
          IssueCode.PIXEL_BYTES}


@dataclasses.dataclass(frozen=True)
class FrameQuality:
    """What the pixels of one frame say of its settings.

    valid:     part of the pixels in the valid window that have a disparity or a depth; None
               where the window is empty.
    at_maximum: part of the valid pixels that are within half a label of the maximum disparity.
    nearest, farthest: depths that can be measured, metres; infinite where none can be, NaN
               without a calibration.
    """

    valid: float | None
    at_maximum: float
    nearest: float
    farthest: float


class FrameChecks:
    """Issues of the frames of a sequence that were looked at: one cause at a time.

    The first frame is judged by itself. What a later one shows may be gone with the next: an issue
    begins after ``LOOKS`` looks in a row that show its cause, and ends after as many that do not.
    """

    def __init__(self) -> None:
        self._few_valid = _Debounced()
        self._piled_up = _Debounced()
        self._is_first = True

    def update(self, quality: FrameQuality | None,
               min_valid_fraction: float = MIN_VALID_FRACTION, *, is_explained: bool = False
               ) -> list[Issue]:
        """The issues after one more look; empty when all is well.

        :param quality: None where no output shows it.
        :param is_explained: whether the images have an issue of ``CAUSES``: there is none of
            their disparities then.
        """
        is_first, self._is_first = self._is_first, False
        if is_explained or quality is None or quality.valid is None:
            self._few_valid, self._piled_up = _Debounced(), _Debounced()
            return [] if is_explained or quality is None else [IssueCode.TOO_NARROW.issue(
                'the images are too narrow for disparity_range: no pixel can have a disparity')]
        are_few = quality.valid < min_valid_fraction
        has_few = self._few_valid.update(
            begins=are_few, ends=quality.valid >= min(1, ENOUGH_AGAIN * min_valid_fraction),
            at_once=is_first)
        if are_few or has_few:
            self._piled_up = _Debounced()
        if has_few:
            return [IssueCode.FEW_VALID.issue(
                f'fewer than {100 * min_valid_fraction:g} % of the pixels have a disparity '
                '(min_valid_fraction): there may be too little texture, or the pair may not be '
                'rectified', -quality.valid)]
        if not are_few and self._piled_up.update(
                begins=quality.at_maximum > PILED_UP,
                ends=quality.at_maximum < NO_LONGER_PILED_UP, at_once=is_first):
            metres = '' if math.isnan(quality.nearest) else f', that of {quality.nearest:.2f} m'
            return [IssueCode.PILED_UP.issue(
                f'many pixels have the maximum disparity{metres}: something may be nearer than '
                'can be measured, or may be seen by one camera alone; where things come that '
                'near, raise disparity_range, or lower min_depth where that is set',
                quality.at_maximum)]
        return []


class _Debounced:
    """A state that changes after ``LOOKS`` looks in a row that ask for it."""

    def __init__(self) -> None:
        self._holds = False
        self._looks = 0

    def update(self, *, begins: bool, ends: bool, at_once: bool) -> bool:
        """Whether it holds after one more look, which suffices by itself ``at_once``."""
        self._looks = self._looks + 1 if (ends if self._holds else begins) else 0
        if self._looks == (1 if at_once else LOOKS):
            self._holds, self._looks = not self._holds, 0
        return self._holds


def frame_quality(frame: DisparityFrame, config: MatcherConfig,
                  calibration: Calibration | None) -> FrameQuality | None:
    """Judge a frame by every ``STRIDE``-th row of its valid window; None where it has neither
    disparity nor depth."""
    shift = 0.0 if calibration is None else calibration.shift
    last, half = config.max_disparity - shift, config.downscale / 2
    rows, columns = frame.valid_window.slices
    if frame.disparity is not None:
        sample = frame.disparity[rows, columns][::STRIDE]
        valid = sample >= np.float32(frame.min_disparity)
        is_last = sample >= np.float32(frame.max_disparity - half)
    elif frame.depth is not None or frame.depth_mm is not None:
        sample = _metres(frame)[rows, columns][::STRIDE]
        valid = np.isfinite(sample)
        is_last = sample <= np.float32(_depth(calibration, last - half))
    else:
        return None
    number = np.count_nonzero(valid)
    return FrameQuality(
        valid=number / valid.size if valid.size else None,
        at_maximum=np.count_nonzero(is_last) / number if number else 0.0,
        nearest=_depth(calibration, last),
        farthest=_depth(calibration, _smallest_positive(config, shift)))


def _metres(frame: DisparityFrame) -> np.ndarray:
    """The depth in either type, NaN where there is none."""
    if frame.depth is not None:
        return frame.depth
    assert frame.depth_mm is not None
    return np.where(frame.depth_mm > 0, frame.depth_mm / np.float32(1000), np.float32(np.nan))


def _smallest_positive(config: MatcherConfig, shift: float) -> float:
    """The smallest disparity above 0 that there is after the shift, pixels."""
    first, step = config.min_disparity - shift, geometry.disparity_step(config)
    return first if first > 0 else first + step * (math.floor(-first / step) + 1)


def _depth(calibration: Calibration | None, disparity: float) -> float:
    """Metres; infinite where the disparity is none of a point in front of the cameras."""
    if calibration is None:
        return math.nan
    return calibration.focal_px * calibration.baseline_m / disparity if disparity > 0 else math.inf
