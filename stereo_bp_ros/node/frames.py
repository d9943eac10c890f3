"""One pair's way through the worker: checked, matched, published, or dropped for a reason."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Rectification, rectified_info
from stereo_bp_ros.cameras.row_correction import RowCorrection, corrected_info
from stereo_bp_ros.checks import checks
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.errors import (
    DeviceLostError,
    InputError,
    MemoryLimitError,
    StereoError,
    described,
    quoted,
    reason_of,
)
from stereo_bp_ros.frame.disparity_frame import DisparityFrame
from stereo_bp_ros.images.raw_images import RawImage, check_pair
from stereo_bp_ros.issues import Issue, IssueCode
from stereo_bp_ros.node import input_images
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.node.diagnostics.ledger import Ledger, PairDrop
from stereo_bp_ros.node.diagnostics.monitors import FrameLatency, LatencyWindow
from stereo_bp_ros.node.diagnostics.rows import OVER_TIME, hold_issues
from stereo_bp_ros.node.input_images import calibrate
from stereo_bp_ros.node.matcher_host import MatcherHost
from stereo_bp_ros.node.pairing import Generation, StereoPair
from stereo_bp_ros.stream.observer import Pair, PairObserver

#: Stamps may be this far ahead of the node's clock, seconds: clocks of two machines differ.
FUTURE_TOLERANCE = 0.1


class Result(NamedTuple):
    """What messages are filled from, beside the outputs that are in them already.

    stamp:       of the left image.
    camera_info: of the reference camera: as it came, or of its rectified images.
    calibration: of both cameras.
    frame:       what was computed; its arrays are those of the messages.
    settings:    of the node.
    camera_x:    of the reference camera in its frame, metres: the baseline of a right camera whose
                 ``camera_info`` is in the left camera's frame, else 0.
    """

    stamp: Any
    camera_info: Any
    calibration: Calibration
    frame: DisparityFrame
    settings: NodeConfig
    camera_x: float = 0.0

    @property
    def frame_id(self) -> str:
        """The coordinate frame of every output."""
        return str(self.camera_info.header.frame_id)


class Outputs(Protocol):
    """Where results go: ``publishing.OutputPublishers``, which needs ROS, but in tests."""

    def wanted(self) -> tuple[str, ...]: ...

    def buffers(self, topics: tuple[str, ...], width: int, height: int, decimation: int = 1
                ) -> dict[str, np.ndarray]: ...

    def publish(self, topics: tuple[str, ...], result: Result) -> None: ...

    def publish_corrected_info(self, info: Any) -> None: ...

    def publish_latency(self, stamp: Any, latency: FrameLatency) -> None: ...


class _Calibrated(NamedTuple):
    calibration: Calibration
    rectification: Rectification | None
    issues: list[Issue]


class _Drop(NamedTuple):
    """Why a pair is dropped, and what is to be said of it once it is counted."""

    reason: PairDrop
    code: IssueCode | None = None
    tell: Callable[[], None] | None = None


@dataclasses.dataclass
class _Inputs:
    pair: Pair
    calibration: Calibration
    camera_info: Any
    correction: RowCorrection | None = None
    issues: list[Issue] | None = None


class FrameProcessor:
    """Takes pairs from the mailbox to the publishers; runs in the worker's thread only.

    ``settings`` may be replaced from any thread at any time.

    :param observer: is given the images of a frame now and then.
    :param measures_inline: whether frames wait for what it measures.
    :param now_ns: the node's clock, nanoseconds; 0 = not known yet (sim time without /clock).
    :param on_device_loss: is notified of a lost device when the node is to exit.
    :param choose: what images of a size are matched with, where the host waits for the first one.
    """

    def __init__(self, *, matcher_host: MatcherHost, outputs: Outputs, ledger: Ledger,
                 generation: Generation, latencies: LatencyWindow, issues: IssueLog,
                 observer: PairObserver, settings: NodeConfig, now_ns: Callable[[], int],
                 on_device_loss: Callable[[str], None], measures_inline: bool = False,
                 choose: Callable[[int, int], MatcherConfig] | None = None) -> None:
        self.settings = settings
        self._matcher_host = matcher_host
        self._outputs = outputs
        self._ledger = ledger
        self._generation = generation
        self._latencies = latencies
        self._issues = issues
        self._observer = observer
        self._measures_inline = measures_inline
        self._now_ns = now_ns
        self._on_device_loss = on_device_loss
        self._choose = choose
        self._last_stamp_ns = 0
        self._generation_number = -1
        self._quality: list[Issue] = []
        self._target: RowCorrection | None = None
        self._calibrated_from: tuple[Any, ...] = ()
        self._calibrated: _Calibrated

    def process(self, pair: StereoPair) -> None:
        """Match and publish one pair, or drop it for a reason; never raises."""
        add = self._issues.add
        try:
            drop = self._process(pair)
        except InputError as error:
            drop = _Drop(PairDrop.BAD_INPUT, error.code, functools.partial(
                add, error.code, f'bad input: {error}'))
        except MemoryLimitError as error:
            drop = _Drop(PairDrop.BAD_INPUT, IssueCode.TOO_LARGE, functools.partial(
                add, IssueCode.TOO_LARGE, f'bad input: {IssueCode.TOO_LARGE}: {error}'))
        except DeviceLostError as error:
            self._device_lost(error)        # another engine is built, and the pair held until then
            drop = _Drop(PairDrop.ENGINE_ERROR)
        except StereoError as error:
            drop = _Drop(PairDrop.ENGINE_ERROR, tell=functools.partial(
                add, IssueCode.ENGINE, reason_of(error)))
        except Exception as error:
            drop = _Drop(PairDrop.ENGINE_ERROR, tell=functools.partial(
                add, IssueCode.ENGINE, f'matching failed: {described(error)}',
                detail=traceback.format_exc()))
        if drop is None:
            self._ledger.count('published')
            return
        # In this order: no report has the words without the count.
        self._ledger.drop_pair(drop.reason, drop.code)
        if drop.tell is not None:
            drop.tell()

    def _process(self, pair: StereoPair) -> _Drop | None:
        ended = self._generation.ended(pair.generation)
        if ended is not None:
            return _Drop(ended)
        topics = self._outputs.wanted()
        if not topics:
            return _Drop(PairDrop.NO_SUBSCRIBERS)
        refused = self._untimely(pair)
        if refused is not None:
            return refused
        if (waiting := self._matcher_host.waiting) is not None and self._choose is not None:
            left, _ = self._images(pair, waiting)
            self._begin(pair, self._choose(left.width, left.height), left.width, left.height)
        config = self._matcher_host.config
        if config is None:
            raise RuntimeError('there is no matcher: the node is not configured')

        start = time.perf_counter()
        ready = self._inputs(pair, config)
        left, right, rectification = (
            ready.pair.left, ready.pair.right, ready.pair.rectification)
        buffers = self._outputs.buffers(
            topics, *geometry.rectified_size(config, left.width, left.height),
            config.points_decimation)
        converted = time.perf_counter()
        self._matcher_host.prepare(left.width, left.height, ready.calibration)
        prepared = time.perf_counter()
        frame = self._matcher_host.compute(
            left, right, ready.calibration, buffers, rectification, ready.correction)
        computed = time.perf_counter()

        if self.settings.max_latency and self._age(pair) > self.settings.max_latency:
            return _Drop(PairDrop.LATE)
        stamp = pair.left.header.stamp
        with self._generation.gate(pair.generation) as ended:
            if ended is not None:
                return _Drop(ended)
            info = ready.camera_info
            if rectification is not None:
                info = rectified_info(info, rectification, config.reference_image)
            self._outputs.publish(topics, Result(stamp, info, ready.calibration,
                                                 frame, self.settings,
                                                 _camera_x(pair, ready)))
            published = time.perf_counter()
            self._last_stamp_ns = pair.stamp_ns
            # Around the engine's own stages lies a little of Python: it belongs to convert.
            # Building an engine for a new size is waiting, from the frame's point of view.
            inside = sum(frame.timings.values()) * 1e-3
            around = converted - start + max(0.0, computed - prepared - inside)
            stages = {**frame.timings,
                      'receive': 1e3 * (pair.entered - pair.received),
                      'pair': 1e3 * (pair.complete - pair.entered),
                      'wait': 1e3 * (start - pair.complete + prepared - converted),
                      'convert': frame.timings.get('convert', 0.0) + 1e3 * around,
                      'publish': 1e3 * (published - computed)}
            with self._after_publishing():
                latency = FrameLatency(stages, 1e3 * (published - pair.received),
                                       1e3 * self._age(pair))
                self._outputs.publish_latency(stamp, latency)
                self._latencies.add(latency.total)
        with self._after_publishing():
            self._tell_target(pair, config)
            self._judge(pair, ready, frame)
        return None

    def _begin(self, pair: StereoPair, config: MatcherConfig, width: int, height: int) -> None:
        """Build the first matcher, before there are buffers, which a device is to write directly.
        """
        self._matcher_host.begin(config)
        self._matcher_host.prepare(width, height, self._calibrate(pair, config).calibration)

    @contextlib.contextmanager
    def _after_publishing(self) -> Iterator[None]:
        """What fails in here makes no result undone: the pair counts as published."""
        try:
            yield
        except Exception as error:
            self._issues.add(IssueCode.ENGINE, f'after publishing: {described(error)}',
                             detail=traceback.format_exc())

    def _untimely(self, pair: StereoPair) -> _Drop | None:
        age, limit = self._age(pair), self.settings.max_input_age
        if age < -FUTURE_TOLERANCE:
            return _Drop(PairDrop.FUTURE, tell=functools.partial(
                self._issues.add, IssueCode.AGE, f'stamps are {-age:.3f} s ahead of this clock: '
                'pairs are dropped as future; are the clocks synchronised, and is use_sim_time '
                'right?'))
        if limit and age > limit:
            return _Drop(PairDrop.STALE, tell=functools.partial(
                self._issues.add, IssueCode.AGE, f'a pair is {age:.3f} s old, max_input_age '
                f'allows {limit:g} s: pairs are dropped as stale; a bag needs --clock and '
                'use_sim_time, or max_input_age 0'))
        if self._generation_number != pair.generation:
            self._generation_number = pair.generation
            self._last_stamp_ns = 0
        if pair.stamp_ns <= self._last_stamp_ns:
            return _Drop(PairDrop.NOT_NEWER)
        return None

    def _age(self, pair: StereoPair) -> float:
        """Seconds; 0 while the clock is not known."""
        now = self._now_ns()
        return (now - pair.stamp_ns) * 1e-9 if now else 0.0

    def _inputs(self, pair: StereoPair, config: MatcherConfig) -> _Inputs:
        calibration, rectification, issues = self._calibrate(pair, config)
        self._issues.replace('calibration', checks.enforce(issues, config))
        left, right = self._images(pair, config)
        observed = Pair(left, right, config, calibration, rectification, 1e-9 * pair.stamp_ns,
                        1e-9 * abs(pair.right_stamp_ns - pair.stamp_ns))
        ready = _Inputs(observed, calibration,
                        pair.left_info if config.reference_image == 'left' else pair.right_info)
        if self._measures_inline:
            seen = self._observer.observe(observed)
            ready.correction, ready.issues = seen.correction, seen.issues
            hold_issues(self._issues, self._observer)
            return ready
        rejected = self._observer.rejections()
        if rejected:
            # So that it ends with its cause: what is rejected is not judged any more.
            self._observer.offer(observed)
            checks.enforce(rejected, config)
        ready.correction = self._observer.correction(observed)
        return ready

    def _images(self, pair: StereoPair, config: MatcherConfig) -> tuple[RawImage, RawImage]:
        left, right = input_images.images_of_pair(pair.left, pair.right, config, self.settings)
        check_pair(left, right, config.max_image_width, config.max_image_height)
        checks.check_image_size('left', pair.left_info, left.width, left.height)
        checks.check_image_size('right', pair.right_info, right.width, right.height)
        return left, right

    def _calibrate(self, pair: StereoPair, config: MatcherConfig) -> _Calibrated:
        source = pair.left_info, pair.right_info, config
        # Compared by identity: equal messages come here as one.
        if not self._calibrated_from or any(
                new is not old for new, old in zip(source, self._calibrated_from, strict=True)):
            self._calibrated_from = ()      # in case what follows is rejected
            calibration, rectification = calibrate(*source)
            self._calibrated = _Calibrated(calibration, rectification, checks.examine_calibration(
                calibration, calibration.width, calibration.height))
            self._calibrated_from = source
        return self._calibrated

    def _tell_target(self, pair: StereoPair, config: MatcherConfig) -> None:
        """Publish what the right camera_info would have to be, where that has changed."""
        target = self._observer.target if config.row_correction != 'off' else None
        if target != self._target:
            self._target = target
            info = pair.right_info
            self._outputs.publish_corrected_info(corrected_info(info, target) if target else info)

    def _judge(self, pair: StereoPair, ready: _Inputs, frame: DisparityFrame) -> None:
        """Look at images and result after they are out, where it delays nothing."""
        observed, observer = ready.pair, self._observer
        if not self._measures_inline and observer.is_due(observed):
            observer.offer(observed)
        if not self._measures_inline and not observer.look_is_due(observed):
            observer.pass_by(observed)
            self._issues.replace('quality', self._quality)
            return
        issues = observer.examine(observed) if ready.issues is None else [
            one for one in ready.issues if one.code not in OVER_TIME]
        issues += observer.judge(observed, frame, issues, self.settings.min_valid_fraction)
        for side, message, info in (('left', pair.left, pair.left_info),
                                    ('right', pair.right, pair.right_info)):
            # Only the reference's frame is published: the other may be that of the stereo pair.
            if side != observed.config.reference_image:
                continue
            unusable = checks.check_frame_id(side, info.header.frame_id)
            self._issues.hold(IssueCode.FRAME_ID, *(one.text for one in unusable), place=side)
            if not unusable and message.header.frame_id != info.header.frame_id:
                issues.append(IssueCode.FRAME_ID.issue(
                    f'the {side} image is of frame {quoted(message.header.frame_id)}, its '
                    f'camera_info of frame {quoted(info.header.frame_id)}: the latter is '
                    'published'))
        self._quality = issues
        self._issues.replace('quality', issues)

    def _device_lost(self, error: DeviceLostError) -> None:
        lost = reason_of(error)
        if self.settings.on_device_loss == 'exit':
            self._issues.hold(IssueCode.DEVICE, f'device lost: {lost}')
            self._matcher_host.abandon()
            self._on_device_loss(lost)
            return
        try:
            self._matcher_host.fall_back_to_cpu(error)
            self._issues.hold(IssueCode.DEVICE, self._matcher_host.lost)
        except Exception as failure:
            text = f'device lost: {lost}; the CPU cannot go on: {reason_of(failure)}'
            self._issues.hold(IssueCode.DEVICE, text)
            self._on_device_loss(text)


def _camera_x(pair: StereoPair, ready: _Inputs) -> float:
    is_right = ready.camera_info is pair.right_info
    is_lefts = pair.left_info.header.frame_id == pair.right_info.header.frame_id
    return ready.calibration.baseline_m if is_right and is_lefts else 0.0
