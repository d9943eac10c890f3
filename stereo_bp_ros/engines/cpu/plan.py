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
        images = self.image_width, self.image_height
        return geometry.MemoryPlan.lay_out([
            *memory.images_and_matches(*size), *geometry.map_arrays(self.config, *images),
            *self.matching.arrays(self), *scratch.all_stages(*size, self.matching.scratch(self)),
            *scratch.convert(*self.source), *scratch.rectify(self.config, *images, self.source),
            *scratch.enlarge(self.downscale, *images, self.width, self.height)])


def plan_of(config: MatcherConfig, width: int, height: int,
            parts: Partitioning | None = None) -> Plan:
    """The plan of an engine for images that come in this size, in pixels.

    :param parts: how belief propagation cuts the reduced image; None = not at all.
    :raises ConfigError: a setting that only CUDA has.
    """
    return _plan_of(config, parts, width, height, memory.threads(config))


@functools.lru_cache(maxsize=256)
def _plan_of(config: MatcherConfig, parts: Partitioning | None, width: int, height: int,
             threads: int) -> Plan:
    reduced = config.reduced
    programs.check('cpu', reduced)
    size = geometry.reduced_size(config, width, height)
    return Plan(reduced, *size, parts or partitions.whole(*size), config.downscale,
                *geometry.rectified_size(config, width, height), (width, height),
                programs.matching('cpu', reduced), threads)
