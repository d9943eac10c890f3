"""The plan of a CUDA engine: its launches and arrays. No CuPy here."""

from __future__ import annotations

import dataclasses
import functools

from stereo_bp_ros.config.matcher import MatcherConfig, ResolvedConfig
from stereo_bp_ros.engines import backend, geometry, partitions, programs
from stereo_bp_ros.engines.cuda import memory
from stereo_bp_ros.engines.cuda.hierarchical import schedule
from stereo_bp_ros.engines.cuda.hierarchical.launch import Launch
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL, Properties
from stereo_bp_ros.engines.geometry import MemoryPlan
from stereo_bp_ros.engines.partitions import Partitioning


@dataclasses.dataclass(frozen=True)
class Plan(backend.Plan):
    """See ``backend.Plan``.

    pinned: the arrays on the host, through which everything goes to and from the device.
    launches: over the messages, coarsest level first; () without hierarchical messages.
    """

    pinned: MemoryPlan
    device: Properties
    launches: tuple[Launch, ...]


def resolve(config: MatcherConfig, device: Properties = TYPICAL) -> ResolvedConfig:
    """The configuration with which a device matches reduced images.

    :raises ConfigError: a setting that this engine cannot compute.
    """
    reduced = ResolvedConfig(config.reduced)
    programs.check('cuda', reduced, device)
    replaced: ResolvedConfig = programs.matching('cuda', reduced).replacement(reduced, device)
    if replaced is not reduced:
        programs.check('cuda', replaced, device)
    return replaced


def plan_of(config: MatcherConfig, width: int, height: int, device: Properties = TYPICAL,
            parts: Partitioning | None = None) -> Plan:
    """The plan of an engine for images that come in this size, in pixels.

    :param parts: how belief propagation cuts the image; None = not at all.
    :raises ConfigError: as ``resolve``.
    """
    return _plan_of(config, parts, width, height, device)


def forget() -> None:
    """Drop plans made earlier; for tests that change what the choice depends on."""
    _plan_of.cache_clear()
    schedule.forget()


@functools.lru_cache(maxsize=256)
def _plan_of(config: MatcherConfig, parts: Partitioning | None, width: int, height: int,
             device: Properties) -> Plan:
    size = geometry.reduced_size(config, width, height)
    parts = parts or partitions.whole(*size)
    resolved = resolve(config, device)
    matching = programs.matching('cuda', resolved)
    image = geometry.rectified_size(config, width, height)
    pinned = MemoryPlan.lay_out(memory.on_host((height, width), image[::-1]))
    plan = Plan(resolved, *size, parts, config.downscale, *image, (width, height),
                MemoryPlan(()), pinned, device, matching.launches(resolved, parts, device))
    return dataclasses.replace(plan, memory=MemoryPlan.lay_out(memory.on_device(
        resolved, (height, width), image[::-1], size[::-1], config.downscale,
        matching.arrays(plan))))
