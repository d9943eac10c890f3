"""Doors of the gates: all that they touch inside the package, and nothing else.

A refactoring that moves something changes this file alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import pathlib
import types
import unittest.mock
from collections.abc import Iterator
from typing import Any

from benchmarks.gates import cases
from stereo_bp_ros import MatcherConfig, geometry, partitions
from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.config.renamed import RENAMED
from stereo_bp_ros.engines.cpu.planning import plan_of as cpu_plan_of
from stereo_bp_ros.engines.cuda import memory, pipeline, planning
from stereo_bp_ros.engines.cuda.runtime import arena, compiler, device
from stereo_bp_ros.engines.cuda.stages import convert, refine
from stereo_bp_ros.errors import StereoError

__all__ = ['StereoError', 'architectures', 'compiled', 'configuration', 'cpu_record',
           'cuda_record', 'kernel_names', 'options', 'properties']

#: Names all kernels.
KERNEL_LIST = (pathlib.Path(__file__).resolve().parents[2] / 'test' / 'engines'
               / 'cuda' / 'test_cuda_compile.py')

#: Places of the arrays on the device and on the host, and of what a frame allocates.
ON_DEVICE, ON_HOST, ALLOCATED = 1 << 40, 1 << 41, 1 << 42


def kernel_names(architecture: str, ranges: tuple[int, ...]) -> set[tuple[str, str]]:
    """File and template expression of all kernels; no range = those of the tests."""
    known = _kernel_list()
    names = [*known.kernels_of_the_other_stages(), *known.kernels_of_sad(),
             *known.kernels_of_the_papers(), *known.kernels_of_tiles(architecture)]
    for disparities in ranges or known.RANGES:
        for message_type in known.MESSAGE_TYPES:
            names += known.kernels_of(disparities, message_type)
        names += known.kernels_of_combined_costs(disparities)
    return set(names)


@functools.cache
def _kernel_list() -> Any:
    spec = importlib.util.spec_from_file_location('gates_kernel_list', KERNEL_LIST)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def architectures() -> tuple[str, ...]:
    """Those of the tests: 'sm_90' and so on."""
    return tuple(_kernel_list().ARCHITECTURES)


def options() -> str:
    """Options of the compiler; paths of this machine are left out."""
    return ' '.join(option for option in compiler.OPTIONS if not option.startswith('-I'))


def compiled(file: str, name: str, architecture: str) -> tuple[bytes, str]:
    """An ELF file, and the symbol of the kernel in it."""
    return compiler.compile_kernel(file, name, architecture)


def configuration(settings: dict[str, Any]) -> MatcherConfig:
    """From the flat names that the oldest baselines have; ``preset`` names what they change."""
    values = load_preset(settings['preset']) if 'preset' in settings else {}
    for old, value in settings.items():
        name = RENAMED.get(old, old)
        program = name.rpartition('.')[0]
        if program:
            values['program'] = program
        if program == 'tiled_barriers':
            values.setdefault('tiled_barriers.schedule', 'auto')
        if old != 'preset':
            values[name] = value
    return MatcherConfig.from_mapping(values)


def properties(name: str) -> device.Properties:
    """The device that a case is planned for."""
    changes = cases.DEVICES[name]
    return device.Properties(**{**vars(device.TYPICAL), **changes})


def cpu_record(config: MatcherConfig, width: int, height: int) -> dict[str, Any]:
    """What the CPU's planner says."""
    def plan_of(parts: partitions.Partitioning) -> Any:
        return cpu_plan_of(config, width, height, parts).memory
    parts = partitions.choose(config, width, height, config.memory_limit or 2**34, plan_of)
    return {'partitions': str(parts), 'arrays': _arrays(plan_of(parts))}


def cuda_record(config: MatcherConfig, width: int, height: int, properties: device.Properties
                ) -> dict[str, Any]:
    """What the CUDA engine plans, loads and launches, of an engine that runs nothing."""
    def plan_of(parts: partitions.Partitioning) -> Any:
        return planning.plan_of(config, width, height, properties, {}, parts)
    matched = planning.resolve(config, properties)
    parts = partitions.choose(matched, *geometry.reduced_size(config, width, height),
                              config.memory_limit or properties.memory * 8 // 10,
                              lambda parts: plan_of(parts).memory)
    seen = Recorder()
    parameters = refine.Parameters()
    parameters.fill(matched, None)
    frames = {}
    planned = plan_of(parts)
    with without_a_device(seen):
        made = pipeline.Pipeline(planned, PlacedArena(properties, planned.memory, planned.pinned,
                                                      memory.STAMPS))
        made.load()
        made.initialise(0)
        initial = seen.take()
        for encoding, outputs in cases.FRAMES:
            source: Any = types.SimpleNamespace(encoding=encoding, big_endian=False)
            reading = convert.reading(source)
            made.enqueue(0, pipeline.Form((reading, reading), convert.STAGED,
                                          refine.steps(matched, outputs)))
            frames[f'{encoding}: {", ".join(outputs)}'] = seen.take()
    return {'partitions': str(parts), 'passes': [_pass(step) for step in planned.launches],
            'arrays': _arrays(planned.memory), 'pinned': _arrays(planned.pinned),
            'loaded': dict.fromkeys(sorted(seen.loaded), True),
            'initial': initial, 'frames': frames,
            'parameters': digest(bytes(parameters))}


def _pass(step: Any) -> dict[str, Any]:
    cut = step.tiling
    return {'level': step.level, 'first': step.first, 'iterations': step.iterations,
            'start': step.start, 'finish': step.finish, 'source': step.source,
            'parents': step.parents, 'targets': step.targets,
            'margin_columns': step.halo_columns, 'margin_rows': step.halo_rows,
            'region_half': step.halo_tile_columns, 'region_height': step.halo_tile_height,
            'shared_bytes': step.shared_bytes, 'threads': step.threads,
            'tile': [cut.width, cut.height], 'tile_threads': cut.threads, 'blocks': cut.blocks,
            'directions': cut.directions, 'resident': cut.resident}


def _arrays(found: Any) -> list[dict[str, Any]]:
    return [{'name': spec.name, 'offset': spec.offset, 'bytes': spec.nbytes,
             'shape': spec.shape, 'dtype': spec.dtype} for spec in found.arrays]


class PlacedArena(arena.Arena):
    """Addresses without memory behind them, none of which is null."""

    def __init__(self, *plans: Any, allocate: bool = True) -> None:
        super().__init__(*plans, allocate=False)
        self.host_address = {name: ON_HOST + at for name, at in self.host_address.items()}
        self.device = {name: ON_DEVICE + at for name, at in self.device.items()}
        if self.is_shared:
            self.device.update(self.host_address)


@contextlib.contextmanager
def without_a_device(seen: Recorder) -> Iterator[None]:
    """Context in which the stages of an engine are built for a device that is not there."""
    from cupy.cuda import runtime
    with contextlib.ExitStack() as patches:
        for owner, name, value in (
                (compiler, 'kernel', seen.kernel),
                (runtime, 'memsetAsync', seen.memset), (runtime, 'memcpyAsync', seen.memcpy),
                (runtime, 'malloc', seen.malloc), (runtime, 'free', seen.free)):
            patches.enter_context(unittest.mock.patch.object(owner, name, value))
        yield


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

    def memset(self, address: int, value: int, size: int, _stream: int) -> None:
        """Stands for filling memory."""
        self._calls.append({'memset': address, 'value': value, 'bytes': size})

    def memcpy(self, address: int, source: int, size: int, _kind: int, _stream: int) -> None:
        """Stands for copying memory, whose content counts."""
        self._calls.append({'memcpy': address, 'bytes': size,
                            'content': digest(ctypes.string_at(source, size))})

    def malloc(self, size: int) -> int:
        """Stands for an allocation; no address comes twice."""
        address, self._next = self._next, self._next + -(-size // 256) * 256
        self._calls.append({'malloc': size})
        return address

    def free(self, address: int) -> None:
        """Stands for the end of an allocation."""
        self._calls.append({'free': address})
