"""What is said of images and results: too little texture, or too near."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.frame.disparity_frame import DisparityFrame

#: Every so many rows are looked at.
STRIDE = 8

#: Part of the valid pixels at the last label from which something may be nearer than can be
#: measured, and below which that ends.
PILED_UP, NO_LONGER_PILED_UP = 0.005, 0.0025

#: Factor on ``min_valid_fraction`` from which pixels count as enough again.
ENOUGH_AGAIN = 1.2

#: Looks in a row after which a sentence begins or ends.
LOOKS = 3


@dataclasses.dataclass(frozen=True)
class FrameQuality:
    """What the pixels of one frame say of its settings.

    valid:     part of the pixels in the valid window that have a disparity or a depth; None
               where the window is empty.
    last_label: part of the valid pixels that are within half a label of the largest disparity.
    nearest, farthest: depths that can be measured, metres; infinite where none can be.
    """

    valid: float | None
    last_label: float
    nearest: float
    farthest: float


class QualityWarnings:
    """Sentences about the frames that were looked at: one cause at a time.

    What one frame shows may be gone with the next one: a sentence about pixels begins after
    ``LOOKS`` looks in a row that show its cause, and ends after as many that do not.
    """

    def __init__(self) -> None:
        self._few_valid = _Debounced()
        self._piled_up = _Debounced()

    def update(self, quality: FrameQuality | None, min_valid_fraction: float,
               image_warnings: Sequence[str] = ()) -> list[str]:
        """What is to be said after one more look; empty when all is well.

        :param quality: None where no output shows it.
        :param image_warnings: sentences about images that cannot be matched. They explain
            whatever their disparities show, of which nothing is said then.
        """
        if image_warnings or quality is None or quality.valid is None:
            self._few_valid, self._piled_up = _Debounced(), _Debounced()
            if image_warnings or quality is None:
                return list(image_warnings)
            return ['the images are too narrow for disparity_range: no pixel can have a disparity']
        are_few = quality.valid < min_valid_fraction
        are_said_few = self._few_valid.update(
            begins=are_few, ends=quality.valid >= min(1, ENOUGH_AGAIN * min_valid_fraction))
        if are_few or are_said_few:
            self._piled_up = _Debounced()
        if are_said_few:
            return [f'fewer than {100 * min_valid_fraction:g} % of the pixels have a disparity '
                    '(min_valid_fraction): there may be too little texture, or the pair may not '
                    'be rectified']
        if not are_few and self._piled_up.update(
                begins=quality.last_label > PILED_UP,
                ends=quality.last_label < NO_LONGER_PILED_UP):
            return [f'many pixels have the largest disparity, that of {quality.nearest:.2f} m: '
                    'something may be nearer than can be measured, or may be seen by one camera '
                    'alone; where things come that near, raise disparity_range, or lower '
                    'min_depth where that is set']
        return []


class _Debounced:
    """A state that changes after ``LOOKS`` looks in a row that ask for it."""

    def __init__(self) -> None:
        self._holds = False
        self._looks = 0

    def update(self, *, begins: bool, ends: bool) -> bool:
        """Whether it holds after one more look."""
        self._looks = self._looks + 1 if (ends if self._holds else begins) else 0
        if self._looks == LOOKS:
            self._holds, self._looks = not self._holds, 0
        return self._holds


def frame_quality(frame: DisparityFrame, config: MatcherConfig, calibration: Calibration
                  ) -> FrameQuality | None:
    """Judge a frame by every ``STRIDE``-th row of its valid window; None where it has neither
    disparity nor depth."""
    last, half = config.max_disparity - calibration.shift, config.downscale / 2
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
        last_label=np.count_nonzero(is_last) / number if number else 0.0,
        nearest=_depth(calibration, last),
        farthest=_depth(calibration, _smallest_positive(config, calibration)))


def _metres(frame: DisparityFrame) -> np.ndarray:
    """The depth in either type, NaN where there is none."""
    if frame.depth is not None:
        return frame.depth
    assert frame.depth_mm is not None
    return np.where(frame.depth_mm > 0, frame.depth_mm / np.float32(1000), np.float32(np.nan))


def _smallest_positive(config: MatcherConfig, calibration: Calibration) -> float:
    """The smallest disparity above 0 that there is after the shift, pixels."""
    first, step = config.min_disparity - calibration.shift, geometry.disparity_step(config)
    return first if first > 0 else first + step * (math.floor(-first / step) + 1)


def _depth(calibration: Calibration, disparity: float) -> float:
    """Metres; infinite where the disparity is none of a point in front of the cameras."""
    return calibration.focal_px * calibration.baseline_m / disparity if disparity > 0 else math.inf
