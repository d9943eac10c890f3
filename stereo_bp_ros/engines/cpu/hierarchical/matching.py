"""Hierarchical belief propagation: the stages ``cost`` and ``messages``.

Kernels are imported where they are called: a plan needs no Numba.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stereo_bp_ros.config import ResolvedConfig, quantisation
from stereo_bp_ros.engines.cpu import memory
from stereo_bp_ros.engines.cpu.costs import layout
from stereo_bp_ros.engines.cpu.matching import Array, CpuMatching, Matches, stopwatch
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.geometry import Wanted


class Hierarchical(CpuMatching):
    """See ``CpuMatching``. Partitions use the same costs and messages one after the other."""

    kernel_settings = ('message_type', 'exact', 'discontinuity_first_step',
                       'discontinuity_edge_threshold', 'path_sums',
                       *(f'{name}_weight' for name in layout.COSTS))

    def __init__(self, plan: Plan, arrays: Mapping[str, Array]) -> None:
        super().__init__(plan, arrays)
        config, parts = plan.config, plan.parts
        self._levels = memory.levels(config, parts.width, parts.height)
        self._slots = [memory.row_slots(config, k, level.height)
                       for k, level in enumerate(self._levels)]
        self._no_least = np.empty((0, 0), memory.sum_dtype(config))

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        return memory.belief_propagation(plan.config, plan.width, plan.height, plan.parts)

    def match(self, config: ResolvedConfig, out: Matches, timings: dict[str, float]) -> None:
        from stereo_bp_ros.engines.cpu.costs import fractions
        from stereo_bp_ros.engines.cpu.hierarchical import cost, edges, labels, messages
        arrays = self._arrays
        costs = [arrays[f'cost_{k}'].reshape(-1) for k in range(config.levels)]
        passed = [arrays[f'messages_{k}'].reshape(-1) for k in range(config.levels)]
        for part in self._plan.parts.partitions:
            truncations = None
            with stopwatch(timings, 'cost'):
                if config.discontinuity_edge_threshold:
                    grey = arrays['left_smoothed' if config.smoothing_sigma else 'left_grey']
                    truncations = edges.find(config, grey, part, self._levels, arrays)
                if config.has_combined_cost:
                    cost.combined_cost(config, self._plan.width, part.x, part.y, self._levels,
                                       costs, arrays, self._plan.threads)
                else:
                    cost.data_cost(arrays['left_matched'], arrays['right_matched'], part.x,
                                   part.y, self._levels, config.min_disparity,
                                   config.data_weight, config.data_truncation,
                                   quantisation.message_scale(config), costs,
                                   arrays['image_rows'], arrays['cost_rows'])
            with stopwatch(timings, 'messages'):
                found = labels.selection(
                    part, config.min_disparity, *out,
                    arrays.get('right_least', self._no_least), arrays['belief_rows'],
                    arrays['selected_rows'], arrays['right_rows'],
                    needs_all_partners=not config.has_combined_cost)
                messages.pass_messages(
                    self._levels, costs, passed, self._slots, arrays['message_vectors'],
                    self._plan.threads, config.iterations_of_levels,
                    *quantisation.message_smoothness(config), quantisation.first_step(config),
                    config.exact, found, truncations)
                if config.has_combined_cost and config.subpixel:
                    fractions.take(arrays['data_cost'], self._levels[0], part, out.label,
                                   out.fraction)
