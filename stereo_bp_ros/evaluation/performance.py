"""Rate and latency by the names that isaac_ros_benchmark has for them.

Its reports are those of ros2_benchmark, ``BasicPerformanceCalculator``
(https://github.com/NVIDIA-ISAAC-ROS/ros2_benchmark). Only figures with the same meaning are here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Performance:
    """Runs one after another: milliseconds from images in memory to a disparity in memory.

    rate_hz: runs divided by the time of all of them.
    """

    runs: int
    first_ms: float
    last_ms: float
    min_ms: float
    mean_ms: float
    max_ms: float
    rate_hz: float

    def to_dict(self) -> dict[str, float]:
        """For JSON, with the keys that reports of isaac_ros_benchmark have."""
        return {'BasicPerformanceMetrics.NUM_FRAMES_SENT': self.runs,
                'BasicPerformanceMetrics.MEAN_FRAME_RATE': self.rate_hz,
                'BasicPerformanceMetrics.FIRST_INPUT_LATENCY': self.first_ms,
                'BasicPerformanceMetrics.LAST_INPUT_LATENCY': self.last_ms,
                'BasicPerformanceMetrics.MIN_LATENCY': self.min_ms,
                'BasicPerformanceMetrics.MEAN_LATENCY': self.mean_ms,
                'BasicPerformanceMetrics.MAX_LATENCY': self.max_ms}


def performance(times_ms: Sequence[float]) -> Performance:
    """Rate and latency of runs.

    times_ms: of every run in their order, milliseconds, each above 0.

    :raises ValueError: there is none.
    """
    if not times_ms:
        raise ValueError('there are no times')
    whole = math.fsum(times_ms)
    return Performance(len(times_ms), times_ms[0], times_ms[-1], min(times_ms),
                       whole / len(times_ms), max(times_ms),
                       1e3 * len(times_ms) / whole if whole else math.inf)


def delivered(sent: int, received: int, rate_hz: float) -> dict[str, float]:
    """For JSON, of frames that went through a node, in place of those of ``Performance``.

    rate_hz: frames received, by the time from the first to the last.
    """
    return {'BasicPerformanceMetrics.NUM_FRAMES_SENT': sent,
            'BasicPerformanceMetrics.NUM_MISSED_FRAMES': sent - received,
            'BasicPerformanceMetrics.MEAN_FRAME_RATE': rate_hz}
