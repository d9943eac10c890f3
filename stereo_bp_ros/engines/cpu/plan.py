"""The plan of a CPU engine: its arrays. No Numba here."""

from __future__ import annotations

import dataclasses
import functools

from stereo_bp_ros import geometry, partitions
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines import plan, programs
from stereo_bp_ros.engines.cpu import memory, scratch
from stereo_bp_ros.engines.cpu.matching import CpuMatching
from stereo_bp_ros.partitions import Partitioning


@dataclasses.dataclass(frozen=True)
class Plan(plan.Plan):
    """See ``plan.Plan``; ``matching``: the way to match, ``threads``: of a frame."""

    matching: type[CpuMatching]
    threads: int

    @functools.cached_property
    def memory(self) -> geometry.MemoryPlan:
        """All arrays."""
        size = self.config, self.width, self.height
        return geometry.MemoryPlan.lay_out([
            *memory.images_and_matches(*size), *self.matching.arrays(self),
            *scratch.all_stages(*size, self.matching.scratch(self))])


def plan_of(config: MatcherConfig, width: int, height: int,
            parts: Partitioning | None = None) -> Plan:
    """The plan of an engine for images of this size, in pixels.

    :param parts: how belief propagation cuts the image; None = not at all.
    :raises ConfigError: a setting that only CUDA has.
    """
    return _plan_of(config, parts or partitions.whole(width, height), width, height,
                    memory.threads(config))


@functools.lru_cache(maxsize=256)
def _plan_of(config: MatcherConfig, parts: Partitioning, width: int, height: int,
             threads: int) -> Plan:
    programs.check('cpu', config)
    return Plan(config, width, height, parts, programs.matching('cpu', config), threads)
