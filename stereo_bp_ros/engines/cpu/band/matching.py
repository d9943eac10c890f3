"""Search of a narrow band: the stages ``cost`` and ``messages``.

Kernels are imported where they are called: a plan needs no Numba.
"""

from __future__ import annotations

from collections.abc import Mapping

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry, partitions
from stereo_bp_ros.engines.cpu import memory
from stereo_bp_ros.engines.cpu.band import layout
from stereo_bp_ros.engines.cpu.hierarchical.matching import Hierarchical
from stereo_bp_ros.engines.cpu.matching import Array, CpuMatching, Matches, stopwatch
from stereo_bp_ros.engines.cpu.plan import Plan, plan_of, resolve
from stereo_bp_ros.engines.geometry import Wanted

#: Begins the names of the arrays of the first pass.
COARSE = 'coarse_'


class Band(CpuMatching):
    """Belief propagation over labels near the map of a first pass; see ``MatcherConfig.coarse``.

    Partitions use the same costs and messages one after the other.
    """

    kernel_settings = (*Hierarchical.kernel_settings, 'searches_band')

    def __init__(self, plan: Plan, arrays: Mapping[str, Array]) -> None:
        super().__init__(plan, arrays)
        from stereo_bp_ros.engines.cpu.passes import Pass
        self._coarse_arrays = {name.removeprefix(COARSE): array for name, array in arrays.items()
                               if name.startswith(COARSE)}
        self._coarse = Pass(_coarse_plan(plan), self._coarse_arrays)
        self._slots = memory.row_slots(plan.config, 0, plan.parts.height)

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        return [*layout.arrays(plan.config, plan.width, plan.height, plan.parts),
                *((f'{COARSE}{array.name}', array.shape, array.dtype)
                  for array in _coarse_plan(plan).memory.arrays)]

    def match(self, config: ResolvedConfig, out: Matches, timings: dict[str, float]) -> None:
        from stereo_bp_ros.engines.cpu.band import centres, costs
        from stereo_bp_ros.engines.cpu.hierarchical import cost, labels, messages
        from stereo_bp_ros.engines.cpu.stages import preprocess
        plan, arrays, coarse = self._plan, self._arrays, resolve(config.coarse)
        with stopwatch(timings, 'preprocess'):
            for side in ('left', 'right'):
                preprocess.to_means(arrays[f'{side}_grey'], 2, 1.0,
                                    self._coarse_arrays[f'{side}_grey'])
        self._coarse.run(coarse, timings)
        with stopwatch(timings, 'cost'):
            centres.fill(self._coarse_arrays['final'], coarse, config, arrays)
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
                    costs.fill_fractions(arrays['data_cost'], level, *part.kept, out.label,
                                         out.fraction)


def _coarse_plan(plan: Plan) -> Plan:
    config = plan.config.coarse
    size = geometry.coarse_size(plan.width, plan.height)
    return plan_of(config, *size, partitions.of_coarse(config, *size, plan.parts))
