"""Searches the split of hybrid storage that is fastest, by the walk of LCPC 2010."""

from __future__ import annotations

from typing import Any

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda.hierarchical.search import Candidate, Search
from stereo_bp_ros.engines.cuda.runtime import device
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.papers.plain_steps import cuda_arrays, occupancy
from stereo_bp_ros.papers.programs import TUNED_SETTINGS


class OccupancyWalk(Search):
    """The LCPC 2010 paper's walk (section 7) over what hybrid storage can be."""

    def __init__(self, *arguments: Any, limits: occupancy.Limits, **more: Any) -> None:
        self._walk = {f'occupancy {most:.2f}': settings_of(walked) for most, walked in
                      occupancy.candidates(limits, arguments[0].disparity_range,
                                              value_bytes=cuda_arrays.VALUE_BYTES)}
        super().__init__(*arguments, **more)

    def _groups(self) -> list[str]:
        return list(self._walk)

    def _candidates(self, group: str) -> list[Candidate]:
        """One; none where the paper's split is more than a block of the device can hold."""
        settings = self._walk[group]
        try:
            cuda_arrays.check(self._config.replace(**settings), self._device)
        except ConfigError:
            return []
        return [settings]

    def _everything(self) -> list[Candidate]:
        return [candidate for group in self._groups() if group not in self._done
                for candidate in self._candidates(group)]


def settings_of(walked: occupancy.Walked) -> Candidate:
    """What the walk has chosen, as settings."""
    return dict(zip(TUNED_SETTINGS,
                    (walked.split.registers, walked.split.shared, walked.block_width,
                     walked.block_height, walked.blocks), strict=True))


def device_limits(index: int) -> occupancy.Limits:
    """What ``occupancy`` wants to know about a device that is there."""
    from cupy.cuda import runtime
    known = runtime.getDeviceProperties(index)
    return occupancy.Limits(
        threads=known['maxThreadsPerMultiProcessor'],
        blocks=known['maxBlocksPerMultiProcessor'], registers=known['regsPerMultiprocessor'],
        thread_registers=255, shared_memory=known['sharedMemPerMultiprocessor'],
        block_shared_memory=known['sharedMemPerBlockOptin'],
        block_reserve=known['reservedSharedMemPerBlock'],
        block_threads=known['maxThreadsPerBlock'])


def occupancy_walk(config: MatcherConfig, initial_values: int, most_values: int
                   ) -> list[tuple[float, Candidate]]:
    """The walk of LCPC 2010 (section 7) for the CUDA device and ``disparity_range`` values.

    Returns the most occupancy, 0 to 1, and the settings of ``storage: hybrid`` of each
    configuration that differs from the one before.

    :param initial_values, most_values: NUM_REG_VALUES_INITIAL and MAX_REG_VALUES of the paper.
    :raises BackendUnavailable: there is no CUDA device.
    """
    device.require(config.device_id)
    return [(most, settings_of(walked)) for most, walked in
            occupancy.candidates(device_limits(config.device_id), config.disparity_range,
                                 value_bytes=cuda_arrays.VALUE_BYTES,
                                 initial_values=initial_values, most_values=most_values)]
