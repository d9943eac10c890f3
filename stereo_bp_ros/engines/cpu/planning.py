"""Makes the plan of a CPU engine. No Numba here."""

from __future__ import annotations

import dataclasses
import functools

from stereo_bp_ros import geometry, partitions
from stereo_bp_ros.config import MatcherConfig, ResolvedConfig
from stereo_bp_ros.engines import programs
from stereo_bp_ros.engines.cpu import memory, scratch
from stereo_bp_ros.engines.cpu.matching import CpuMatching
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.geometry import MemoryPlan
from stereo_bp_ros.partitions import Partitioning


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
    plan = Plan(resolve(config), *size, parts or partitions.whole(*size), config.downscale,
                *geometry.rectified_size(config, width, height), (width, height),
                MemoryPlan(()), threads)
    return dataclasses.replace(plan, memory=_memory(plan))


def _memory(plan: Plan) -> MemoryPlan:
    """All arrays."""
    matching: type[CpuMatching] = programs.matching('cpu', plan.config)
    size = plan.config, plan.width, plan.height
    images = plan.image_width, plan.image_height
    return MemoryPlan.lay_out([
        *memory.images_and_matches(*size), *geometry.map_arrays(plan.config, *images),
        *matching.arrays(plan), *scratch.all_stages(*size, matching.scratch(plan)),
        *scratch.convert(*plan.source), *scratch.rectify(plan.config, *images, plan.source),
        *scratch.enlarge(plan.downscale, *images, plan.width, plan.height)])
