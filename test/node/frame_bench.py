"""One pair through the worker without ROS: stand-ins around a ``FrameProcessor``."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from stereo_bp_ros.config import MatcherConfig, NodeConfig
from stereo_bp_ros.node.diagnostics.conditions import Conditions, Level
from stereo_bp_ros.node.diagnostics.ledger import Ledger
from stereo_bp_ros.node.diagnostics.monitors import FrameLatency, LatencyWindow
from stereo_bp_ros.node.diagnostics.quality import OffsetMonitor
from stereo_bp_ros.node.frames import FrameProcessor, Result
from stereo_bp_ros.node.matcher_host import MatcherHost
from stereo_bp_ros.node.pairing import Generation, StereoPair
from stereo_bp_ros.types import OUTPUTS

SECOND = 1_000_000_000
NOW = 1_000_000 * SECOND


class Outputs:
    """Publishers that keep what they are given."""

    def __init__(self) -> None:
        self.topics: tuple[str, ...] = ('disparity',)
        self.published: list[tuple[tuple[str, ...], Result]] = []
        self.latencies: list[FrameLatency] = []

    def wanted(self) -> tuple[str, ...]:
        return self.topics

    def buffers(self, topics: tuple[str, ...], width: int, height: int, decimation: int = 1
                ) -> dict[str, np.ndarray]:
        return {name: OUTPUTS[name].empty((height, width), decimation) for name in topics}

    def publish(self, topics: tuple[str, ...], result: Result) -> None:
        self.published.append((topics, result))

    def publish_latency(self, stamp: Any, latency: FrameLatency) -> None:
        self.latencies.append(latency)


class Bench:
    def __init__(self, messages: types.SimpleNamespace, factory: Callable[..., Any],
                 config: MatcherConfig | None = None, **options: Any) -> None:
        self.messages = messages
        self.outputs = Outputs()
        self.ledger = Ledger()
        self.generation = Generation()
        self.latencies = LatencyWindow()
        self.logged: list[tuple[Level, str]] = []
        self.conditions = Conditions(lambda level, text: self.logged.append((level, text)))
        self.offsets = OffsetMonitor(self.conditions)
        self.matcher_host = MatcherHost(factory)
        self.matcher_host.build(config or MatcherConfig(disparity_range=8), 0, 0)
        self.now = NOW
        self.lost: list[str] = []
        self.left_info = messages.info(side='left')
        self.right_info = messages.info(side='right')
        self.processor = FrameProcessor(
            matcher_host=self.matcher_host, outputs=self.outputs, ledger=self.ledger,
            generation=self.generation, latencies=self.latencies, conditions=self.conditions,
            offsets=self.offsets, settings=NodeConfig(**options),
            now_ns=lambda: self.now, on_device_loss=self.lost.append)

    @property
    def matcher(self) -> Any:
        return self.matcher_host.matcher

    def process(self, stamp_ns: int = NOW, *, generation: int | None = None, left: Any = None,
                right: Any = None) -> None:
        random = np.random.default_rng(0).integers(0, 256, (2, 24, 32), np.uint8)
        left = left or self.messages.image(stamp_ns, random[0])
        right = right or self.messages.image(stamp_ns, random[1])
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

    def texts(self, *keys: str) -> str:
        return '\n'.join(condition.text for condition in self.conditions.active(*keys))
