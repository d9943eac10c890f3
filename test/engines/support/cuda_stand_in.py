"""Stands for everything of CUDA's that touches a device; kernels are not run."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros.engines.cuda.runtime import arena, compiler, device
from test.cases import every


class Log:
    """Kernels in the order in which they were loaded and launched, as 'file: name'.

    frame: what was asked of streams: events of callers, copies on the device, graphs.
    """

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.launched: list[str] = []
        self.frame: list[str] = []


class Kernel:
    """Stands for a loaded kernel, and looks at what it is launched with."""

    resources = compiler.Resources(registers=32, local_bytes=0, shared_bytes=0, max_threads=1024)

    def __init__(self, key: str, log: Log) -> None:
        self._key, self._log = key, log

    def launch(self, stream: int, grid: tuple[int, int, int], block: tuple[int, int, int],
               shared_bytes: int, *arguments: Any, cooperative: bool = False) -> None:
        assert every(isinstance(count, int) and count > 0 for count in (*grid, *block))
        assert block[0] * block[1] * block[2] <= 1024
        assert 0 <= shared_bytes <= device.TYPICAL.shared_memory
        for argument in arguments:
            ctypes.addressof(argument)
        self._log.launched.append(self._key)

    def blocks_per_multiprocessor(self, threads: int, shared_bytes: int) -> int:
        return 1


class Context:
    """Stands for a device, a stream, an event or a graph."""

    ptr = 1

    def __init__(self, *_: object, **__: object) -> None: ...
    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None: ...
    def begin_capture(self) -> None: ...
    def end_capture(self) -> Context:
        return Context()

    def launch(self, stream: object) -> None: ...
    def synchronize(self) -> None: ...


class HostMemory:
    """Stands for both kinds of allocations."""

    def __init__(self, size: int, _flags: int = 0) -> None:
        self.array = np.zeros(max(size, 1), np.uint8)
        self.ptr = self.array.ctypes.data


def stand_in(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Replaces CUDA until a test ends; memory of the device is ordinary memory."""
    import cupy
    from cupy.cuda import memory, pinned_memory, runtime
    found = Log()

    def kernel(_: device.Properties, file: str, name: str) -> Kernel:
        key = f'{file}: {name}'
        found.loaded.append(key)
        return Kernel(key, found)

    monkeypatch.setattr(compiler, 'kernel', kernel)
    monkeypatch.setattr(device, 'unavailable', lambda _: None)
    monkeypatch.setattr(device, 'properties', lambda _: device.TYPICAL)
    monkeypatch.setattr(device, 'available_memory', lambda _: 2**37)
    monkeypatch.setattr(device, 'mapped_address', lambda *_: 0)
    monkeypatch.setattr(cupy.cuda, 'Device', Context)
    monkeypatch.setattr(cupy.cuda, 'Stream', Context)
    monkeypatch.setattr(cupy.cuda, 'Event', Context)
    monkeypatch.setattr(Context, 'launch', lambda *_: found.frame.append('graph'))

    def record(_event: int, stream: int) -> None:
        found.frame.append(f'event of stream {stream}')

    def copy(to: int, to_step: int, from_: int, from_step: int, width: int, height: int,
             kind: int, _stream: int) -> None:
        assert kind == runtime.memcpyDefault     # by the addresses
        for row in range(height):
            ctypes.memmove(to + row * to_step, from_ + row * from_step, width)
        found.frame.append('copy')

    monkeypatch.setattr(runtime, 'eventRecord', record)
    monkeypatch.setattr(runtime, 'streamWaitEvent', lambda *_: found.frame.append('wait'))
    monkeypatch.setattr(runtime, 'memcpy2DAsync', copy)
    for name in ('memset', 'memsetAsync', 'memcpyAsync', 'streamSynchronize', 'free'):
        monkeypatch.setattr(runtime, name, lambda *_: None)
    monkeypatch.setattr(runtime, 'malloc', lambda _: 4096)
    monkeypatch.setattr(memory, 'Memory', HostMemory)
    monkeypatch.setattr(pinned_memory, 'PinnedMemory', HostMemory)
    monkeypatch.setattr(pinned_memory, 'PinnedMemoryPointer', lambda owner, _: owner)

    def view(owner: HostMemory, offset: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.frombuffer(owner.array, dtype, int(np.prod(shape)), offset).reshape(shape)

    monkeypatch.setattr(arena, '_view', view)
    return found
