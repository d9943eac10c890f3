"""What both engines plan, load and launch, told without a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import hashlib
import json
import os
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

from benchmarks.gates.cases import DEVICES, FRAMES, Case
from stereo_bp_ros.engines import geometry, partitions
from stereo_bp_ros.engines.cpu.plan import plan_of as cpu_plan_of
from stereo_bp_ros.engines.cuda import memory, pipeline
from stereo_bp_ros.engines.cuda.plan import plan_of as cuda_plan_of
from stereo_bp_ros.engines.cuda.plan import resolve
from stereo_bp_ros.engines.cuda.runtime import arena, compiler, device
from stereo_bp_ros.engines.cuda.stages import convert, refine
from stereo_bp_ros.errors import StereoError

#: Places of the arrays on the device and on the host, and of what a frame allocates.
ON_DEVICE, ON_HOST, ALLOCATED = 1 << 40, 1 << 41, 1 << 42


def record(cases: Mapping[str, Case]) -> dict[str, Any]:
    """Plans of both back ends for each case, or why it is refused."""
    entries = {}
    # As many threads as on any other machine: arrays of the CPU's plan follow from it.
    with mock.patch.dict(os.environ, {'NUMBA_NUM_THREADS': '8'}):
        for label, case in cases.items():
            entries[label] = {'cuda': _or_refusal(of_cuda, case), 'cpu': _or_refusal(of_cpu, case)}
    return {'kind': 'plans', 'selection': len(cases), 'entries': json.loads(json.dumps(entries))}


def _or_refusal(told: Callable[[Case], dict[str, Any]], case: Case) -> dict[str, Any]:
    try:
        return told(case)
    except StereoError as error:
        return {'refused': f'{type(error).__name__}: {error}'}


def of_cpu(case: Case) -> dict[str, Any]:
    """What the CPU's planner says."""
    config = case.config

    def plan_of(parts: partitions.Partitioning) -> Any:
        return cpu_plan_of(config, case.width, case.height, parts).memory
    parts = partitions.choose(config, case.width, case.height, config.memory_limit or 2**34,
                              plan_of)
    return {'partitions': str(parts), 'arrays': _arrays(plan_of(parts))}


def of_cuda(case: Case) -> dict[str, Any]:
    """What the CUDA engine plans, loads and launches, of an engine that runs nothing."""
    config = case.config
    found = dataclasses.replace(device.TYPICAL, **DEVICES[case.device])

    def plan_of(parts: partitions.Partitioning) -> Any:
        return cuda_plan_of(config, case.width, case.height, found, parts)
    matched = resolve(config, found)[-1]
    parts = partitions.choose(
        matched, *geometry.reduced_size(config, case.width, case.height),
        config.memory_limit or found.memory * 8 // 10, lambda parts: plan_of(parts).memory)
    seen = Recorder()
    parameters = refine.Parameters()
    parameters.fill(matched, None)
    frames = {}
    planned = plan_of(parts)
    with seen.in_place_of_a_device():
        made = pipeline.Pipeline(planned, PlacedArena(found, planned))
        made.load()
        made.initialise(0)
        initial = seen.take()
        for encoding, outputs in FRAMES:
            source: Any = types.SimpleNamespace(encoding=encoding, big_endian=False)
            reading = convert.reading(source)
            made.enqueue(0, pipeline.Form((reading, reading), convert.STAGED,
                                          refine.steps(matched, outputs)))
            frames[f'{encoding}: {", ".join(outputs)}'] = seen.take()
    return {'partitions': str(parts),
            'passes': [{**step._asdict(), 'tiling': step.tiling._asdict()}
                       for step in planned.launches],
            'arrays': _arrays(planned.memory), 'pinned': _arrays(planned.pinned),
            'loaded': dict.fromkeys(sorted(seen.loaded), True),
            'initial': initial, 'frames': frames, 'parameters': digest(bytes(parameters))}


def _arrays(found: geometry.MemoryPlan) -> list[dict[str, Any]]:
    return [dataclasses.asdict(spec) for spec in found.arrays]


class PlacedArena(arena.Arena):
    """Addresses without memory behind them, none of which is null."""

    def __init__(self, found: device.Properties, planned: Any) -> None:
        super().__init__(found, planned.memory, planned.pinned, memory.STAMPS, None)
        self.host_address = {name: ON_HOST + at for name, at in self.host_address.items()}
        self.device = {name: ON_DEVICE + at for name, at in self.device.items()}
        if self.is_shared:
            self.device.update(self.host_address)


def digest(content: bytes) -> str:
    """Short, for what the files are full of."""
    return hashlib.sha256(content).hexdigest()[:16]


class Recorder:
    """Takes down in order what would be launched, and what would be loaded."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self._calls: list[dict[str, Any]] = []
        self._next = ALLOCATED

    def take(self) -> list[dict[str, Any]]:
        """Everything since the last time."""
        calls, self._calls = self._calls, []
        return calls

    @contextlib.contextmanager
    def in_place_of_a_device(self) -> Iterator[None]:
        """Context in which the stages of an engine are built for a device that is not there."""
        from cupy.cuda import runtime
        with mock.patch.object(compiler, 'kernel', self.kernel), mock.patch.multiple(
                runtime, memsetAsync=self._memset, memcpyAsync=self._memcpy,
                streamSynchronize=lambda _: None, malloc=self._malloc,
                free=lambda address: self._calls.append({'free': address})):
            yield

    def kernel(self, _device: Any, file: str, name: str) -> Any:
        """Stands for loading a kernel."""
        self.loaded.add(f'{file}: {name}')

        def launch(stream: int, grid: tuple[int, ...], block: tuple[int, ...], shared_bytes: int,
                   *arguments: Any, cooperative: bool = False) -> None:
            self._calls.append({
                'file': file, 'kernel': name, 'grid': grid, 'block': block,
                'shared_bytes': shared_bytes, 'cooperative': cooperative,
                'arguments': digest(b''.join(map(bytes, arguments)))})
        return types.SimpleNamespace(launch=launch)

    def _memset(self, address: int, value: int, size: int, _stream: int) -> None:
        self._calls.append({'memset': address, 'value': value, 'bytes': size})

    def _memcpy(self, address: int, source: int, size: int, _kind: int, _stream: int) -> None:
        self._calls.append({'memcpy': address, 'bytes': size,
                            'content': digest(ctypes.string_at(source, size))})

    def _malloc(self, size: int) -> int:
        # No address comes twice.
        address, self._next = self._next, self._next + -(-size // 256) * 256
        self._calls.append({'malloc': size})
        return address
