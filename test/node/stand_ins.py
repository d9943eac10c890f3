"""Stand-ins for messages and the matcher, for tests of the node without ROS or computation."""

from __future__ import annotations

import array
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.frame.disparity_frame import OUTPUTS, DisparityFrame
from stereo_bp_ros.issues import IssueLevel
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.node.diagnostics.ledger import Ledger
from stereo_bp_ros.node.diagnostics.monitors import FrameLatency, LatencyWindow
from stereo_bp_ros.node.frames import FrameProcessor, Result
from stereo_bp_ros.node.matcher_host import MatcherHost
from stereo_bp_ros.node.pairing import Generation, StereoPair
from stereo_bp_ros.stream.observer import PairObserver


def make_stamped(stamp_ns: int, **fields: Any) -> types.SimpleNamespace:
    """Anything with a header."""
    stamp = types.SimpleNamespace(sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9)
    header = types.SimpleNamespace(stamp=stamp, frame_id='camera')
    return types.SimpleNamespace(header=header, **fields)


def make_info(stamp_ns: int = 0, *, side: str = 'left', width: int = 32, height: int = 24,
              focal: float = 100.0, baseline: float = 0.1, cx: float = 16.0
              ) -> types.SimpleNamespace:
    """Something CameraInfo-like."""
    p = [focal, 0, cx, 0 if side == 'left' else -focal * baseline,
         0, focal, height / 2, 0, 0, 0, 1, 0]
    k = [focal, 0, cx, 0, focal, height / 2, 0, 0, 1]
    return make_stamped(stamp_ns, p=p, k=k, r=[1, 0, 0, 0, 1, 0, 0, 0, 1], d=[0.0] * 5,
                        distortion_model='plumb_bob', width=width, height=height, binning_x=0,
                        binning_y=0,
                        roi=types.SimpleNamespace(x_offset=0, y_offset=0, width=0, height=0))


def make_image(stamp_ns: int, pixels: np.ndarray) -> types.SimpleNamespace:
    """Something Image-like, mono8 or mono16."""
    return make_stamped(stamp_ns, data=array.array('B', pixels.tobytes()),
                        encoding=f'mono{8 * pixels.itemsize}', height=pixels.shape[0],
                        width=pixels.shape[1], step=pixels.strides[0], is_bigendian=0)


class FakeMatcher:
    """Has the interface of StereoMatcher; every pixel gets ``min_disparity``.

    ``fail`` is raised by the next call of ``compute``, ``refuse`` by the next of ``reconfigure``.
    """

    backend_reason = 'a stand-in'

    def __init__(self, config: MatcherConfig) -> None:
        self.config = config
        self.backend = 'cpu' if config.backend == 'cpu' else 'fake'
        self.size: tuple[int, int] | None = None
        self.memory_plan: geometry.MemoryPlan | None = None
        self.calibration: Any = None
        self.fail: list[Exception] = []
        self.refuse: list[Exception] = []
        self.before_compute: Callable[[], None] = lambda: None
        self.closed = False
        #: Names of the outputs of every frame.
        self.outputs: list[tuple[str, ...]] = []
        self.rectifications: list[Any] = []
        #: The latest one, and None of a frame without one.
        self.homography: Any = None

    compile_time = 0.0

    @property
    def effective_config(self) -> MatcherConfig:
        return geometry.effective(self.config, self.calibration)

    def prepare(self, width: int = 0, height: int = 0, calibration: Any = None) -> float:
        self.calibration = calibration or self.calibration
        if width:
            self.size = (width, height)
        return 0.0

    def reconfigure(self, config: MatcherConfig, calibration: Any = None) -> bool:
        self.calibration = calibration or self.calibration
        if self.refuse:
            raise self.refuse.pop(0)
        needed = not self.config.is_live_change(config)
        self.config = config
        return needed

    def correct_rows(self, homography: Any) -> None:
        self.homography = homography

    def compute(self, left: Any, right: Any, *, calibration: Any = None,
                rectification: Any = None, outputs: Sequence[str] = ('disparity',),
                out: Mapping[str, np.ndarray] | None = None) -> DisparityFrame:
        self.before_compute()
        if self.fail:
            raise self.fail.pop(0)
        self.outputs.append(tuple(outputs))
        self.rectifications.append(rectification)
        arrays = dict(out or {})
        config = self.effective_config
        for values in arrays.values():
            values[:] = config.min_disparity
        return DisparityFrame(
            **{name: arrays.get(name) for name in OUTPUTS},
            min_disparity=config.min_disparity,
            max_disparity=config.min_disparity + config.disparity_range - 1,
            delta_d=geometry.disparity_step(config),
            valid_window=geometry.valid_window(config, left.width, left.height),
            timings={'messages': 0.0}, backend=self.backend)

    @property
    def computed(self) -> int:
        """How many frames."""
        return len(self.outputs)

    def close(self) -> None:
        self.closed = True


SECOND = 1_000_000_000
NOW = 1_000_000 * SECOND


class Outputs:
    """Publishers that keep what they are given."""

    def __init__(self) -> None:
        self.topics: tuple[str, ...] = ('disparity',)
        self.published: list[tuple[tuple[str, ...], Result]] = []
        self.latencies: list[FrameLatency] = []
        self.corrected_infos: list[Any] = []

    def wanted(self) -> tuple[str, ...]:
        return self.topics

    def buffers(self, topics: tuple[str, ...], width: int, height: int, decimation: int = 1
                ) -> dict[str, np.ndarray]:
        return {name: OUTPUTS[name].empty((height, width), decimation) for name in topics}

    def publish(self, topics: tuple[str, ...], result: Result) -> None:
        self.published.append((topics, result))

    def publish_corrected_info(self, info: Any) -> None:
        self.corrected_infos.append(info)

    def publish_latency(self, stamp: Any, latency: FrameLatency) -> None:
        self.latencies.append(latency)


class Bench:
    """One pair through the worker without ROS: stand-ins around a ``FrameProcessor``."""

    def __init__(self, config: MatcherConfig | None = None, *,
                 factory: Callable[..., Any] = FakeMatcher, measures_inline: bool = False,
                 **options: Any) -> None:
        self.outputs = Outputs()
        self.ledger = Ledger()
        self.generation = Generation()
        self.latencies = LatencyWindow()
        self.logged: list[tuple[IssueLevel, str]] = []
        self.issues = IssueLog(lambda level, text: self.logged.append((level, text)))
        self.observer = PairObserver()
        self.matcher_host = MatcherHost(factory)
        self.matcher_host.build(config or MatcherConfig(disparity_range=8), 0, 0)
        self.now = NOW
        self.lost: list[str] = []
        self.left_info = make_info(side='left')
        self.right_info = make_info(side='right')
        self.processor = FrameProcessor(
            matcher_host=self.matcher_host, outputs=self.outputs, ledger=self.ledger,
            generation=self.generation, latencies=self.latencies, issues=self.issues,
            observer=self.observer, measures_inline=measures_inline,
            settings=NodeConfig(**options),
            now_ns=lambda: self.now, on_device_loss=self.lost.append)

    @property
    def matcher(self) -> Any:
        return self.matcher_host.matcher

    def process(self, stamp_ns: int = NOW, *, generation: int | None = None, left: Any = None,
                right: Any = None) -> None:
        random = np.random.default_rng(0).integers(0, 256, (2, 24, 32), np.uint8)
        left = left or make_image(stamp_ns, random[0])
        right = right or make_image(stamp_ns, random[1])
        self.ledger.count('pairs')
        self.processor.process(StereoPair(
            left, right, self.left_info, self.right_info, stamp_ns, stamp_ns,
            self.generation.number if generation is None else generation, 0.0, 0.0, 0.0))
        counts = self.ledger.counts()
        assert counts.pairs == counts.published + sum(counts.pair_drops.values())

    def outcome(self) -> dict[Any, int]:
        counts = self.ledger.counts()
        result: dict[Any, int] = {k: v for k, v in counts.pair_drops.items() if v}
        result.update(counts.bad_inputs)
        if counts.published:
            result['published'] = counts.published
        return result

    def texts(self, *sources: str) -> str:
        return '\n'.join(map(str, self.issues.active(*sources)))

    @property
    def rejections(self) -> str:
        """Why pairs were rejected since the last report."""
        return '\n'.join(one.text for one in self.issues.active()
                         if one.code.scope == 'pair' and one.level is IssueLevel.ERROR)
