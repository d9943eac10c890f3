"""Hierarchical belief propagation: the stages ``cost``, ``messages`` and ``beliefs``."""

from __future__ import annotations

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import beliefs, cost, messages, preprocess, refine, tiling
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.engines.cuda.device import Properties
from stereo_bp_ros.engines.cuda.matching import Matching
from stereo_bp_ros.partitions import Partitioning


class Hierarchical(Matching):
    """See ``Matching``.

    :param passes: those of ``tiling.passes`` that the arena is laid out for.
    :param parts: how the image is cut. One after the other they use the same costs and messages;
        since the two stages alternate then, all of it is timed as ``messages``.
    """

    def __init__(self, found: Properties, config: MatcherConfig, width: int, height: int,
                 arena: Arena, passes: list[tiling.Pass], parts: Partitioning) -> None:
        super().__init__(found, config, width, height, arena)
        self._parts = parts.partitions
        self._cost = cost.Cost(found, config, width, arena, parts)
        self._passes = passes
        self._messages = messages.Messages(found, config, parts.width, parts.height, arena, passes)
        self._beliefs = beliefs.Beliefs(found, config, arena, passes, parts)
        self.stages = ('cost', 'messages') if passes and parts.count == 1 else ('cost',)

    def load(self, matched: str, has_whole_grey: bool) -> None:
        image = preprocess.PIXELS[matched]
        base = messages.base_cost(self._config, image, self._passes)
        self._cost.load(image, has_whole_grey, base)
        self._messages.load(base)
        self._beliefs.load(base)

    def initialise(self, stream: int) -> None:
        if self._config.message_type == 'int16':
            self._cost.initialise(stream)
        self._messages.initialise(stream)

    def enqueue(self, stream: int, matched: str, has_whole_grey: bool,
                wanted: refine.Steps, frame: refine.Frame) -> bool:
        device = self._arena.device
        # Published straight into the host's memory: that takes no longer than a copy of its
        # own, and a tile's part travels while other tiles are worked on.
        publishes = wanted.is_local and len(self._parts) == 1
        image = preprocess.PIXELS[matched]
        base = messages.base_cost(self._config, image, self._passes)
        for i, part in enumerate(self._parts):
            self._cost.enqueue(stream, image, has_whole_grey, device[f'left_{matched}'],
                               device[f'right_{matched}'], part,
                               self._arena.stamp('cost') if i == 0 else None, base)
            out = beliefs.matches(self._config, self._width, self._height, self._arena, part,
                                  wanted.fraction, wanted.costs, wanted.right)
            self._messages.enqueue(stream, base, out, frame if publishes else None)
            self._beliefs.enqueue(stream, base, out, frame if publishes else None)
        if wanted.right:
            beliefs.take_right_labels(self._found, stream, self._arena)
        return publishes
