"""Search of a narrow band: the stages ``cost`` and ``messages``.

Kernels are imported where they are called: a plan needs no Numba.
"""

from __future__ import annotations

from collections.abc import Mapping

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cpu import memory
from stereo_bp_ros.engines.cpu.band import layout
from stereo_bp_ros.engines.cpu.hierarchical.matching import Hierarchical
from stereo_bp_ros.engines.cpu.matching import (
    FIRST_PASS,
    Array,
    CpuMatching,
    Matches,
    stopwatch,
)
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.engines.geometry import Wanted


class Band(CpuMatching):
    """Belief propagation over labels near the map of the first pass, ``Plan.first``.

    Partitions use the same costs and messages one after the other.
    """

    kernel_settings = (*Hierarchical.kernel_settings, 'searches_band')

    def __init__(self, plan: Plan, arrays: Mapping[str, Array]) -> None:
        super().__init__(plan, arrays)
        self._slots = memory.row_slots(plan.config, 0, plan.parts.height)

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        assert plan.first is not None
        return [*layout.arrays(plan.config, plan.width, plan.height, plan.parts),
                *((f'{FIRST_PASS}{array.name}', array.shape, array.dtype)
                  for array in plan.first.memory.arrays)]

    def match(self, config: ResolvedConfig, out: Matches, timings: dict[str, float]) -> None:
        from stereo_bp_ros.engines.cpu.band import centres, costs
        from stereo_bp_ros.engines.cpu.hierarchical import cost, labels, messages
        plan, arrays = self._plan, self._arrays
        assert plan.first is not None
        with stopwatch(timings, 'cost'):
            centres.fill(arrays[f'{FIRST_PASS}final'], plan.first.config, config, arrays)
        for part in plan.parts.partitions:
            level = layout.BandLevel(plan.parts.width, plan.parts.height, config.band_radius,
                                     arrays['centres'], arrays['shifts'], part.x, part.y)
            with stopwatch(timings, 'cost'):
                truncations = cost.edge_truncations(config, part, arrays)
                costs.leave_border_out(arrays['truncations_0'], level.width)
                costs.fill(plan, config, level, arrays)
            with stopwatch(timings, 'messages'):
                messages.pass_messages(plan, config, [level], [self._slots], arrays,
                                       labels.selection(config, part, out, arrays), truncations)
                if config.subpixel:
                    left, top, right, bottom = part.kept
                    costs.fill_fractions(bottom - top, arrays['data_cost'], level, left, top,
                                         right, out.label, out.fraction)
