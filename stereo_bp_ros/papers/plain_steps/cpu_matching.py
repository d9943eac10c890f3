"""The plain steps on the CPU as a way to match.

Kernels are imported where they are called: a plan needs no Numba.
"""

from __future__ import annotations

from typing import Any

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cpu.matching import CpuMatching, Matches, stopwatch
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.papers.plain_steps import cpu_arrays


class PlainSteps(CpuMatching):
    """See ``CpuMatching``."""

    kernel_settings = ('message_type', 'plain_steps.layout', 'plain_steps.vectorised')

    @classmethod
    def check(cls, config: ResolvedConfig, device: Any = None) -> None:
        cpu_arrays.check(config)

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        return cpu_arrays.arrays(plan.config, plan.width, plan.height, plan.threads)

    def match(self, config: ResolvedConfig, out: Matches, timings: dict[str, float]) -> None:
        from stereo_bp_ros.papers.plain_steps import cpu
        arrays = self._arrays
        levels = cpu_arrays.levels(config, self._plan.width, self._plan.height)
        with stopwatch(timings, 'cost'):
            memory = cpu.Memory(config, levels, arrays)
            cpu.data_cost(arrays['left_matched'], arrays['right_matched'], config, levels, memory)
        with stopwatch(timings, 'messages'):
            cpu.pass_messages(config, levels, memory, arrays['plain_values'])
            cpu.choose_labels(config, levels, memory, out, arrays)
