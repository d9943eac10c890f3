"""One pair's way through the worker: checked, matched, published, or dropped for a reason."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from stereo_bp_ros.camera import Calibration, check_image_size, rectification_warnings
from stereo_bp_ros.config import MatcherConfig, NodeConfig
from stereo_bp_ros.errors import (
    DeviceLostError,
    InputError,
    InputReason,
    MemoryLimitError,
    StereoError,
    described,
    quoted,
)
from stereo_bp_ros.images import RawImage, check_pair
from stereo_bp_ros.node import input_images
from stereo_bp_ros.node.diagnostics.conditions import Conditions, Level
from stereo_bp_ros.node.diagnostics.latency import FrameLatency, LatencyWindow
from stereo_bp_ros.node.diagnostics.ledger import Ledger, PairDrop
from stereo_bp_ros.node.generation import Generation
from stereo_bp_ros.node.matcher_host import MatcherHost
from stereo_bp_ros.node.pairing import StereoPair
from stereo_bp_ros.types import DisparityFrame

#: Stamps may be this far ahead of the node's clock, seconds: clocks of two machines differ.
FUTURE_TOLERANCE = 0.1

#: Seconds between two looks at whether the images are fit for matching.
QUALITY_INTERVAL = 0.5


class Outputs(Protocol):
    """Where results go: ``publishing.OutputPublishers`` but in tests."""

    def wanted(self) -> tuple[str, ...]:
        """The outputs that somebody subscribes to."""

    def buffers(self, names: tuple[str, ...], width: int, height: int) -> dict[str, np.ndarray]:
        """The arrays that these outputs are to be written into."""

    def publish(self, names: tuple[str, ...], stamp: Any, frame_id: str,
                calibration: Calibration, frame: DisparityFrame) -> None:
        """Publish the filled arrays."""

    def publish_latency(self, stamp: Any, backend: str, latency: FrameLatency) -> None:
        """Publish the frame's latency."""


@dataclasses.dataclass
class _Inputs:
    left: RawImage
    right: RawImage
    calibration: Calibration
    frame_id: str


class FrameProcessor:
    """Takes pairs from the mailbox to the publishers; runs in the worker's thread only.

    ``settings`` may be replaced from any thread at any time.

    :param now_ns: the node's clock, nanoseconds; 0 = not known yet (sim time without /clock).
    :param on_device_loss: is told of a lost device when the node is to exit.
    """

    def __init__(self, *, matcher_host: MatcherHost, outputs: Outputs, ledger: Ledger,
                 generation: Generation, latencies: LatencyWindow, conditions: Conditions,
                 settings: NodeConfig, now_ns: Callable[[], int],
                 on_device_loss: Callable[[str], None]) -> None:
        self.settings = settings
        self._matcher_host = matcher_host
        self._outputs = outputs
        self._ledger = ledger
        self._generation = generation
        self._latencies = latencies
        self._conditions = conditions
        self._now_ns = now_ns
        self._on_device_loss = on_device_loss
        self._last_stamp_ns = 0
        self._clock_epoch = 0
        self._quality_at = 0.0
        self._doubts: list[str] = []
        self._calibrated: tuple[Any, Any, Calibration] | None = None

    def process(self, pair: StereoPair) -> None:
        """Match and publish one pair, or drop it for a reason; never raises."""
        reason = PairDrop.ENGINE_ERROR
        input_reason = None
        try:
            done = self._process(pair)
        except InputError as error:
            reason, input_reason = PairDrop.BAD_INPUT, error.reason
            self._conditions.error('input', f'bad input: {error}')
        except MemoryLimitError as error:
            reason, input_reason = PairDrop.BAD_INPUT, InputReason.TOO_LARGE
            self._conditions.error('input', f'bad input: {input_reason}: {error}')
        except DeviceLostError as error:
            self._device_lost(error)
        except StereoError as error:
            self._conditions.error('engine', str(error))
        except Exception as error:
            self._conditions.error('engine', f'matching failed: {described(error)}',
                                 detail=traceback.format_exc())
        else:
            if done is None:
                self._ledger.publish()
                return
            reason = done
        self._ledger.drop_pair(reason, input_reason)

    def _process(self, pair: StereoPair) -> PairDrop | None:
        ended = self._generation.ended(pair.generation)
        if ended is not None:
            return ended
        names = self._outputs.wanted()
        if not names:
            return PairDrop.NO_SUBSCRIBERS
        refused = self._untimely(pair)
        if refused is not None:
            return refused
        config = self._matcher_host.config
        if config is None:
            raise RuntimeError('there is no matcher: the node is not configured')

        start = time.perf_counter()
        ready = self._inputs(pair, config)
        buffers = self._outputs.buffers(names, ready.left.width, ready.left.height)
        converted = time.perf_counter()
        self._matcher_host.prepare(ready.left.width, ready.left.height)
        prepared = time.perf_counter()
        frame = self._matcher_host.compute(ready.left, ready.right, ready.calibration, buffers)
        computed = time.perf_counter()

        if self._is_late(pair):
            return PairDrop.LATE
        stamp = pair.left.header.stamp
        with self._generation.gate(pair.generation) as ended:
            if ended is not None:
                return ended
            self._outputs.publish(names, stamp, ready.frame_id, ready.calibration, frame)
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
                                       self._age_ms(pair))
                self._outputs.publish_latency(stamp, frame.backend, latency)
                self._latencies.add(latency.total)
        with self._after_publishing():
            self._judge(pair, ready, frame, config)
        return None

    @contextlib.contextmanager
    def _after_publishing(self) -> Iterator[None]:
        """What fails in here makes no result undone: the pair counts as published."""
        try:
            yield
        except Exception as error:
            self._conditions.error('engine', f'after publishing: {described(error)}',
                                   detail=traceback.format_exc())

    def _untimely(self, pair: StereoPair) -> PairDrop | None:
        now = self._now_ns()
        if now:
            age = (now - pair.stamp_ns) * 1e-9
            if age < -FUTURE_TOLERANCE:
                self._conditions.warn('age', f'stamps are {-age:.3f} s ahead of this clock: pairs '
                                    'are dropped as future; are the clocks synchronised, and '
                                    'is use_sim_time right?')
                return PairDrop.FUTURE
            limit = self.settings.max_input_age
            if limit and age > limit:
                self._conditions.warn('age', f'a pair is {age:.3f} s old, max_input_age allows '
                                    f'{limit:g} s: pairs are dropped as stale; a bag needs '
                                    '--clock and use_sim_time, or max_input_age 0')
                return PairDrop.STALE
        if self._clock_epoch != self._generation.clock_epoch:
            self._clock_epoch = self._generation.clock_epoch
            self._last_stamp_ns = 0
        if pair.stamp_ns <= self._last_stamp_ns:
            return PairDrop.NOT_NEWER
        return None

    def _is_late(self, pair: StereoPair) -> bool:
        limit = self.settings.max_latency
        now = self._now_ns()
        return bool(limit and now) and (now - pair.stamp_ns) * 1e-9 > limit

    def _age_ms(self, pair: StereoPair) -> float:
        now = self._now_ns()
        return (now - pair.stamp_ns) * 1e-6 if now else 0.0

    def _inputs(self, pair: StereoPair, config: MatcherConfig) -> _Inputs:
        calibration = self._calibration(pair)
        self._conditions.replace('calibration',
                                 rectification_warnings(pair.left_info, pair.right_info))
        left, right = (self._raw(message, config) for message in (pair.left, pair.right))
        check_pair(left, right, config.max_image_width, config.max_image_height)
        check_image_size('left', pair.left_info, left.width, left.height)
        check_image_size('right', pair.right_info, right.width, right.height)
        reference = pair.left_info if config.reference_image == 'left' else pair.right_info
        return _Inputs(left, right, calibration, reference.header.frame_id)

    def _raw(self, message: Any, config: MatcherConfig) -> RawImage:
        if hasattr(message, 'format'):
            return input_images.from_compressed(message, config.max_image_width,
                                          config.max_image_height)
        return input_images.from_image(message, config.max_image_width, config.max_image_height)

    def _calibration(self, pair: StereoPair) -> Calibration:
        known = self._calibrated
        if known and known[0] is pair.left_info and known[1] is pair.right_info:
            return known[2]
        calibration = Calibration.from_camera_info(pair.left_info, pair.right_info)
        self._calibrated = (pair.left_info, pair.right_info, calibration)
        return calibration

    def _judge(self, pair: StereoPair, ready: _Inputs, frame: DisparityFrame,
               config: MatcherConfig) -> None:
        """Look at images and result after they are out, where it delays nothing."""
        if time.monotonic() < self._quality_at:
            self._conditions.replace('quality', self._doubts)
            return
        self._quality_at = time.monotonic() + QUALITY_INTERVAL
        warnings = input_images.image_warnings(ready.left, ready.right, config.mono16_scale)
        fraction = input_images.valid_fraction(frame)
        if fraction is None:
            warnings.append('the images are too narrow for disparity_range: no pixel can have '
                            'a disparity')
        elif fraction < self.settings.min_valid_fraction:
            warnings.append(
                f'only {100 * fraction:.1f} % of the pixels have a disparity '
                f'(min_valid_fraction {100 * self.settings.min_valid_fraction:g} %): too little '
                'texture, or the pair is not rectified')
        for side, message, info in (('left', pair.left, pair.left_info),
                                    ('right', pair.right, pair.right_info)):
            if message.header.frame_id != info.header.frame_id:
                warnings.append(f'the {side} image is of frame '
                                f'{quoted(message.header.frame_id)}, its '
                                f'camera_info of frame {quoted(info.header.frame_id)}: the '
                                'latter is published')
        self._doubts = warnings
        self._conditions.replace('quality', warnings)

    def _device_lost(self, error: DeviceLostError) -> None:
        if self.settings.on_device_loss == 'exit':
            self._conditions.hold('device', Level.ERROR, f'device lost: {error}')
            self._matcher_host.abandon()
            self._on_device_loss(str(error))
            return
        try:
            self._matcher_host.fall_back_to_cpu(error)
            self._conditions.hold('device', Level.ERROR, self._matcher_host.lost)
        except Exception as failure:
            self._conditions.hold('device', Level.ERROR, f'device lost: {error}; the CPU cannot '
                                  f'go on: {failure}')
            self._on_device_loss(str(failure))
