"""The CUDA engine's host code without a device: what it launches, and with which arguments.

Everything of CUDA's that touches a device is replaced; kernels are not run. That the results are
right, the tests with the marker ``gpu`` say.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import Calibration, MatcherConfig, RawImage
from stereo_bp_ros.engines import create_engine
from stereo_bp_ros.engines.cuda import (
    arena,
    beliefs,
    compiler,
    convert,
    cost,
    device,
    messages,
    preprocess,
    refine,
    sad,
    storage,
    tiled,
)
from stereo_bp_ros.types import OUTPUTS, empty_output

STRUCTURES = [
    ('messages.cu', 'Pass', messages.PassParameters), ('messages.cu', 'Matches', beliefs.Matches),
    ('beliefs.cu', 'Selection', beliefs.Selection), ('refine.cu', 'Frame', refine.Frame),
    ('refine.cu', 'Parameters', refine.Parameters),
    ('cost.cu', 'CostPass', cost.CostPass), ('cost.cu', 'CostLevel', cost.CostLevel),
    ('sad.cu', 'Windows', sad.Windows), ('tiled.cu', 'TiledPass', tiled.TiledPass),
    ('storage.cu', 'StorageLevel', storage.StorageLevel),
    ('storage.cu', 'StorageCost', storage.StorageCost),
    ('storage.cu', 'StoragePass', storage.StoragePass),
    ('convert.cu', 'Upload', convert._Upload), ('convert.cu', 'Conversion', convert._Conversion),
    ('preprocess.cu', 'Planes', preprocess._Planes),
    ('preprocess.cu', 'Gaussian', preprocess._Gaussian),
    ('preprocess.cu', 'Box', preprocess._Box),
    ('preprocess.cu', 'Derivative', preprocess._Derivative)]


@pytest.mark.parametrize(('file', 'name', 'structure'), STRUCTURES,
                         ids=[name for _, name, _ in STRUCTURES])
def test_a_structure_lies_in_memory_as_its_kernels_see_it(file, name, structure):
    from cupy.cuda import nvrtc
    checks = [f'sizeof({name}) == {ctypes.sizeof(structure)}']
    offsets = sorted(getattr(structure, field[0]).offset for field in structure._fields_)
    assert len(set(offsets)) == len(offsets)
    # Names differ where C++ has a shorter one; what both sides call the same must be in its place.
    source = (compiler.KERNELS / file).read_text(encoding='utf-8')
    declared = source + ''.join(path.read_text(encoding='utf-8')
                                for path in compiler.KERNELS.glob('*.cuh'))
    body = declared.partition(f'struct {name} {{')[2].partition('\n};')[0]
    assert body, f'{name} is not declared in {file} or a header'
    for field in structure._fields_:
        if f' {field[0]};' in body or f' {field[0]},' in body or f' {field[0]}[' in body:
            place = getattr(structure, field[0]).offset
            # The compiler's own offsetof: NVRTC before 13.5 has no other, and no header.
            checks.append(f'__INTADDR__(&(({name}*)0)->{field[0]}) == {place}')
    assert len(checks) > len(structure._fields_) / 2
    source += ''.join(f'\nstatic_assert({check}, "{name}");' for check in checks)
    program = nvrtc.createProgram(source, file, (), ())
    try:
        nvrtc.compileProgram(program, (*compiler.OPTIONS, '-arch=sm_90'))
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    finally:
        nvrtc.destroyProgram(program)


class Log:
    """Kernels in the order in which they were loaded and launched, as 'file: name'."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.launched: list[str] = []


class Kernel:
    """Stands for a loaded kernel, and looks at what it is launched with."""

    resources = compiler.Resources(registers=32, local_bytes=0, shared_bytes=0, max_threads=1024)

    def __init__(self, key: str, log: Log) -> None:
        self._key, self._log = key, log

    def launch(self, stream: int, grid: tuple[int, int, int], block: tuple[int, int, int],
               shared_bytes: int, *arguments: Any, cooperative: bool = False) -> None:
        assert all(isinstance(count, int) and count > 0 for count in (*grid, *block))
        assert block[0] * block[1] * block[2] <= 1024
        assert 0 <= shared_bytes <= device.TYPICAL.shared_memory
        for argument in arguments:
            ctypes.addressof(argument)
        self._log.launched.append(self._key)

    def blocks_per_multiprocessor(self, threads: int, shared_bytes: int) -> int:
        return 1


class Context:
    """Stands for a device, a stream or a graph."""

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


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Replaces CUDA, and notes kernels."""
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
    for name in ('memset', 'memsetAsync', 'memcpyAsync', 'free'):
        monkeypatch.setattr(runtime, name, lambda *_: None)
    monkeypatch.setattr(runtime, 'malloc', lambda _: 4096)
    monkeypatch.setattr(memory, 'Memory', HostMemory)
    monkeypatch.setattr(pinned_memory, 'PinnedMemory', HostMemory)
    monkeypatch.setattr(pinned_memory, 'PinnedMemoryPointer', lambda owner, _: owner)

    def view(owner: HostMemory, offset: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.frombuffer(owner.array, dtype, int(np.prod(shape)), offset).reshape(shape)

    monkeypatch.setattr(arena, '_view', view)
    return found


TILED = {'stereo_algorithm': 'tiled_bp', 'disparity_range': 16}
PAPERS = {'message_type': 'float32', 'disparity_range': 16}
CONFIGURATIONS = {
    'int16': {'disparity_range': 24},
    'bytes': {'disparity_range': 128},
    'float32': {'message_type': 'float32'},
    'float16': {'message_type': 'float16'},
    'right': {'reference_image': 'right', 'smoothing_sigma': 0.7, 'preprocessing': 'residual'},
    'refined': {'disp12_max_diff': 1, 'uniqueness_ratio': 5.0, 'texture_threshold': 3,
                'filling': 'background', 'median_window_size': 5},
    'partitions': {'partition_rows': 2, 'partition_columns': 2, 'partition_padding': 32},
    'sad': {'stereo_algorithm': 'sad', 'disp12_max_diff': 1},
    **{f'sad {name}': {'stereo_algorithm': 'sad', 'sad_variant': name}
       for name in ('global', 'shared_one', 'shared_all')},
    **{f'tiled {name}': {**TILED, 'tile_schedule': name}
       for name in ('rows', 'cooperative', 'lock_free', 'launches')},
    'tiled speculative': {**TILED, 'tile_schedule': 'speculative', 'disparity_range': 8},
    'tiled float32': {**TILED, 'message_type': 'float32', 'disp12_max_diff': 1},
    **{f'storage {name}': {**PAPERS, 'message_storage': name}
       for name in ('register', 'shared', 'local')},
    'hybrid': {**PAPERS, 'message_storage': 'hybrid', 'storage_registers': 5,
               'storage_shared': 6},
    **{f'allocation {name}': {'message_layout': 'pixel_major', 'allocation': name,
                              'message_type': 'float16', 'packed_halves': True}
       for name in ('single', 'separate')},
}


@pytest.mark.parametrize('outputs', [('disparity',), OUTPUTS], ids=['one output', 'all outputs'])
@pytest.mark.parametrize('settings', CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_a_frame_launches_only_what_was_loaded_with_its_engine(log, settings, outputs):
    width, height = 320, 240
    engine = create_engine(MatcherConfig(backend='cuda', **settings), width, height)
    known = set(log.loaded)
    images = [RawImage.from_array(np.full((height, width, 3), grey, np.uint8))
              for grey in (90, 110)]
    arrays = {name: empty_output(name, (height, width)) for name in outputs}
    calibration = Calibration(400.0, 0.1, 160.0, 161.0, 120.0)
    for live in ({}, {'speckle_size': 20, 'median_window_size': 3}):
        before = len(log.launched)
        engine.update(engine.config.replace(**live))
        timings = engine.compute(*images, calibration, arrays)
        assert {'upload', 'download'} <= timings.keys()
        assert len(log.launched) > before
        captured = len(log.launched)
        engine.compute(*images, calibration, arrays)
        is_graph = settings.get('allocation', 'once') == 'once'
        assert (len(log.launched) == captured) == is_graph
    assert set(log.loaded) == known
    assert set(log.launched) <= known
    engine.close()
