"""What is said of images and results: too little texture, too near, rows that do not match."""

from __future__ import annotations

import collections
import dataclasses
import math
import threading
from collections.abc import Sequence

import cv2
import numpy as np

from stereo_bp_ros import checks, geometry
from stereo_bp_ros.alignment import VerticalOffset, vertical_offset
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.errors import Doubt, ignored_keys
from stereo_bp_ros.grey import to_8_bits
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.node.diagnostics.conditions import Conditions, Severity
from stereo_bp_ros.rectification import Rectification
from stereo_bp_ros.stamps import SIDES
from stereo_bp_ros.types import DisparityFrame

#: Every so many rows are looked at.
STRIDE = 8

#: Part of the valid pixels at the last label from which something may be nearer than can be
#: measured, and below which that ends.
PILED_UP, NO_LONGER_PILED_UP = 0.005, 0.0025

#: Factor on ``min_valid_fraction`` from which pixels count as enough again.
ENOUGH_AGAIN = 1.2

#: Looks in a row after which a sentence begins or ends.
LOOKS = 3

#: The key of what is wrong with the rows of a pair.
VERTICAL_OFFSET = Doubt.VERTICAL_OFFSET.value

#: Estimates of the vertical offset whose median is reported. The first so many of an activation
#: that lie within ``STABLE`` pixels are what a drift is compared with.
ESTIMATES, STABLE = 5, 0.3

#: Pairs in a row whose images must seem to be exchanged before pairs are rejected.
EXCHANGED_PAIRS = 2


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


class OffsetMonitor:
    """Follows the vertical offset of a node's pairs; for any number of threads.

    ``offer`` only keeps the images: ``measure`` takes some 20 ms, in another thread than frames.

    :param conditions: is told of an offset or a drift that is too large.
    """

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget everything: what is measured next is what a drift is compared with."""
        with self._lock:
            self._maps: tuple[Rectification, dict[str, tuple[np.ndarray, np.ndarray]]] | None = (
                None)
            self._pair: tuple[RawImage, RawImage, MatcherConfig, Rectification | None] | None = (
                None)
            self._history = _History()
            self._exchanged: list[checks.Finding] = []
            self._exchanged_pairs = 0
            self._conditions.clear(VERTICAL_OFFSET)

    def offer(self, left: RawImage, right: RawImage, config: MatcherConfig,
              rectification: Rectification | None = None) -> None:
        """Leave a pair to be measured; from here on nobody may write into its images.

        :param rectification: of raw images.
        """
        with self._lock:
            self._pair = left, right, config, rectification

    def measure(self, limit: float) -> None:
        """Measure the pair that was left last, if there is a new one.

        :param limit: rows; a larger offset or drift is a warning. 0 = measure no offset.
        """
        with self._lock:
            pair, self._pair = self._pair, None
            if not limit:
                self._history = _History()
                self._conditions.clear(VERTICAL_OFFSET)
            history = self._history
        if pair is None:
            return
        left, right, config, rectification = pair
        greys = [self._grey(side, image, config, rectification)
                 for side, image in zip(SIDES, (left, right), strict=True)]
        estimate = _estimate(greys, config) if limit else None
        # Rows that can be told were told within the range.
        exchanged = checks.check_exchanged(*greys, config) if estimate is None else []
        texts = []
        if rectification is not None and limit and (
                estimate is None or estimate.largest > limit):
            raw = [to_8_bits(image, config.mono16_scale) for image in (left, right)]
            as_they_come = _estimate(raw, config)
            texts = [str(one) for one in checks.believe(checks.check_rectified_once(
                as_they_come and as_they_come.largest, limit), config)]
        with self._lock:
            if self._history is not history:        # cleared in the meantime
                return
            self._exchanged, self._exchanged_pairs = exchanged, (
                self._exchanged_pairs + 1 if exchanged else 0)
            if limit:
                history.add(estimate)
            if VERTICAL_OFFSET not in ignored_keys(config.ignored_checks):
                texts += history.warnings(limit)
            self._conditions.hold(VERTICAL_OFFSET, Severity.WARN, *texts)

    def rejections(self) -> list[checks.Finding]:
        """Why pairs have to be rejected by what was measured; empty where they need not."""
        with self._lock:
            return self._exchanged if self._exchanged_pairs >= EXCHANGED_PAIRS else []

    def _grey(self, side: str, image: RawImage, config: MatcherConfig,
              rectification: Rectification | None) -> np.ndarray:
        """uint8, rectified; the maps of the latest rectification are kept."""
        grey = to_8_bits(image, config.mono16_scale)
        if rectification is None:
            return grey
        maps = self._maps
        if maps is None or maps[0] != rectification:
            maps = self._maps = rectification, {
                side: rectification.maps(side) for side in SIDES}
        return cv2.remap(grey, *maps[1][side], cv2.INTER_LINEAR)

    def report(self) -> dict[str, str]:
        """Keys and values for people; empty where nothing was measured."""
        with self._lock:
            return self._history.report()


def _estimate(greys: Sequence[np.ndarray], config: MatcherConfig) -> VerticalOffset | None:
    left, right = greys
    return vertical_offset(left, right, config.min_disparity, config.max_disparity)


class _History:
    """The last estimates, and what they are compared with."""

    def __init__(self) -> None:
        self._estimates: collections.deque[VerticalOffset | None] = collections.deque(
            maxlen=ESTIMATES)
        self._reference: VerticalOffset | None = None

    def add(self, estimate: VerticalOffset | None) -> None:
        self._estimates.append(estimate)
        estimates = self._known_estimates()
        if self._reference is None and len(estimates) == ESTIMATES and np.ptp(
                [estimate.offset for estimate in estimates]) <= STABLE:
            self._reference = self.median

    def _known_estimates(self) -> list[VerticalOffset]:
        return [estimate for estimate in self._estimates if estimate is not None]

    @property
    def median(self) -> VerticalOffset | None:
        """Of the last estimates, field by field; None where most of them are unknown."""
        estimates = self._known_estimates()
        if 2 * len(estimates) <= ESTIMATES:
            return None
        offset, tilt, spread, points = np.median(
            [dataclasses.astuple(estimate) for estimate in estimates], 0)
        return VerticalOffset(float(offset), float(tilt), float(spread), int(points))

    @property
    def drift(self) -> VerticalOffset | None:
        """The change since the reference; None without one."""
        now, then = self.median, self._reference
        if now is None or then is None:
            return None
        return dataclasses.replace(now, offset=now.offset - then.offset, tilt=now.tilt - then.tilt)

    def warnings(self, limit: float) -> list[str]:
        now, drift = self.median, self.drift
        if now is None:
            return []
        texts = []
        if now.largest > limit:
            texts.append(
                f'the rows of the two images miss each other by up to {now.largest:.2f} px '
                f'(max_vertical_offset {limit:g}): the right image is {now.offset:.2f} px lower, '
                f'and {now.tilt:.2f} px more at its right edge than at its left; calibrate the '
                'cameras anew')
        if drift is not None and drift.largest > limit:
            texts.append(f'the rows of the two images have moved by up to {drift.largest:.2f} px '
                         'since activation: has a camera moved in its mounting?')
        return texts

    def report(self) -> dict[str, str]:
        if not self._estimates:
            return {}
        now, drift = self.median, self.drift
        if now is None:
            return {'vertical offset px': 'unknown'}
        values = {'vertical offset px': f'{now.offset:.2f}', 'vertical tilt px': f'{now.tilt:.2f}',
                  'vertical spread px': f'{now.spread:.2f}', 'vertical points': str(now.points)}
        if drift is not None:
            values |= {'vertical offset drift px': f'{drift.offset:.2f}',
                       'vertical tilt drift px': f'{drift.tilt:.2f}'}
        return values
