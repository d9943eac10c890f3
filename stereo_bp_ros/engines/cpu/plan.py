"""The plan of a CPU engine. No Numba here."""

from __future__ import annotations

import dataclasses
import functools

from stereo_bp_ros.config.matcher import MatcherConfig, ResolvedConfig
from stereo_bp_ros.engines import backend, geometry, partitions, programs
from stereo_bp_ros.engines.cpu import memory, scratch
from stereo_bp_ros.engines.geometry import MemoryPlan
from stereo_bp_ros.engines.partitions import Partitioning


@dataclasses.dataclass(frozen=True)
class Plan(backend.Plan):
    """See ``backend.Plan``; ``threads``: of a frame."""

    threads: int


def resolve(config: MatcherConfig) -> ResolvedConfig:
    """The configuration with which reduced images are matched.

    :raises ConfigError: a setting that only CUDA has.
    """
    resolved = ResolvedConfig(config.reduced)
    programs.check('cpu', resolved)
    return resolved


def plan_of(config: MatcherConfig, width: int, height: int,
            parts: Partitioning | None = None) -> Plan:
    """The plan of an engine for images that come in this size, in pixels.

    :param parts: how belief propagation cuts the reduced image; None = not at all.
    :raises ConfigError: as ``resolve``.
    """
    return _plan_of(config, parts, width, height, memory.threads(config))


@functools.lru_cache(maxsize=256)
def _plan_of(config: MatcherConfig, parts: Partitioning | None, width: int, height: int,
             threads: int) -> Plan:
    size = geometry.reduced_size(config, width, height)
    images = geometry.rectified_size(config, width, height)
    plan = Plan(resolve(config), *size, parts or partitions.whole(*size), config.downscale,
                *images, (width, height), MemoryPlan(()), threads)
    matching = programs.matching('cpu', plan.config)
    return dataclasses.replace(plan, memory=MemoryPlan.lay_out([
        *memory.images_and_matches(plan.config, *size),
        *geometry.map_arrays(plan.config, *images), *matching.arrays(plan),
        *scratch.all_stages(plan.config, *size, matching.scratch(plan)),
        *scratch.convert(width, height), *scratch.rectify(plan.config, *images, plan.source),
        *scratch.enlarge(plan.downscale, *images, *size)]))
