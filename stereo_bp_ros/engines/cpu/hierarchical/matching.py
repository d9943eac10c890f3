"""Hierarchical belief propagation: the stages ``cost`` and ``messages``.

Kernels are imported where they are called: a plan needs no Numba.
"""

from __future__ import annotations

from collections.abc import Mapping

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cpu import memory
from stereo_bp_ros.engines.cpu.costs import layout
from stereo_bp_ros.engines.cpu.matching import Array, CpuMatching, Matches, stopwatch
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.engines.geometry import Wanted


class Hierarchical(CpuMatching):
    """See ``CpuMatching``. Partitions use the same costs and messages one after the other."""

    kernel_settings = ('message_type', 'exact', 'discontinuity_first_step',
                       'discontinuity_edge_threshold', 'path_aggregation',
                       *(f'{name}_weight' for name in layout.COSTS))

    def __init__(self, plan: Plan, arrays: Mapping[str, Array]) -> None:
        super().__init__(plan, arrays)
        config, parts = plan.config, plan.parts
        self._levels = memory.levels(config, parts.width, parts.height)
        self._slots = [memory.row_slots(config, k, level.height)
                       for k, level in enumerate(self._levels)]

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        return memory.belief_propagation(plan.config, plan.width, plan.height, plan.parts)

    def match(self, config: ResolvedConfig, out: Matches, timings: dict[str, float]) -> None:
        from stereo_bp_ros.engines.cpu.costs import volume
        from stereo_bp_ros.engines.cpu.hierarchical import cost, labels, messages
        plan, arrays, levels = self._plan, self._arrays, self._levels
        for part in plan.parts.partitions:
            with stopwatch(timings, 'cost'):
                truncations = cost.edge_truncations(config, part, arrays)
                cost.fill_costs(plan, config, part, levels, arrays)
            with stopwatch(timings, 'messages'):
                messages.pass_messages(plan, config, levels, self._slots, arrays,
                                       labels.selection(config, part, out, arrays), truncations)
                if config.has_combined_cost and config.subpixel:
                    left, top, right, bottom = part.kept
                    volume.fill_fractions(bottom - top, arrays['data_cost'], levels[0], part.x,
                                          part.y, left, top, right, out.label, out.fraction)
