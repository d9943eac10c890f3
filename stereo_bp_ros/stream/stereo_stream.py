"""StereoStream: the pairs of one stereo camera in, disparity frames and what is wrong out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration, calibration_of
from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.checks import checks
from stereo_bp_ros.config.arguments import choice_of, seconds_of
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.errors import InputError, shown
from stereo_bp_ros.frame.disparity_frame import DisparityFrame
from stereo_bp_ros.images import device_arrays
from stereo_bp_ros.images.raw_images import RawImage, check_pair, image_of
from stereo_bp_ros.issues import Issue, IssueCode
from stereo_bp_ros.matcher.stereo_matcher import Image, StereoMatcher, config_of
from stereo_bp_ros.system.atomic_files import PathLike

if TYPE_CHECKING:
    # Importing the package is quick without OpenCV.
    from stereo_bp_ros.cameras.row_estimator import RowState
    from stereo_bp_ros.stream.observer import Observation, Pair

#: When rows and yaw are measured: before a pair is matched, or in another thread.
MEASURING = 'inline', 'background'


class StreamResult(NamedTuple):
    """What became of a pair.

    frame:        the matcher's.
    issues:       of the pair, its calibration, its camera and the frame; empty
                  when all is well.
    corrected_px: maximum correction of rows in the right image, pixels.
    """

    frame: DisparityFrame
    issues: list[Issue]
    corrected_px: float


class StereoStream:
    """Follows the pairs of one stereo camera: checks them, corrects their rows, matches them.

    It is what the node and ``stereo_bp evaluate`` do with the same pairs. A sequence begins anew
    where a stamp goes back or is missing, where more than 10 s lie between two pairs, and with
    another size or calibration. A pair without a stamp, and the first of a sequence, is measured
    by itself; later ones are corrected by what came before. So are frames judged: by themselves,
    and then twice a second over several looks. One thread at a time may use it.

        with StereoStream('road', calibration='left.yaml') as stream:
            for left, right, stamp in pairs:
                result = stream.add(left, right, stamp=stamp)

    :param config: as ``StereoMatcher`` takes it: the name of a preset, or a configuration. None:
        'auto', chosen among those for roads by the size of the first pair.
    :param calibration: of rectified images, or a file that ``Calibration.from_file`` reads, or a
        ``Rectification`` of raw ones; None: not known.
    :param measuring: 'inline': some 100 ms once a second of the stamps; 'background': in another
        thread, so that no frame waits and the first ones are not corrected.
    :param settings: of ``MatcherConfig``; they win over the preset's.
    :raises ConfigError: an unknown preset or setting, or a rejected value.
    :raises BackendUnavailable: the back end cannot run here.
    """

    def __init__(self, config: MatcherConfig | str | None = None, *,
                 calibration: Calibration | Rectification | PathLike | None = None,
                 measuring: str = 'inline', **settings: Any) -> None:
        # Not above: importing the package is quick without OpenCV.
        from stereo_bp_ros.stream.observer import PairObserver
        choice_of('measuring', measuring, MEASURING)
        self._rectification = calibration if isinstance(calibration, Rectification) else None
        self._calibration = (calibration.calibration if isinstance(calibration, Rectification)
                             else calibration_of(calibration))
        if self._rectification is not None:
            settings = {'rectify': True, **settings}
        self._matcher = StereoMatcher(config, **settings)
        self._observer = PairObserver()
        self._measuring = measuring
        self._thread = ThreadPoolExecutor(1, 'stereo_bp_observer')
        self._measured: Future[bool] | None = None
        self._pair: Pair | None = None
        self._issues: list[Issue] = []
        self._unjudged: DisparityFrame | None = None
        self._is_judged = False

    @property
    def matcher(self) -> StereoMatcher:
        """Matches the pairs."""
        return self._matcher

    @property
    def config(self) -> MatcherConfig:
        """As ``StereoMatcher.config``."""
        return self.matcher.config

    @property
    def rows(self) -> RowState:
        """What is known of the rows of the two images."""
        return self._observer.rows

    @property
    def issues(self) -> list[Issue]:
        """Issues of the pair that was observed last, and once it is matched about its
        frame, by a disparity or a depth of it."""
        if (frame := self._unjudged) is not None and not self._is_judged:
            assert self._pair is not None
            self._issues = self._issues + self._observer.judge(self._pair, frame, self._issues)
            self._unjudged, self._is_judged = None, True
        return self._issues

    def reconfigure(self, config: MatcherConfig | str) -> bool:
        """As ``StereoMatcher.reconfigure``; what is known of the camera stays."""
        return self.matcher.reconfigure(config, self._calibration)

    def clear(self) -> None:
        """Forget what earlier pairs have shown: the next one begins a sequence."""
        self._observer.clear()

    def add(self, left: Image, right: Image, *, stamp: float | None = None,
            calibration: Calibration | PathLike | None = None,
            outputs: Sequence[str] | str = ('disparity',),
            out: Mapping[str, Any] | None = None, encoding: str | None = None) -> StreamResult:
        """Observe the next pair, and match it.

        :param left, right, outputs, out, encoding: as ``StereoMatcher.compute`` takes them, on the
            host. The images must stay unchanged until the next pair.
        :param stamp: when the pair was taken, seconds of any clock; None: it follows no other.
        :param calibration: of this pair, or a path for ``Calibration.from_file``; None: that of
            the stream.
        :raises InputError: the pair, or its calibration, is rejected; no result could be right.
        :raises StereoError: as ``StereoMatcher.compute``.
        """
        seen = self.observe(left, right, stamp=stamp, calibration=calibration, encoding=encoding)
        frame = self.match(outputs=outputs, out=out)
        return StreamResult(frame, self.issues, seen.corrected_px)

    def observe(self, left: Image, right: Image, *, stamp: float | None = None,
                calibration: Calibration | PathLike | None = None,
                encoding: str | None = None) -> Observation:
        """What is known of the next pair; ``match`` matches it, and others may.

        As ``add``.
        """
        from stereo_bp_ros.stream.observer import Pair
        left, right = image_of('left', left, encoding), image_of('right', right, encoding)
        stamp = None if stamp is None else seconds_of('stamp', stamp)
        if device_arrays.among({'left': left.data, 'right': right.data}):
            raise InputError(IssueCode.BAD_ARRAY, 'an image is on a CUDA device',
                             'a stream looks at its pixels, too: copy it to the host, or use '
                             'StereoMatcher, which checks and corrects nothing over time')
        calibration = calibration_of(calibration) or self._calibration
        matcher = self._matcher
        matcher.choose_preset(left.width, left.height)
        config = matcher.config
        check_pair(left, right, config.max_image_width, config.max_image_height)
        checks.check_rectification(config, self._rectification, left.width, left.height)
        size = geometry.rectified_size(config, left.width, left.height)
        issues = checks.enforce(checks.examine_calibration(calibration, *size), config)
        self._pair = pair = Pair(left, right, config, calibration,
                                 self._rectification, stamp)
        seen = self._observer.observe(pair, measures=self._measuring == 'inline')
        if self._measuring == 'background' and self._observer.is_due(pair) and (
                self._measured is None or self._measured.done()):
            self._observer.offer(pair)
            self._measured = self._thread.submit(self._observer.measure)
        correction = seen.correction
        matcher.correct_rows(None if correction is None else correction.warp())
        seen = seen._replace(issues=issues + seen.issues)
        self._issues, self._unjudged, self._is_judged = seen.issues, None, False
        return seen

    def match(self, *, outputs: Sequence[str] | str = ('disparity',),
              out: Mapping[str, Any] | None = None) -> DisparityFrame:
        """Match the pair that was observed last; any number of times.

        :raises RuntimeError: none was.
        """
        if (pair := self._pair) is None:
            raise RuntimeError('no pair was observed yet')
        self._unjudged = self.matcher.compute(
            pair.left, pair.right, calibration=pair.calibration, rectification=pair.rectification,
            outputs=outputs, out=out)
        return self._unjudged

    def close(self) -> None:
        """Give all memory back; may be called twice."""
        self._thread.shutdown(wait=True)
        self._matcher.close()

    def __enter__(self) -> StereoStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def examine_pair(left: Image, right: Image, config: MatcherConfig | str,
                 calibration: Calibration | PathLike | None = None,
                 truth: np.ndarray | None = None) -> list[Issue]:
    """All checks of one rectified pair by itself, as ``StereoStream`` makes them; some 100 ms for
    1242 x 375.

    :param left, right: RawImage, or arrays as ``StereoMatcher.compute`` takes them.
    :param config: or the name of a preset: which range is searched, which checks are ignored, and
        whether rows are corrected.
    :param truth: float32 H x W, true disparities of the left image, pixels; not finite where
        unknown.
    :returns: issues; empty when all is well.
    :raises InputError: the pair is rejected; no result could be right.
    """
    from stereo_bp_ros.checks import truth_checks
    from stereo_bp_ros.stream.observer import Pair, PairObserver
    left, right = image_of('left', left), image_of('right', right)
    config = config_of(config, (left.width, left.height), {})
    calibration = calibration_of(calibration)
    check_pair(left, right, config.max_image_width, config.max_image_height)
    found = checks.examine_calibration(calibration, left.width, left.height)
    seen = PairObserver().observe(Pair(left, right, config, calibration))
    if truth is not None:
        found += truth_checks.examine_truth(
            left, right, _truth_of(truth, left), config, seen.issues)
    return checks.enforce(found, config) + seen.issues


def _truth_of(truth: np.ndarray, left: RawImage) -> np.ndarray:
    """float32 H x W.

    :raises InputError: bad array.
    """
    try:
        found = np.asarray(truth, np.float32)
    except (TypeError, ValueError):
        found = np.empty((), np.float32)
    if found.shape != (left.height, left.width):
        raise InputError(IssueCode.BAD_ARRAY, f'truth is {shown(truth)}',
                         f'it must be float32 {left.height} x {left.width}, as the images')
    return found
