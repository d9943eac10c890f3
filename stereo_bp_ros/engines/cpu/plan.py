"""The plan of a CPU engine. No Numba here."""

from __future__ import annotations

import dataclasses
import functools

from stereo_bp_ros.config.matcher import MatcherConfig, ResolvedConfig
from stereo_bp_ros.engines import geometry, partitions, plan, programs
from stereo_bp_ros.engines.cpu import memory, scratch
from stereo_bp_ros.engines.geometry import MemoryPlan
from stereo_bp_ros.engines.partitions import Partitioning
from stereo_bp_ros.engines.plan import Passes


@dataclasses.dataclass(frozen=True)
class Plan(plan.Plan):
    """See ``plan.Plan``; ``threads``: of a frame."""

    first: Plan | None
    threads: int


def resolve(config: MatcherConfig) -> Passes:
    """As ``Backend.resolve``.

    :raises ConfigError: a setting that only CUDA has.
    """
    return plan.passes_of(config, _checked)


def _checked(config: ResolvedConfig) -> ResolvedConfig:
    programs.check('cpu', config)
    return config


def plan_of(config: MatcherConfig, width: int, height: int,
            parts: Partitioning | None = None) -> Plan:
    """The plan of an engine for images that come in this size, in pixels.

    :param parts: how belief propagation cuts the reduced image; None = not at all.
    :raises ConfigError: as ``resolve``.
    """
    return lay_out(config, resolve(config), width, height, parts)


def lay_out(config: MatcherConfig, passes: Passes, width: int, height: int,
            parts: Partitioning | None = None) -> Plan:
    """As ``plan_of``, of a configuration whose passes are known."""
    return _lay_out(config, passes, parts, width, height, memory.threads(config))


@functools.lru_cache(maxsize=256)
def _lay_out(config: MatcherConfig, passes: Passes, parts: Partitioning | None, width: int,
             height: int, threads: int) -> Plan:
    size = geometry.reduced_size(config, width, height)
    images = geometry.rectified_size(config, width, height)
    parts = parts or partitions.whole(*size)
    found = Plan(passes[-1], *size, parts, config.downscale, *images, (width, height),
                 MemoryPlan(()), plan.first_plan(passes, *size, parts, lay_out), threads)
    matching = programs.matching('cpu', found.config)
    return dataclasses.replace(found, memory=MemoryPlan.lay_out([
        *memory.images_and_matches(found.config, *size),
        *geometry.map_arrays(found.config, *images), *matching.arrays(found),
        *scratch.all_stages(found.config, *size, matching.scratch(found)),
        *scratch.convert(width, height), *scratch.rectify(found.config, *images, found.source),
        *scratch.enlarge(found.downscale, *images, *size)]))
