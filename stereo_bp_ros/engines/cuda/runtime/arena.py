"""The memory of one engine: one allocation on the device and one pinned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.engines.cuda.runtime.device import Properties
from stereo_bp_ros.engines.geometry import ALIGNMENT, MemoryPlan

_PORTABLE, _MAPPED = 1, 2         # cudaHostAlloc flags


class Arena:
    """Named arrays on the device and on the host, allocated at once.

    ``device[name]`` is an address, ``host[name]`` a NumPy array in pinned memory and
    ``host_address[name]`` where it starts. Where the device shares the host's memory, the
    arrays of one name are one array and nothing need be copied.

    :param stamps: name of each time in the array ``stamps`` to its place there.
    :param stream: in which the memory is cleared, before whatever the stream writes there; None:
        addresses count from 0, and there is no memory behind them.
    """

    def __init__(self, device: Properties, on_device: MemoryPlan, pinned: MemoryPlan,
                 stamps: Mapping[str, int], stream: int | None) -> None:
        self._stamps = stamps
        self.is_shared = device.is_integrated
        self._memory: Any = None
        self._pinned: Any = None
        base = start = 0
        if stream is not None:
            from cupy.cuda import memory, pinned_memory, runtime
            self._memory = memory.Memory(on_device.total + ALIGNMENT)
            base = _align(self._memory.ptr)
            # A stream that does not block is not ordered with the legacy one, which memset takes.
            runtime.memsetAsync(self._memory.ptr, 0, on_device.total + ALIGNMENT, stream)
            self._pinned = pinned_memory.PinnedMemoryPointer(pinned_memory.PinnedMemory(
                pinned.total + ALIGNMENT, _PORTABLE | _MAPPED), 0)
            start = _align(self._pinned.ptr)
        self.device = {spec.name: base + spec.offset for spec in on_device.arrays}
        self.nbytes = {spec.name: spec.nbytes for spec in (*pinned.arrays, *on_device.arrays)}
        self.host_address = {spec.name: start + spec.offset for spec in pinned.arrays}
        self.host = {spec.name: _view(self._pinned, start - self._pinned.ptr + spec.offset,
                                      spec.shape, spec.dtype) for spec in pinned.arrays
                     } if stream is not None else {}
        for array in self.host.values():
            array.fill(0)
        if self.is_shared:
            self.device.update(self.host_address)

    def stamp(self, stage: str) -> int:
        """Address of the time at which a stage starts on the device."""
        return self.host_address['stamps'] + 8 * self._stamps[stage]

    def close(self) -> None:
        """Give everything back."""
        self.device.clear()
        self.host.clear()
        self._memory = self._pinned = None      # freed by their owners

    @property
    def is_open(self) -> bool:
        return self._memory is not None


class ArenaPart(Arena):
    """The arrays on the device of an arena whose names begin so, by the rest of their names.

    Nothing in them has a time stamped.

    :param others: addresses of what lies elsewhere, by name.
    """

    def __init__(self, arena: Arena, start: str, others: Mapping[str, int]) -> None:
        self.device, self.nbytes = (
            {name.removeprefix(start): value for name, value in found.items()
             if name.startswith(start)} for found in (arena.device, arena.nbytes))
        self.device.update(others)

    def stamp(self, stage: str) -> int:
        """No address: none is wanted."""
        return 0


def upload(address: int, values: np.ndarray[Any, Any], stream: int) -> None:
    """Copy an array of the host to the device, and wait for the stream.

    The host's memory may be pageable: whether the copy has read it by the time that
    ``memcpyAsync`` returns depends on machine and driver.

    :param address: on the device.
    :param values: C-contiguous.
    """
    from cupy.cuda import runtime
    runtime.memcpyAsync(address, values.ctypes.data, values.nbytes, runtime.memcpyHostToDevice,
                        stream)
    runtime.streamSynchronize(stream)


def _align(address: int) -> int:
    return -(-address // ALIGNMENT) * ALIGNMENT


def _view(memory: Any, offset: int, shape: tuple[int, ...], dtype: str
          ) -> np.ndarray[Any, Any]:
    return np.frombuffer(memory, dtype, math.prod(shape), offset).reshape(shape)
