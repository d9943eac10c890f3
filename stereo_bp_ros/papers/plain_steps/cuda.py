"""Belief propagation in the papers' plain steps, to repeat their experiments.

Grauer-Gray & Cavazos, LCPC 2010: where the values of a message lie while it is computed.
Grauer-Gray, "Optimizing Global Stereo Matching on NVIDIA GPUs and CPUs": number types, layouts and
allocation. The kernels are those of ``plain_steps.cu``; ``docs/papers/storage.md`` describes them.
"""

from __future__ import annotations

import ctypes
from typing import Any

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import partitions
from stereo_bp_ros.engines.cuda import memory as engine_memory
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical import labels
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.matching import CudaMatching
from stereo_bp_ros.engines.cuda.plan import Plan
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.arena import Arena
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.cuda.stages import preprocess, refine, right_labels
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.papers.plain_steps import cuda_arrays

#: Blocks of the kernels around the messages.
BLOCK = (32, 4, 1)


@declared_in('papers/plain_steps.cuh')
class StorageLevel(ctypes.Structure):
    """``StorageLevel`` in ``plain_steps.cuh``."""


@declared_in('papers/plain_steps.cu')
class StorageCost(ctypes.Structure):
    """``StorageCost`` in ``plain_steps.cu``."""


@declared_in('papers/plain_steps.cu')
class StorageLaunch(ctypes.Structure):
    """``StorageLaunch`` in ``plain_steps.cu``."""


class Memory:
    """Where the costs and messages of one frame lie; ``allocation`` says since when."""

    def __init__(self, config: ResolvedConfig, levels: list[cuda_arrays.Level],
                 arena: Arena) -> None:
        self._levels = levels
        self._is_separate = config.plain_steps.allocation == 'separate'
        self._costs, self._sent, self._size = cuda_arrays.block_offsets(config, levels)
        self._block = arena.device.get('storage', 0)
        self._held: list[int] = []      # what this frame has allocated
        self._places: dict[tuple[str, int], list[int]] = {}

    def begin(self) -> None:
        """Start a frame."""
        self._places.clear()
        block = self._block
        if not block and not self._is_separate:
            block = self._allocate(self._size)
        if block:
            for k, level in enumerate(self._levels):
                self._places['cost', k] = [block + self._costs[k] + at for at in level.cost]
                self._places['sent', k] = [block + self._sent[k] + at for at in level.sent]

    def take(self, what: str, k: int) -> None:
        """Have the 'cost' or 'sent' arrays of a level."""
        if (what, k) not in self._places:
            level = self._levels[k]
            starts, size = ((level.cost, level.cost_bytes) if what == 'cost'
                            else (level.sent, level.sent_bytes))
            self._places[what, k] = [self._allocate(size // len(starts)) for _ in starts]

    def leave(self, what: str, k: int) -> None:
        """Be done with arrays of a level; the device finishes with them first."""
        if self._is_separate:
            from cupy.cuda import runtime
            for address in self._places.pop((what, k)):
                self._held.remove(address)
                runtime.free(address)

    def end(self) -> None:
        """Give back whatever the frame has allocated."""
        from cupy.cuda import runtime
        while self._held:
            runtime.free(self._held.pop())

    def level(self, k: int) -> StorageLevel:
        """A level as kernels are given it; null = not there."""
        level = self._levels[k]
        sent = self._places.get(('sent', k), [0] * 8)
        return StorageLevel(tuple(self._places['cost', k]), (tuple(sent[:4]), tuple(sent[4:])),
                            level.width, level.height, level.pitch)

    def _allocate(self, size: int) -> int:
        from cupy.cuda import runtime
        self._held.append(int(runtime.malloc(size)))
        return self._held[-1]


class PlainSteps(CudaMatching):
    """See ``CudaMatching``."""

    stages = ('cost', 'messages')

    @classmethod
    def check(cls, config: ResolvedConfig, device: Any = None) -> None:
        cuda_arrays.check(config, device)

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        return [*cuda_arrays.arrays(plan.config, plan.width, plan.height),
                *engine_memory.matches(plan.config, (plan.height, plan.width))]

    @classmethod
    def local_accesses(cls, config: ResolvedConfig, width: int, height: int) -> tuple[int, int]:
        return cuda_arrays.local_accesses(config, width, height)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._image = partitions.whole(self._width, self._height).partitions[0]
        self._levels = cuda_arrays.levels(self._config, self._width, self._height)
        self._memory = Memory(self._config, self._levels, self._arena)
        self.can_be_captured = self._config.plain_steps.allocation == 'once'

    def load(self, matched: str, has_whole_grey: bool) -> None:
        for name in cuda_arrays.kernels(self._config, preprocess.PIXELS[matched]).values():
            compiler.kernel(self._device, 'papers/plain_steps.cu', name)
        right_labels.load(self._device, 'uint64')

    def enqueue(self, stream: int, matched: str, has_whole_grey: bool,
                wanted: refine.Steps, frame: refine.Frame) -> bool:
        device = self._arena.device
        names = cuda_arrays.kernels(self._config, preprocess.PIXELS[matched])
        out = labels.matches(self._config, self._width, self._height, self._arena, self._image,
                             wanted.fraction, wanted.costs, wanted.right)
        self._memory.begin()
        try:
            self._enqueue_costs(stream, names, device[f'left_{matched}'],
                                device[f'right_{matched}'])
            self._enqueue_messages(stream, names, out)
        finally:
            self._memory.end()
        if wanted.right:
            right_labels.enqueue(self._device, stream, self._arena, 'uint64')
        return False

    def _enqueue_costs(self, stream: int, names: dict[str, str], left: int, right: int) -> None:
        config, memory = self._config, self._memory
        factor = config.data_weight * quantisation.message_scale(config)
        memory.take('cost', 0)
        self._launch(stream, names['costs'], 0, StorageCost(
            left, right, memory.level(0), config.min_disparity, factor, config.data_truncation,
            factor, config.data_truncation, self._arena.stamp('cost')))
        for k in range(1, config.levels):
            memory.take('cost', k)
            self._launch(stream, names['parents_1' if k == 1 else 'parents'], k,
                         memory.level(k - 1), memory.level(k))

    def _enqueue_messages(self, stream: int, names: dict[str, str],
                          out: labels.Matches) -> None:
        from cupy.cuda import runtime
        config, memory = self._config, self._memory
        stamp = self._arena.stamp('messages')
        top = config.levels - 1
        for k in reversed(range(config.levels)):
            memory.take('sent', k)
            level = memory.level(k)
            if k == top:
                values = self._levels[k].sent_bytes // 8
                for sent in level.sent:
                    for address in sent:
                        runtime.memsetAsync(address, 0, values, stream)
            else:
                self._launch(stream, names['copy'], k + 1, memory.level(k + 1), level,
                             ctypes.c_void_p(stamp))
                stamp = 0
                memory.leave('sent', k + 1)
                memory.leave('cost', k + 1)
            for iteration in range(config.iterations_of_levels[0]):
                self._send(stream, names['send' if k else 'send_0'], level, iteration, stamp)
                stamp = 0
        self._launch(stream, names['labels'], 0, memory.level(0), out, ctypes.c_void_p(stamp))

    def _send(self, stream: int, name: str, level: StorageLevel, iteration: int,
              stamp: int) -> None:
        config = self._config
        message = MessageFormat.of(config)
        slope, truncation = message.slope, message.truncation
        if config.message_type == 'float32':
            # As the reference maps: a step beyond the truncation is cut, not lowered.
            slope = config.discontinuity_slope
        width, height = config.plain_steps.block_width, config.plain_steps.block_height
        columns = width * cuda_arrays.nodes_of_thread(config)
        compiler.kernel(self._device, 'papers/plain_steps.cu', name).launch(
            stream, (-(-((level.width + 1) // 2) // columns), -(-level.height // height), 1),
            (width, height, 1), cuda_arrays.shared_bytes(config),
            StorageLaunch(level, (iteration + 1) % 2, int(slope), int(truncation), slope,
                          truncation, stamp))

    def _launch(self, stream: int, name: str, k: int, *arguments: Any) -> None:
        """One thread for each node of a level."""
        level = self._levels[k]
        compiler.kernel(self._device, 'papers/plain_steps.cu', name).launch(
            stream, (-(-level.width // BLOCK[0]), -(-level.height // BLOCK[1]), 1), BLOCK, 0,
            *arguments)
