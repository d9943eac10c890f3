"""Hierarchical belief propagation: the stages ``cost``, ``messages`` and ``labels``."""

from __future__ import annotations

from typing import Any

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda import memory
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.costs import fractions
from stereo_bp_ros.engines.cuda.costs import stage as combined
from stereo_bp_ros.engines.cuda.hierarchical import (
    cost,
    edges,
    formats,
    labels,
    messages,
    schedule,
)
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.hierarchical.launch import Launch
from stereo_bp_ros.engines.cuda.matching import CudaMatching
from stereo_bp_ros.engines.cuda.plan import Plan
from stereo_bp_ros.engines.cuda.runtime.device import Properties
from stereo_bp_ros.engines.cuda.stages import preprocess, refine, right_labels
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.engines.partitions import Partitioning
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.papers import programs


class Hierarchical(CudaMatching):
    """See ``CudaMatching``.

    :param launches: those of ``schedule.launches`` that the arena is laid out for.
    :param parts: how the image is cut. One after the other they use the same costs and messages;
        since the two stages alternate then, all of it is timed as ``messages``.
    """

    @classmethod
    def check(cls, config: ResolvedConfig, device: Any = None) -> None:
        if config.message_type == 'float16':
            raise ConfigError('message_type', config.message_type,
                              f'CUDA computes it in program {programs.OF_FLOAT16} alone: use '
                              'that, or backend cpu or auto')
        for name in ('partition_columns', 'partition_rows'):
            if config.exact and getattr(config, name) > 1:
                raise ConfigError(name, getattr(config, name), 'CUDA computes exact on whole '
                                  'images: use backend cpu or auto')
        if config.exact and isinstance(config.iterations, str):
            raise ConfigError('iterations', config.iterations, 'CUDA computes exact with one '
                              'number for all levels: use backend cpu or auto')

    @classmethod
    def replacement(cls, config: ResolvedConfig, device: Properties) -> ResolvedConfig:
        """``exact``: a program that sums and takes means in the order of the reference maps."""
        if not config.exact:
            return config
        return config.replace(**programs.exact_sums(config.disparity_range))

    @classmethod
    def launches(cls, config: ResolvedConfig, parts: Partitioning, device: Properties
                 ) -> tuple[Launch, ...]:
        return tuple(schedule.launches(config, parts.width, parts.height, device))

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        config, parts = plan.config, plan.parts
        pyramid = formats.levels(config, parts.width, parts.height)
        message = MessageFormat.of(config)
        wanted: Wanted = [('nothing', (16,), 'uint8')]
        if config.has_combined_cost:
            wanted += combined.arrays(config, (plan.height, plan.width), parts)
            wanted += edges.arrays(config, parts)
        else:
            wanted.append(('table', (256,), 'uint16'))
        for k, level in enumerate(pyramid):
            kept = CostFormat.of(config, k)
            wanted.append((f'cost_{k}', (level.height, 2, message.chunks * kept.units,
                                         level.columns, kept.unit_bytes), 'uint8'))
        for name in schedule.message_arrays(config, plan.launches):
            level = pyramid[int(name.split('_')[1])]
            wanted.append((name, (level.height, 4, message.units, level.columns,
                                  message.unit_bytes), 'uint8'))
        for i, step in enumerate(plan.launches):
            lists, _ = schedule.nodes_of(step)
            wanted.append((f'nodes_{i}', (2, max(map(len, lists))), 'uint32'))
        return [*wanted, *memory.matches(config, (plan.height, plan.width))]

    @classmethod
    def of(cls, context: Context, plan: Plan) -> Hierarchical:
        return cls(context, list(plan.launches), plan.parts)

    def __init__(self, context: Context, launches: list[Launch], parts: Partitioning) -> None:
        super().__init__(context)
        self._parts = parts.partitions
        stage = combined.CombinedCost if self._config.has_combined_cost else cost.Cost
        self._cost = stage(context, parts)
        self._launches = launches
        self._messages = messages.Messages(context, launches, parts)
        self._labels = labels.Labels(context, launches, parts)
        self._fractions = (fractions.Fractions(context, parts) if self._config.has_combined_cost
                           else None)
        self._edges = (edges.Edges(context, parts)
                       if self._config.discontinuity_edge_threshold else None)
        self.stages = ('cost', 'messages') if launches and parts.count == 1 else ('cost',)

    def load(self, matched: str, has_whole_grey: bool) -> None:
        image = preprocess.PIXELS[matched]
        base = messages.base_cost(self._config, image, self._launches)
        self._cost.load(image, has_whole_grey, base)
        self._messages.load(base)
        self._labels.load(base)
        if self._edges:
            self._edges.load(image)
        if self._fractions:
            self._fractions.load()

    def initialise(self, stream: int) -> None:
        if MessageFormat.of(self._config).is_int16:
            self._cost.initialise(stream)
        self._messages.initialise(stream)

    def enqueue(self, stream: int, matched: str, has_whole_grey: bool,
                wanted: refine.Steps, frame: refine.Frame) -> bool:
        device = self._arena.device
        # Of the data cost, or else of the beliefs, by what selects labels.
        of_costs = self._fractions if wanted.fraction else None
        # Published straight into the host's memory: that takes no longer than a copy of its
        # own, and a tile's part travels while other tiles are worked on.
        publishes = wanted.is_local and len(self._parts) == 1 and of_costs is None
        image = preprocess.PIXELS[matched]
        base = messages.base_cost(self._config, image, self._launches)
        for i, part in enumerate(self._parts):
            self._cost.enqueue(stream, image, has_whole_grey, device[f'left_{matched}'],
                               device[f'right_{matched}'], part,
                               self._arena.stamp('cost') if i == 0 else None, base)
            if self._edges:
                self._edges.enqueue(stream, image, device[f'left_{matched}'], part)
            out = labels.matches(self._config, self._width, self._height, self._arena, part,
                                 wanted.fraction and of_costs is None, wanted.costs,
                                 wanted.right)
            self._messages.enqueue(stream, base, out, frame if publishes else None)
            self._labels.enqueue(stream, base, out, frame if publishes else None)
            if of_costs:
                of_costs.enqueue(stream, part)
        if wanted.right:
            right_labels.enqueue(self._device, stream, self._arena, 'uint64')
        return publishes
