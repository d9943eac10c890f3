"""What a recorded run says: frames accounted for, latency by stage, accuracy against truth."""

from __future__ import annotations

import dataclasses
import pathlib
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from stereo_bp_ros.evaluation import metrics
from stereo_bp_ros.replay.session import SessionResult
from stereo_bp_ros.stamps import header_stamp

PERCENTILES = (50, 95, 99, 99.9)


@dataclasses.dataclass(frozen=True)
class Answer:
    """One disparity image that the node published.

    disparity: float32 H x W, pixels; valid: bool H x W.
    stages_ms: latency by stage, and of all as ``total``, milliseconds; empty where it was lost.
    """

    stamp_ns: int
    disparity: np.ndarray
    valid: np.ndarray
    min_disparity: float
    max_disparity: float
    stages_ms: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Analysis:
    """Figures of one run.

    frames: as of ``SessionResult``.
    latency_ms: stage to {p50, p95, p99, p99.9, max} over all frames.
    totals_ms: total latency of every frame, in order.
    score: against the truth of the source; None where it has none.
    """

    frames: dict[str, Any]
    latency_ms: dict[str, dict[str, float]]
    totals_ms: list[float]
    rate_hz: float
    score: metrics.Score | None = None
    valid_fraction: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {'frames': self.frames, 'rate_hz': self.rate_hz, 'latency_ms': self.latency_ms,
                'valid_percent': 100 * self.valid_fraction,
                'accuracy': self.score.as_dict() if self.score else None}


def analyse(result: SessionResult) -> Analysis:
    """Everything but accuracy; latency is read from the recorded bag."""
    stages: dict[str, list[float]] = {}
    stamps: list[int] = []
    for stamp_ns, found in _latencies(result.bag):
        stamps.append(stamp_ns)
        for stage, value in found.items():
            stages.setdefault(stage, []).append(value)
    latency = {stage: {**{f'p{p:g}': float(np.percentile(values, p)) for p in PERCENTILES},
                       'max': max(values)} for stage, values in stages.items()}
    steps = np.diff(np.array(stamps, np.int64))
    steps = steps[steps > 0]        # each loop begins with the first stamp again
    return Analysis(dict(result.frames), latency, stages.get('total', []),
                    float(len(steps) / (steps.sum() / 1e9)) if len(steps) else 0.0)


def answers(bag: pathlib.Path) -> Iterator[Answer]:
    """The disparity images of a recorded run, in order."""
    latencies: dict[int, deque[dict[str, float]]] = {}
    for stamp_ns, found in _latencies(bag):     # a loop has the same stamps again
        latencies.setdefault(stamp_ns, deque()).append(found)
    for _, message in _messages(bag, ('/disparity',)):
        stamp_ns = header_stamp(message)
        image = message.image
        values = np.ndarray((image.height, image.width), '>f4' if image.is_bigendian else '<f4',
                            buffer=image.data, strides=(image.step, 4)).astype(np.float32)
        known = latencies.get(stamp_ns)
        yield Answer(stamp_ns, values, values >= np.float32(message.min_disparity),
                     message.min_disparity, message.max_disparity,
                     known.popleft() if known else {})


def _latencies(bag: pathlib.Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Stamp and milliseconds by stage of every frame, in order."""
    for _, message in _messages(bag, ('/latency',)):
        yield header_stamp(message), {pair.key: float(pair.value)
                                      for pair in message.status[0].values}


def _messages(bag: pathlib.Path, topics: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    with AnyReader([bag], default_typestore=get_typestore(Stores.ROS2_KILTED)) as reader:
        wanted = [c for c in reader.connections if c.topic in topics]
        for connection, _, data in reader.messages(wanted):
            yield connection.topic, reader.deserialize(data, connection.msgtype)
