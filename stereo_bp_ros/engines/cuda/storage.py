"""Belief propagation in the papers' plain steps, to repeat their experiments.

Grauer-Gray & Cavazos, LCPC 2010: where the values of a message lie while it is computed.
Grauer-Gray, "Optimizing Global Stereo Matching on NVIDIA GPUs and CPUs": number types, layouts and
allocation. The kernels are those of ``storage.cu``; ``docs/storage.md`` compares them.
"""

from __future__ import annotations

import ctypes
from typing import Any

from stereo_bp_ros import partitions
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import (
    beliefs,
    compiler,
    layout,
    preprocess,
    refine,
    storage_layout,
)
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.engines.cuda.device import Properties
from stereo_bp_ros.engines.cuda.matching import Matching
from stereo_bp_ros.engines.cuda.storage_plan import Limits

#: Blocks of the kernels around the messages.
BLOCK = (32, 4, 1)

_Pair = ctypes.c_void_p * 2
_Four = ctypes.c_void_p * 4


class StorageLevel(ctypes.Structure):
    """``StorageLevel`` in ``storage.cuh``."""

    _fields_ = (('cost', _Pair), ('sent', _Four * 2), ('width', ctypes.c_int),
                ('height', ctypes.c_int), ('pitch', ctypes.c_int))


class StorageCost(ctypes.Structure):
    """``StorageCost`` in ``storage.cu``."""

    _fields_ = (('left', ctypes.c_void_p), ('right', ctypes.c_void_p), ('level', StorageLevel),
                ('min_disparity', ctypes.c_int), ('factor', ctypes.c_double),
                ('truncation', ctypes.c_double), ('float_factor', ctypes.c_float),
                ('float_truncation', ctypes.c_float), ('stamp', ctypes.c_void_p))


class StoragePass(ctypes.Structure):
    """``StoragePass`` in ``storage.cu``."""

    _fields_ = (('level', StorageLevel), ('colour', ctypes.c_int), ('slope', ctypes.c_int),
                ('truncation', ctypes.c_int), ('float_slope', ctypes.c_float),
                ('float_truncation', ctypes.c_float), ('stamp', ctypes.c_void_p))


class Memory:
    """Where the costs and messages of one frame lie; ``allocation`` says since when."""

    def __init__(self, config: MatcherConfig, levels: list[storage_layout.Level],
                 arena: Arena) -> None:
        self._levels = levels
        self._is_separate = config.allocation == 'separate'
        self._costs, self._sent, self._size = storage_layout.block_offsets(config, levels)
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
        return StorageLevel(_Pair(*self._places['cost', k]),
                            (_Four * 2)(_Four(*sent[:4]), _Four(*sent[4:])), level.width,
                            level.height, level.pitch)

    def _allocate(self, size: int) -> int:
        from cupy.cuda import runtime
        self._held.append(int(runtime.malloc(size)))
        return self._held[-1]


class Storage(Matching):
    """See ``Matching``."""

    stages = ('cost', 'messages')

    def __init__(self, found: Properties, config: MatcherConfig, width: int, height: int,
                 arena: Arena) -> None:
        super().__init__(found, config, width, height, arena)
        self._image = partitions.whole(width, height).partitions[0]
        self._levels = storage_layout.levels(config, width, height)
        self._memory = Memory(config, self._levels, arena)
        self.can_be_captured = config.allocation == 'once'

    def load(self, matched: str, has_whole_grey: bool) -> None:
        for name in storage_layout.kernels(self._config, preprocess.PIXELS[matched]).values():
            compiler.kernel(self._found, 'storage.cu', name)
        beliefs.load_right_labels(self._found)

    def enqueue(self, stream: int, matched: str, has_whole_grey: bool,
                wanted: refine.Steps, frame: refine.Frame) -> bool:
        device = self._arena.device
        names = storage_layout.kernels(self._config, preprocess.PIXELS[matched])
        out = beliefs.matches(self._config, self._width, self._height, self._arena, self._image,
                              wanted.fraction, wanted.costs, wanted.right)
        self._memory.begin()
        try:
            self._enqueue_costs(stream, names, device[f'left_{matched}'],
                                device[f'right_{matched}'])
            self._enqueue_messages(stream, names, out)
        finally:
            self._memory.end()
        if wanted.right:
            beliefs.take_right_labels(self._found, stream, self._arena)
        return False

    def _enqueue_costs(self, stream: int, names: dict[str, str], left: int, right: int) -> None:
        config, memory = self._config, self._memory
        factor = config.data_weight * config.message_scale()
        memory.take('cost', 0)
        self._launch(stream, names['costs'], 0, StorageCost(
            left, right, memory.level(0), config.min_disparity, factor, config.data_truncation,
            factor, config.data_truncation, self._arena.stamp('cost')))
        for k in range(1, config.levels):
            memory.take('cost', k)
            self._launch(stream, names['parents_1' if k == 1 else 'parents'], k,
                         memory.level(k - 1), memory.level(k))

    def _enqueue_messages(self, stream: int, names: dict[str, str],
                          out: beliefs.Matches) -> None:
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
            for iteration in range(config.iterations):
                self._send(stream, names['send' if k else 'send_0'], level, iteration, stamp)
                stamp = 0
        self._launch(stream, names['labels'], 0, memory.level(0), out, ctypes.c_void_p(stamp))

    def _send(self, stream: int, name: str, level: StorageLevel, iteration: int,
              stamp: int) -> None:
        config = self._config
        slope, truncation = layout.smoothness(config)
        if config.message_type == 'float32':
            # As the reference maps: a step beyond the truncation is cut, not lowered.
            slope = config.discontinuity_slope
        width, height = config.storage_block_width, config.storage_block_height
        columns = width * storage_layout.nodes_of_thread(config)
        compiler.kernel(self._found, 'storage.cu', name).launch(
            stream, (-(-((level.width + 1) // 2) // columns), -(-level.height // height), 1),
            (width, height, 1), storage_layout.shared_bytes(config),
            StoragePass(level, (iteration + 1) % 2, int(slope), int(truncation), slope,
                        truncation, stamp))

    def _launch(self, stream: int, name: str, k: int, *arguments: Any) -> None:
        """One thread for each node of a level."""
        level = self._levels[k]
        compiler.kernel(self._found, 'storage.cu', name).launch(
            stream, (-(-level.width // BLOCK[0]), -(-level.height // BLOCK[1]), 1), BLOCK, 0,
            *arguments)


def limits(index: int) -> Limits:
    """What ``storage_plan`` wants to know about a device that is there."""
    from cupy.cuda import runtime
    known = runtime.getDeviceProperties(index)
    return Limits(
        threads=known['maxThreadsPerMultiProcessor'],
        blocks=known['maxBlocksPerMultiProcessor'], registers=known['regsPerMultiprocessor'],
        thread_registers=255, shared_memory=known['sharedMemPerMultiprocessor'],
        block_shared_memory=known['sharedMemPerBlockOptin'],
        block_reserve=known['reservedSharedMemPerBlock'],
        block_threads=known['maxThreadsPerBlock'])
