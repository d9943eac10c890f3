"""Where the time of a frame goes, and how it is distributed over the last frames."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Collection, Mapping

import numpy as np

from stereo_bp_ros.types import ENGINE_STAGES

#: Every stage of a frame between the receipt of its later image and the return of publish.
STAGES = ('receive', 'pair', 'wait', *ENGINE_STAGES, 'publish')

#: Frames that the distribution is taken over: ten seconds at 30 Hz.
WINDOW = 300


@dataclasses.dataclass(frozen=True)
class FrameLatency:
    """Milliseconds of one frame.

    stages: one entry per name of ``STAGES``; they add up to the total.
    total:  from the receipt of the later image to the return of publish.
    age:    node clock at publish minus stamp; in another time base, and not part of the total.
    """

    stages: Mapping[str, float]
    total: float
    age: float

    def items(self) -> list[tuple[str, float]]:
        """Names and values in the order in which they are reported."""
        return [*((name, self.stages.get(name, 0.0)) for name in STAGES),
                ('total', self.total), ('age', self.age)]


@dataclasses.dataclass(frozen=True)
class Distribution:
    """Milliseconds of the total over the window."""

    frames: int
    p50: float
    p95: float
    p99: float
    maximum: float


class LatencyWindow:
    """The total latency of the last frames; for any number of threads."""

    def __init__(self, size: int = WINDOW) -> None:
        self._lock = threading.Lock()
        self._totals: collections.deque[float] = collections.deque(maxlen=size)
        self._recent: collections.deque[float] = collections.deque(maxlen=size)

    def add(self, total: float) -> None:
        """Take in the total of one frame, ms."""
        with self._lock:
            self._totals.append(total)
            self._recent.append(total)

    def clear(self) -> None:
        """Forget all frames."""
        with self._lock:
            self._totals.clear()
            self._recent.clear()

    def distribution(self) -> Distribution | None:
        """The distribution over the window; None where it is empty."""
        with self._lock:
            return _distribution(self._totals)

    def take_recent(self) -> Distribution | None:
        """The distribution over the frames since it was last asked; None where none came."""
        with self._lock:
            found = _distribution(self._recent)
            self._recent.clear()
            return found


def _distribution(totals: Collection[float]) -> Distribution | None:
    if not totals:
        return None
    p50, p95, p99 = np.percentile(list(totals), (50, 95, 99))
    return Distribution(len(totals), float(p50), float(p95), float(p99), max(totals))
