"""The plan of a CUDA engine: its launches and arrays. No CuPy here."""

from __future__ import annotations

import dataclasses
import functools

from stereo_bp_ros.config.matcher import MatcherConfig, ResolvedConfig
from stereo_bp_ros.engines import geometry, partitions, plan, programs
from stereo_bp_ros.engines.cuda import memory
from stereo_bp_ros.engines.cuda.hierarchical import schedule
from stereo_bp_ros.engines.cuda.hierarchical.launch import Launch
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL, Properties
from stereo_bp_ros.engines.geometry import MemoryPlan
from stereo_bp_ros.engines.partitions import Partitioning
from stereo_bp_ros.engines.plan import Passes


@dataclasses.dataclass(frozen=True)
class Plan(plan.Plan):
    """See ``plan.Plan``.

    pinned: the arrays on the host, through which everything goes to and from the device.
    launches: over the messages, coarsest level first; () without hierarchical messages.
    """

    first: Plan | None
    pinned: MemoryPlan
    device: Properties
    launches: tuple[Launch, ...]


def resolve(config: MatcherConfig, device: Properties = TYPICAL) -> Passes:
    """As ``Backend.resolve``.

    :raises ConfigError: a setting that this engine cannot compute.
    """
    return plan.passes_of(config, functools.partial(_computed, device))


def _computed(device: Properties, config: ResolvedConfig) -> ResolvedConfig:
    """By the program that computes a configuration on a device."""
    programs.check('cuda', config, device)
    replaced: ResolvedConfig = programs.matching('cuda', config).replacement(config, device)
    if replaced is not config:
        programs.check('cuda', replaced, device)
    return replaced


def plan_of(config: MatcherConfig, width: int, height: int, device: Properties = TYPICAL,
            parts: Partitioning | None = None) -> Plan:
    """The plan of an engine for images that come in this size, in pixels.

    :param parts: how belief propagation cuts the image; None = not at all.
    :raises ConfigError: as ``resolve``.
    """
    return lay_out(device, config, resolve(config, device), width, height, parts)


def lay_out(device: Properties, config: MatcherConfig, passes: Passes, width: int, height: int,
            parts: Partitioning | None = None) -> Plan:
    """As ``plan_of``, of a configuration whose passes are known."""
    return _lay_out(config, passes, parts, width, height, device)


def forget() -> None:
    """Drop plans made earlier; for tests that change what the choice depends on."""
    _lay_out.cache_clear()
    schedule.forget()


@functools.lru_cache(maxsize=256)
def _lay_out(config: MatcherConfig, passes: Passes, parts: Partitioning | None, width: int,
             height: int, device: Properties) -> Plan:
    size = geometry.reduced_size(config, width, height)
    parts = parts or partitions.whole(*size)
    resolved = passes[-1]
    matching = programs.matching('cuda', resolved)
    image = geometry.rectified_size(config, width, height)
    pinned = MemoryPlan.lay_out(memory.on_host((height, width), image[::-1]))
    found = Plan(resolved, *size, parts, config.downscale, *image, (width, height), MemoryPlan(()),
                 plan.first_plan(passes, *size, parts, functools.partial(lay_out, device)),
                 pinned, device, matching.launches(resolved, parts, device))
    return dataclasses.replace(found, memory=MemoryPlan.lay_out(memory.on_device(
        resolved, (height, width), image[::-1], size[::-1], config.downscale,
        matching.arrays(found))))
