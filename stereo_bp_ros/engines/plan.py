"""What is known of an engine before it is built."""

from __future__ import annotations

import abc
import dataclasses

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.geometry import MemoryPlan
from stereo_bp_ros.partitions import Partitioning


@dataclasses.dataclass(frozen=True)
class Plan(abc.ABC):
    """Everything that an engine is built from; computed once and never changed.

    width, height: of the images, pixels; parts: how belief propagation cuts them.
    """

    config: MatcherConfig
    width: int
    height: int
    parts: Partitioning

    @property
    @abc.abstractmethod
    def memory(self) -> MemoryPlan:
        """The arrays that the engine allocates: of the device, or of the host on the CPU."""
