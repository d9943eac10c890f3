"""The node's worker without ROS around it, for benchmarks of what happens to its frames."""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.node.diagnostics.ledger import Ledger
from stereo_bp_ros.node.diagnostics.monitors import FrameLatency, LatencyWindow
from stereo_bp_ros.node.frames import FrameProcessor, Result
from stereo_bp_ros.node.matcher_host import MatcherFactory, MatcherHost
from stereo_bp_ros.node.pairing import Generation, StereoPair
from stereo_bp_ros.stream.observer import PairObserver

#: From the stamp of a pair to that of the next, nanoseconds: a camera of 30 Hz.
PERIOD_NS = 10**9 // 30


class FrameLoop:
    """Pairs through a ``FrameProcessor``, and what became of each.

    :param left, right: uint8 N x H x W; they are matched again and again.
    :param expected: float32 N x H x W, the disparity of each pair; None = it is not compared.
    :param host: with the matcher of another loop, which goes on with these images.
    :param options: of the node.
    """

    def __init__(self, left: Sequence[np.ndarray], right: Sequence[np.ndarray],
                 expected: Sequence[np.ndarray] | None = None, *,
                 factory: MatcherFactory = StereoMatcher, host: MatcherHost | None = None,
                 **options: Any) -> None:
        #: What the node would have logged, each text once.
        self.said: list[str] = []
        #: Why the node would have ended, if it would.
        self.fatal: list[str] = []
        self.host = host or MatcherHost(factory, self._say)
        self._outputs = _Outputs()
        self._ledger = Ledger()
        self._generation = Generation()
        self._expected = expected
        height, width = left[0].shape
        self._images = [(_image(one), _image(other))
                        for one, other in zip(left, right, strict=True)]
        self._infos = _info('left', width, height), _info('right', width, height)
        self._stamp = 0
        issues = IssueLog(lambda level, text: self._say(text))
        self._processor = FrameProcessor(
            matcher_host=self.host, outputs=self._outputs, ledger=self._ledger,
            generation=self._generation, latencies=LatencyWindow(), issues=issues,
            observer=PairObserver(), settings=NodeConfig(**options),
            now_ns=lambda: 0, on_device_loss=self.fatal.append)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the images, pixels."""
        image = self._images[0][0]
        return image.width, image.height

    def build(self, config: MatcherConfig) -> float:
        """As the node when it is configured with a size; returns seconds."""
        return self.host.build(config, *self.size)

    def frame(self) -> tuple[str, float]:
        """The next pair: 'right', 'wrong' (published with other bits than expected) or 'none'
        (not published), and the milliseconds it took."""
        self._stamp += 1
        number, stamp_ns = self._stamp % len(self._images), self._stamp * PERIOD_NS
        left, right = self._images[number]
        for message in (left, right):
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
        self._outputs.published = None
        begin = time.perf_counter()
        now = begin
        self._ledger.count('pairs')
        self._processor.process(StereoPair(
            left, right, *self._infos, stamp_ns, stamp_ns,
            self._generation.number, now, now, now))
        taken = (time.perf_counter() - begin) * 1e3
        found = self._outputs.published
        if found is None:
            return 'none', taken
        if self._expected is None or np.array_equal(found, self._expected[number]):
            return 'right', taken
        return 'wrong', taken

    def frames(self, count: int, period: float = 0.0,
               until: Callable[[str], bool] = lambda outcome: False) -> dict[str, Any]:
        """Some frames: counts by outcome, milliseconds of those published, and seconds from the
        beginning to the first of those.

        :param period: seconds from frame to frame, at least.
        :param until: ends early after an outcome.
        """
        counts = {'right': 0, 'wrong': 0, 'none': 0}
        times, first = [], None
        begin = time.perf_counter()
        for number in range(count):
            outcome, taken = self.frame()
            counts[outcome] += 1
            if outcome != 'none':
                times.append(taken)
                if first is None:
                    first = time.perf_counter() - begin
            if self.fatal or until(outcome):
                break
            time.sleep(max(0.0, begin + (number + 1) * period - time.perf_counter()))
        return {**counts, 'ms': times, 'first_s': first}

    def _say(self, text: str) -> None:
        if text not in self.said:
            self.said.append(text)


class _Outputs:
    """Publishers of the disparity that keep it."""

    def __init__(self) -> None:
        self.published: np.ndarray | None = None
        self._kept: dict[str, np.ndarray] = {}

    def wanted(self) -> tuple[str, ...]:
        return ('disparity',)

    def buffers(self, topics: tuple[str, ...], width: int, height: int, decimation: int = 1
                ) -> dict[str, np.ndarray]:
        # As the node: one array as long as the size stays.
        kept = self._kept.get('disparity')
        if kept is None or kept.shape != (height, width):
            self._kept = {name: OUTPUTS[name].empty((height, width), decimation)
                          for name in topics}
        # Whatever is not written is seen.
        self._kept['disparity'].fill(np.nan)
        return self._kept

    def publish(self, topics: tuple[str, ...], result: Result) -> None:
        self.published = self._kept['disparity']

    def publish_corrected_info(self, info: Any) -> None:
        pass

    def publish_latency(self, stamp: Any, latency: FrameLatency) -> None:
        pass


def _header() -> types.SimpleNamespace:
    return types.SimpleNamespace(stamp=types.SimpleNamespace(sec=0, nanosec=0),
                                 frame_id='camera')


def _image(pixels: np.ndarray) -> types.SimpleNamespace:
    height, width = pixels.shape
    return types.SimpleNamespace(
        header=_header(), data=np.ascontiguousarray(pixels).reshape(-1), encoding='mono8',
        height=height, width=width, step=width, is_bigendian=0)


def _info(side: str, width: int, height: int) -> types.SimpleNamespace:
    focal = float(width)
    p = [focal, 0, width / 2, 0 if side == 'left' else -0.2 * focal,
         0, focal, height / 2, 0, 0, 0, 1, 0]
    return types.SimpleNamespace(
        header=_header(), p=p, k=[focal, 0, width / 2, 0, focal, height / 2, 0, 0, 1],
        r=[1, 0, 0, 0, 1, 0, 0, 0, 1], d=[0.0] * 5, distortion_model='plumb_bob', width=width,
        height=height, binning_x=0, binning_y=0,
        roi=types.SimpleNamespace(x_offset=0, y_offset=0, width=0, height=0))
