"""What the pairs of one stereo camera show of it, one after another.

Vertical disparity, a yaw, images that are exchanged or frozen, and what the pixels of
results show over time. Whoever follows pairs asks this, and nobody else calls the estimators: the
stream, the node, the evaluation and the check of a calibration.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from typing import NamedTuple

import cv2
import numpy as np

from stereo_bp_ros.cameras.alignment import row_points
from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Maps, Rectification
from stereo_bp_ros.cameras.row_correction import RowCorrection, apply_correction
from stereo_bp_ros.cameras.row_estimator import CONTRADICTION, NO_TEXTURE, RowEstimator, RowState
from stereo_bp_ros.checks import byte_checks, checks, frame_checks
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.frame.disparity_frame import DisparityFrame
from stereo_bp_ros.images.grey import to_8_bits
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.issues import Issue
from stereo_bp_ros.stream.calibration_history import WINDOW_S, CalibrationHistory
from stereo_bp_ros.stream.yaw_tracker import YawTracker

#: Seconds by which the images of a pair may be apart: what moves between them moves rows, too.
MAX_APART_S = 0.001

#: Points of a pair whose images cannot be exchanged: of those that are, far things alone match.
CONFIDENT_POINTS = 100

#: Pairs in a row whose images must seem to be exchanged before pairs are rejected, where an
#: earlier one of the sequence has been right.
EXCHANGED_PAIRS = 2

#: Why rows are not learnt from a pair that may be rejected.
EXCHANGED = 'the images seem to be exchanged'

#: Pairs in the estimate with which a drift is compared.
SETTLED_PAIRS = 5

#: Seconds from one look at the pixels of a result to the next.
LOOK_INTERVAL_S = 0.5

#: Seconds after the latest pair that shows rows from which they are unknown.
UNKNOWN_S = 3.0


@dataclasses.dataclass(frozen=True)
class Pair:
    """A pair to be observed; nobody may write into its images from then on.

    config:        how it is matched; the pair keeps the effective one of its calibration.
    calibration:   of the rectified images; None: not known.
    rectification: of raw images.
    time_s:        its stamp, seconds; None: it follows no other.
    apart_s:       by how much the stamps of its images differ, seconds.
    """

    left: RawImage
    right: RawImage
    config: MatcherConfig
    calibration: Calibration | None = None
    rectification: Rectification | None = None
    time_s: float | None = None
    apart_s: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, 'config', geometry.effective(self.config, self.calibration))

    @property
    def camera(self) -> _Camera:
        return _Camera(*geometry.rectified_size(self.config, self.left.width, self.left.height),
                       self.calibration, self.rectification)


class _Camera(NamedTuple):
    """Of which pairs an estimate is: it begins anew with another one."""

    width: int
    height: int
    calibration: Calibration | None
    rectification: Rectification | None


class Observation(NamedTuple):
    """What is known of a pair before it is matched.

    issues:     without those that ``ignored_checks`` names.
    correction: of the right image; None: none.
    corrected_px: its maximum anywhere in the image, pixels.
    rows:       what is known of the rows once the pair was looked at.
    begins:     whether it begins a sequence.
    """

    issues: list[Issue]
    correction: RowCorrection | None
    corrected_px: float
    rows: RowState
    begins: bool


class Sequence:
    """What the pairs of one camera have shown since the first one."""

    def __init__(self, camera: _Camera, limit: float, yaw: YawTracker) -> None:
        self.camera = camera
        self.rows = RowEstimator.of_camera(camera.width, camera.height, camera.calibration,
                                           limit=limit)
        self.yaw = yaw
        self.frozen = checks.FrozenCameras()
        #: Of the rows once they had settled; None before.
        self.reference: RowCorrection | None = None
        self.latest_s: float | None = None
        self.measured_s = -math.inf
        self.exchanged: list[Issue] = []
        self.exchanged_pairs = 0
        self.was_right = False
        self.of_bytes: list[Issue] = []
        self.of_rows: list[Issue] = []
        self.of_yaw: list[Issue] = []
        self.frames = frame_checks.FrameChecks()
        #: Of the result that was looked at last.
        self.quality: frame_checks.FrameQuality | None = None
        self.looked_s = -math.inf
        self.of_frames: list[Issue] = []

    @property
    def is_known(self) -> bool:
        """Whether a pair has shown rows lately."""
        seen_s = self.rows.state.measured_s
        return seen_s is not None and self.measured_s - seen_s < UNKNOWN_S

    @property
    def issues(self) -> list[Issue]:
        """Issues of the latest measurement."""
        return [*self.of_bytes, *self.of_rows, *self.of_yaw]

    @property
    def rejections(self) -> list[Issue]:
        """Why its pairs have to be rejected."""
        needed = EXCHANGED_PAIRS if self.was_right else 1
        return self.exchanged if self.exchanged_pairs >= needed else []


class PairObserver:
    """Follows the pairs of a stereo camera; for any number of threads.

    ``observe`` measures what is due before a pair is matched, some 100 ms once a second. Where a
    frame must not wait, ``correction`` and ``rejections`` return what is known, ``offer`` leaves a
    pair, and ``measure`` measures it in another thread.

    :param max_vertical_offset: maximum median vertical disparity without an issue, pixels; 0: no
        issue, and only what ``row_correction`` asks for is measured.
    :param interval_s: from one measurement of rows to the next, seconds; 0: all is measured in
        every pair.
    :param max_gap_s: a pair that comes later after the one before begins a new sequence, seconds.
    :param window_s: how long a measurement of the yaw counts, seconds.
    """

    def __init__(self, max_vertical_offset: float = checks.MAX_VERTICAL_OFFSET, *,
                 interval_s: float = 1.0, max_gap_s: float = 10.0, window_s: float = WINDOW_S
                 ) -> None:
        self.max_vertical_offset = max_vertical_offset
        self._interval_s, self._max_gap_s, self._window_s = interval_s, max_gap_s, window_s
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget everything: the next pair begins a sequence."""
        with self._lock:
            self.sequence: Sequence | None = None
            self._offered: tuple[Sequence, Pair] | None = None
            self._greys = _RectifiedGreys()

    # Before a frame

    def observe(self, pair: Pair, *, measures: bool = True) -> Observation:
        """Look at a pair; once for every pair, in their order.

        A pair without a stamp, and the first of a sequence, is measured by itself and corrected
        by what it shows; later ones by what those before them have shown.

        :param measures: whether what is due is measured here, before the pair is matched.
        :raises InputError: the images are exchanged.
        """
        sequence, begins = self._follow(pair)
        correction = None if begins else _correction_of(sequence, pair)
        found = self.examine(pair)
        if measures and self.is_due(pair):
            self._measure(sequence, pair)
        if begins:
            correction = _correction_of(sequence, pair)
        found += checks.enforce([*sequence.rejections, *sequence.issues], pair.config)
        corrected_px = 0.0 if correction is None else correction.max_offset(
            sequence.camera.width, sequence.camera.height)
        return Observation(found, correction, corrected_px, sequence.rows.state, begins)

    def examine(self, pair: Pair) -> list[Issue]:
        """What two images show without being compared by their content, and since when they do
        not change; about 0.1 ms. They must stay unchanged until the next pair."""
        found = checks.examine_images(pair.left, pair.right, pair.config)
        if pair.time_s is not None:
            sequence, _ = self._follow(pair)
            found += sequence.frozen.examine(pair.left, pair.right, round(1e9 * pair.time_s))
        return checks.enforce(found, pair.config)

    def pass_by(self, pair: Pair) -> None:
        """Keep the images of a pair that is not examined; they must stay unchanged, too."""
        if self.sequence is not None and self.sequence.camera == pair.camera:
            self.sequence.frozen.pass_by(pair.left, pair.right)

    def correction(self, pair: Pair) -> RowCorrection | None:
        """The correction of the right image by what is known already; None: none."""
        sequence = self.sequence
        if sequence is None or sequence.camera != pair.camera:
            return None
        return _correction_of(sequence, pair)

    def rejections(self) -> list[Issue]:
        """Why pairs have to be rejected by what was measured."""
        sequence = self.sequence
        return [] if sequence is None else sequence.rejections

    # After a frame

    def look_is_due(self, pair: Pair) -> bool:
        """Whether a result of a pair is to be looked at: two a second of the stamps."""
        sequence = self.sequence
        return (sequence is None or sequence.camera != pair.camera or pair.time_s is None
                or not self._interval_s
                or not 0 <= pair.time_s - sequence.looked_s < LOOK_INTERVAL_S - 1e-6)

    def judge(self, pair: Pair, frame: DisparityFrame, issues: list[Issue],
              min_valid_fraction: float = frame_checks.MIN_VALID_FRACTION) -> list[Issue]:
        """What the result of the pair that was examined last shows where a look at it is due, and
        what the latest look has shown where none is.

        :param issues: of the pair; they may explain what its pixels show.
        """
        sequence = self.sequence
        if sequence is None:            # cleared in the meantime
            return []
        if self.look_is_due(pair):
            sequence.looked_s = pair.time_s or 0.0
            sequence.quality = frame_checks.frame_quality(frame, pair.config, pair.calibration)
            sequence.of_frames = checks.enforce(sequence.frames.update(
                sequence.quality, min_valid_fraction,
                is_explained=any(one.code in frame_checks.CAUSES
                                 for one in (*issues, *sequence.of_bytes))), pair.config)
        return sequence.of_frames

    # In another thread than frames

    def is_due(self, pair: Pair) -> bool:
        """Whether a pair is to be measured."""
        sequence = self.sequence
        return sequence is None or self._rows_are_due(sequence, pair) or (
            self._yaw_is_due(sequence, pair))

    def offer(self, pair: Pair) -> None:
        """Leave a pair to be measured; a later one takes its place."""
        sequence, _ = self._follow(pair)
        with self._lock:
            self._offered = sequence, pair

    def measure(self) -> bool:
        """Measure the pair that was left last; returns whether there was a new one."""
        with self._lock:
            offered, self._offered = self._offered, None
        if offered is None:
            return False
        self._measure(*offered)
        return True

    @property
    def issues(self) -> list[Issue]:
        """Issues of the latest measurement."""
        sequence = self.sequence
        return [] if sequence is None else sequence.issues

    # What is known

    @property
    def rows(self) -> RowState:
        """What is known of the rows."""
        sequence = self.sequence
        return RowState() if sequence is None else sequence.rows.state

    @property
    def target(self) -> RowCorrection | None:
        """What a new calibration of the right camera would have to change; None: nothing known.
        """
        sequence = self.sequence
        return None if sequence is None else sequence.rows.target

    @property
    def quality(self) -> frame_checks.FrameQuality | None:
        """Of the result that was looked at last; None before the first."""
        sequence = self.sequence
        return None if sequence is None else sequence.quality

    @property
    def yaw(self) -> CalibrationHistory | None:
        """What was measured of the yaw; None before the first pair."""
        sequence = self.sequence
        return None if sequence is None else sequence.yaw.history

    def _follow(self, pair: Pair) -> tuple[Sequence, bool]:
        """The sequence of a pair, and whether it begins it."""
        camera, time_s = pair.camera, pair.time_s
        with self._lock:
            known = self.sequence
            follows = (known is not None and known.camera == camera and time_s is not None
                       and known.latest_s is not None
                       and 0 <= time_s - known.latest_s <= self._max_gap_s)
            if not follows:
                self.sequence = Sequence(camera, pair.config.row_correction_limit, YawTracker(
                    self._window_s, is_chain=not self._interval_s))
            assert self.sequence is not None
            self.sequence.latest_s = time_s
            self.sequence.rows.limit = pair.config.row_correction_limit
            return self.sequence, not follows

    def _rows_are_due(self, sequence: Sequence, pair: Pair) -> bool:
        return (sequence.rows.wants_pair or bool(sequence.exchanged)
                or (pair.time_s or 0.0) - sequence.measured_s >= self._interval_s - 1e-6)

    def _yaw_is_due(self, sequence: Sequence, pair: Pair) -> bool:
        return (pair.time_s is not None and pair.calibration is not None
                and pair.apart_s <= MAX_APART_S
                and (not self._interval_s or sequence.yaw.is_due(pair.time_s)))

    def _measure(self, sequence: Sequence, pair: Pair) -> None:
        """Measure what is due."""
        config = pair.config
        left, right = (self._greys.of(side, image, config, pair.rectification)
                       for side, image in zip(SIDES, (pair.left, pair.right), strict=True))
        if self._rows_are_due(sequence, pair):
            self._measure_rows(sequence, pair, left, right)
        if self._yaw_is_due(sequence, pair):
            assert pair.calibration is not None
            assert pair.time_s is not None
            correction = sequence.rows.target if config.row_correction == 'correct' else None
            sequence.of_yaw = checks.enforce(sequence.yaw.add(
                left, apply_correction(right, correction), pair.calibration, config.max_disparity,
                pair.time_s), config)

    def _measure_rows(self, sequence: Sequence, pair: Pair, left: np.ndarray, right: np.ndarray
                      ) -> None:
        """Whether the images are exchanged, and the rows.

        left, right: uint8 H x W, rectified.
        """
        config, time_s = pair.config, pair.time_s or 0.0
        sequence.measured_s = time_s
        is_of_one_moment = pair.apart_s <= MAX_APART_S
        asks_for_rows = bool(self.max_vertical_offset) or config.row_correction != 'off'
        points = np.zeros((0, 3))
        sequence.of_bytes = checks.enforce(
            byte_checks.check_bytes(pair.left, pair.right), config)
        if sequence.of_bytes:           # what such images show is no cause of its own
            sequence.exchanged, sequence.exchanged_pairs, sequence.of_rows = [], 0, []
            return
        if asks_for_rows and is_of_one_moment:
            points = row_points(left, right, config.min_disparity, config.max_disparity)
        is_confident = len(points) >= CONFIDENT_POINTS
        exchanged = [] if is_confident else checks.check_exchanged(left, right, config)
        shows_rows = False
        if not asks_for_rows:
            sequence.rows.clear()
            sequence.reference = None
        else:
            reject_reason = EXCHANGED if exchanged else '' if is_of_one_moment else (
                f'the images of a pair are {1e3 * pair.apart_s:.1f} ms apart')
            state = (sequence.rows.skip(reject_reason) if reject_reason
                     else sequence.rows.add(points, time_s))
            shows_rows = not reject_reason and state.reason not in (NO_TEXTURE, CONTRADICTION)
            if sequence.reference is None and state.pairs >= SETTLED_PAIRS:
                sequence.reference = state.estimate
        if is_confident and not shows_rows:
            exchanged = checks.check_exchanged(left, right, config)
        sequence.exchanged = exchanged
        sequence.exchanged_pairs = sequence.exchanged_pairs + 1 if exchanged else 0
        sequence.was_right = sequence.was_right or not exchanged
        sequence.of_rows = checks.enforce(self._row_issues(sequence, pair, shows_rows), config)

    def _row_issues(self, sequence: Sequence, pair: Pair, shows_rows: bool) -> list[Issue]:
        """What the rows say of the calibration."""
        limit = self.max_vertical_offset
        if not limit:
            return []
        state, config = sequence.rows.state, pair.config
        is_corrected = config.row_correction == 'correct'
        found = [] if not sequence.is_known else checks.check_vertical_offset(
            state, limit, is_corrected, sequence.rows.target if is_corrected else None,
            sequence.reference, sequence.camera.width, sequence.camera.height)
        if pair.rectification is not None and pair.apart_s <= MAX_APART_S and (
                not shows_rows or found):
            raw = RowEstimator(pair.left.width, pair.left.height).add(row_points(
                to_8_bits(pair.left, config.mono16_scale),
                to_8_bits(pair.right, config.mono16_scale),
                config.min_disparity, config.max_disparity), 0.0)
            found += checks.check_rectified_once(
                None if raw.estimate is None else raw.typical(), limit)
        return found


def _correction_of(sequence: Sequence, pair: Pair) -> RowCorrection | None:
    if pair.config.row_correction != 'correct':
        return None
    return sequence.rows.correction(pair.time_s or 0.0)


class _RectifiedGreys:
    """Images as rectified grey values; the maps of the latest rectification are kept."""

    def __init__(self) -> None:
        self._maps: tuple[Rectification, dict[str, Maps]] | None = None

    def of(self, side: str, image: RawImage, config: MatcherConfig,
           rectification: Rectification | None) -> np.ndarray:
        """uint8 H x W.

        :param rectification: of raw images.
        """
        grey = to_8_bits(image, config.mono16_scale)
        if rectification is None:
            return grey
        maps = self._maps
        if maps is None or maps[0] != rectification:
            maps = self._maps = rectification, {
                side: rectification.maps(side) for side in SIDES}
        return cv2.remap(grey, *maps[1][side], cv2.INTER_LINEAR)
