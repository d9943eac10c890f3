"""The plan of a CUDA engine: its launches and arrays. No CuPy here."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from stereo_bp_ros import geometry, partitions
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines import plan, programs
from stereo_bp_ros.engines.cuda import memory
from stereo_bp_ros.engines.cuda.hierarchical import schedule, tuning
from stereo_bp_ros.engines.cuda.hierarchical.launch import Launch, Tiling
from stereo_bp_ros.engines.cuda.matching import CudaMatching
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL, Properties
from stereo_bp_ros.partitions import Partitioning


@dataclasses.dataclass(frozen=True)
class Plan(plan.Plan):
    """See ``plan.Plan``.

    matching: the way to match, and ``settings`` that the tuner has found for it.
    launches: over the messages, coarsest level first; () without hierarchical messages.
    """

    device: Properties
    matching: type[CudaMatching]
    settings: tuple[tuple[str, int], ...]
    launches: tuple[Launch, ...]

    @functools.cached_property
    def memory(self) -> geometry.MemoryPlan:
        """The arrays on the device."""
        return geometry.MemoryPlan.lay_out(memory.on_device(
            self.config, self.source[::-1], (self.image_height, self.image_width),
            (self.height, self.width), self.downscale, self.matching.arrays(self)))

    @functools.cached_property
    def pinned(self) -> geometry.MemoryPlan:
        """The arrays on the host, through which everything goes to and from the device."""
        return geometry.MemoryPlan.lay_out(memory.on_host(
            self.source[::-1], (self.image_height, self.image_width)))


def check(config: MatcherConfig, device: Properties = TYPICAL) -> None:
    """Refuse what this engine cannot compute.

    :raises ConfigError: names the setting and the limit.
    """
    reduced = config.reduced
    programs.check('cuda', reduced, device)
    replaced = computed(config, device)
    if replaced is not reduced:
        programs.check('cuda', replaced, device)


def computed(config: MatcherConfig, device: Properties) -> MatcherConfig:
    """The configuration with which a device matches reduced images; that of ``Plan.config``.

    Tuned tilings are stored and looked up by it. It computes itself.
    """
    config = config.reduced
    matching: type[CudaMatching] = programs.matching('cuda', config)
    return matching.replacement(config, device)


def plan_of(config: MatcherConfig, width: int, height: int, device: Properties = TYPICAL,
            tilings: Mapping[int, Tiling] | None = None, parts: Partitioning | None = None,
            settings: Mapping[str, int] | None = None) -> Plan:
    """The plan of an engine for images that come in this size, in pixels.

    :param tilings: level to tiling, in place of the engine's own choice.
    :param parts: how belief propagation cuts the image; None = not at all.
    :param settings: in place of the configuration's, where the tuner was left to choose them.
    :raises ConfigError: as ``check``.
    """
    return _plan_of(config, parts, width, height, device,
                    tuple((tilings or {}).items()), tuple((settings or {}).items()))


def tuned_plan(config: MatcherConfig, width: int, height: int, device: Properties,
               tilings: Mapping[int, Tiling] | None = None,
               parts: Partitioning | None = None) -> Plan:
    """As ``plan_of``, with what the tuner has found on this machine where no tilings are given."""
    if tilings is not None:
        return plan_of(config, width, height, device, tilings, parts)
    matched = parts or partitions.whole(*geometry.reduced_size(config, width, height))
    tuned = tuning.look_up(computed(config, device), matched.width, matched.height, device)
    return plan_of(config, width, height, device, tuned.tilings, parts, tuned.settings)


def forget() -> None:
    """Drop plans made earlier; for tests that change what the choice depends on."""
    _plan_of.cache_clear()
    schedule.forget()


@functools.lru_cache(maxsize=256)
def _plan_of(config: MatcherConfig, parts: Partitioning | None, width: int, height: int,
             device: Properties, tilings: tuple[tuple[int, Tiling], ...],
             settings: tuple[tuple[str, int], ...]) -> Plan:
    check(config, device)
    size = geometry.reduced_size(config, width, height)
    factor, parts = config.downscale, parts or partitions.whole(*size)
    config = computed(config, device)
    matching: type[CudaMatching] = programs.matching('cuda', config)
    return Plan(config, *size, parts, factor, *geometry.rectified_size(config, width, height),
                (width, height), device, matching, settings,
                matching.launches(config, parts, device, dict(tilings)))
