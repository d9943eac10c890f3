"""The plan of a CUDA engine: its launches and arrays. No CuPy here."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from stereo_bp_ros import geometry, partitions
from stereo_bp_ros.config import MatcherConfig, ResolvedConfig
from stereo_bp_ros.engines import backend, programs
from stereo_bp_ros.engines.cuda import memory
from stereo_bp_ros.engines.cuda.hierarchical import schedule, tuning
from stereo_bp_ros.engines.cuda.hierarchical.launch import Launch, Tiling
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL, Properties
from stereo_bp_ros.geometry import MemoryPlan
from stereo_bp_ros.partitions import Partitioning


@dataclasses.dataclass(frozen=True)
class Plan(backend.Plan):
    """See ``backend.Plan``.

    pinned: the arrays on the host, through which everything goes to and from the device.
    settings: of the way to match, that the tuner has found.
    tilings: of levels, in place of the engine's own choice, each as (level, tiling).
    launches: over the messages, coarsest level first; () without hierarchical messages.
    """

    pinned: MemoryPlan
    device: Properties
    settings: tuple[tuple[str, int], ...]
    tilings: tuple[tuple[int, Tiling], ...]
    launches: tuple[Launch, ...]

    @property
    def with_levels(self) -> Plan:
        """The plan whose levels are tuned: this one, or that of a first pass."""
        with_levels: Plan = programs.matching('cuda', self.config).with_levels(self)
        return with_levels


def resolve(config: MatcherConfig, device: Properties = TYPICAL) -> ResolvedConfig:
    """The configuration with which a device matches reduced images.

    Tuned tilings are stored and looked up by it.

    :raises ConfigError: a setting that this engine cannot compute.
    """
    reduced = ResolvedConfig(config.reduced)
    programs.check('cuda', reduced, device)
    replaced: ResolvedConfig = programs.matching('cuda', reduced).replacement(reduced, device)
    if replaced is not reduced:
        programs.check('cuda', replaced, device)
    return replaced


def plan_of(config: MatcherConfig, width: int, height: int, device: Properties = TYPICAL,
            tilings: Mapping[int, Tiling] | None = None, parts: Partitioning | None = None,
            settings: Mapping[str, int] | None = None) -> Plan:
    """The plan of an engine for images that come in this size, in pixels.

    :param tilings: level to tiling, in place of the engine's own choice.
    :param parts: how belief propagation cuts the image; None = not at all.
    :param settings: in place of the configuration's, where the tuner was left to choose them.
    :raises ConfigError: as ``resolve``.
    """
    return _plan_of(config, parts, width, height, device,
                    tuple((tilings or {}).items()), tuple((settings or {}).items()))


def tuned_plan(config: MatcherConfig, width: int, height: int, device: Properties,
               tilings: Mapping[int, Tiling] | None = None,
               parts: Partitioning | None = None) -> Plan:
    """As ``plan_of``, with what the tuner has found on this machine where no tilings are given."""
    if tilings is not None:
        return plan_of(config, width, height, device, tilings, parts)
    with_levels = plan_of(config, width, height, device, None, parts).with_levels
    tuned = tuning.look_up(with_levels.config, with_levels.parts.width, with_levels.parts.height,
                           device)
    return plan_of(config, width, height, device, tuned.tilings, parts, tuned.settings)


def forget() -> None:
    """Drop plans made earlier; for tests that change what the choice depends on."""
    _plan_of.cache_clear()
    schedule.forget()


@functools.lru_cache(maxsize=256)
def _plan_of(config: MatcherConfig, parts: Partitioning | None, width: int, height: int,
             device: Properties, tilings: tuple[tuple[int, Tiling], ...],
             settings: tuple[tuple[str, int], ...]) -> Plan:
    size = geometry.reduced_size(config, width, height)
    parts = parts or partitions.whole(*size)
    resolved = resolve(config, device)
    matching = programs.matching('cuda', resolved)
    image = geometry.rectified_size(config, width, height)
    pinned = MemoryPlan.lay_out(memory.on_host((height, width), image[::-1]))
    plan = Plan(resolved, *size, parts, config.downscale, *image, (width, height),
                MemoryPlan(()), pinned, device, settings, tilings,
                matching.launches(resolved, parts, device, dict(tilings)))
    return dataclasses.replace(plan, memory=MemoryPlan.lay_out(memory.on_device(
        resolved, (height, width), image[::-1], size[::-1], config.downscale,
        matching.arrays(plan))))
