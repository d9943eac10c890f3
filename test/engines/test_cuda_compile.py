"""Every kernel compiles for every architecture, without a driver or a GPU (NVRTC alone)."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import re
from collections.abc import Iterator

import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cuda import (
    beliefs,
    compiler,
    convert,
    cost,
    device,
    layout,
    messages,
    preprocess,
    refine,
    sad,
    sad_plan,
    sad_variants,
    storage_layout,
    tiled,
    tiled_plan,
    tiling,
)

ARCHITECTURES = ('sm_75', 'sm_87', 'sm_90', 'sm_120')
RANGES = (2, 8, 16, 21, 32, 64, 128, 256, 512)
MESSAGE_TYPES = ('int16', 'float32', 'float16')


def kernels_of(disparities: int, message_type: str) -> list[tuple[str, str]]:
    """File and name of every kernel that a configuration of this kind can launch."""
    config = MatcherConfig(
        preprocessing='none', disparity_range=disparities, data_weight=0.1,
        data_truncation=15.0, discontinuity_slope=1.0, discontinuity_truncation=0.0,
        message_type=message_type)
    names = [('messages.cu', messages.inherit_name(config))]
    for image in ('uint8', 'float'):
        names += cost.kernels(config, image, True)
    if message_type == 'int16':
        names += cost.kernels(config.replace(preprocessing='sobel_x'), 'float', True)
        names += cost.kernels(config.replace(data_truncation=15.3, levels=7), 'uint8', True)
    steps = tiling.passes(config, 640, 480)
    for image in ('uint8', 'float'):
        base = messages.base_cost(config, image, steps)
        names += cost.kernels(config, image, True, base)
        names += [messages.kernel_of(config, step, base, has_more)
                  for step in steps for has_more in (False, True)]
        names += beliefs.kernels(config, steps[-1], base)
    # Without iterations, and with tilings whose last pass leaves messages.
    names += beliefs.kernels(config, None, layout.cost_type(config, 0))[1:]    # with all there is
    if message_type != 'int16':
        names += cost.kernels(config.replace(levels=6), 'uint8', True, 'Multiples')
    return sorted(set(names))


def compile_all(names: list[tuple[str, str]], architecture: str) -> dict[str, str]:
    """Compile kernels side by side; the compiler's log by name."""
    def log(name: tuple[str, str]) -> tuple[str, str]:
        return name[1], compiler.compile_with_log(*name, architecture,
                                                  ('--ptxas-options=-v',))[2]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        return dict(threads.map(log, names))


def spilled_bytes(log: str) -> int:
    """Bytes of local memory that the compiler reports for a kernel."""
    found = re.findall(r'(\d+) bytes stack frame', log)
    assert found, log
    return max(map(int, found))


@pytest.mark.parametrize('architecture', ARCHITECTURES)
@pytest.mark.parametrize('message_type', MESSAGE_TYPES)
@pytest.mark.parametrize('disparities', RANGES)
def test_kernels_of_belief_propagation_compile(disparities: int, message_type: str,
                                               architecture: str) -> None:
    logs = compile_all(kernels_of(disparities, message_type), architecture)
    if architecture == 'sm_90':
        assert {name: spilled_bytes(log) for name, log in logs.items() if spilled_bytes(log)} == {}


@pytest.mark.parametrize('architecture', ARCHITECTURES)
def test_kernels_of_the_other_stages_compile(architecture: str) -> None:
    names = list(refine.KERNELS)
    names += [('convert.cu', name) for name in convert.kernels()]
    names += sorted({('preprocess.cu', name) for method in ('sobel', 'residual')
                     for sigma in (0.0, 1.0)
                     for name in preprocess.kernels(MatcherConfig(preprocessing=method,
                                                                  smoothing_sigma=sigma))})
    names += [('beliefs.cu', 'take_right_labels')]
    logs = compile_all(names, architecture)
    assert all(spilled_bytes(log) == 0 for log in logs.values())


def kernels_of_sad() -> list[tuple[str, str]]:
    """Kernels of every number of tiles and chunks, and of every variant."""
    names = [('sad.cu', 'take_right_labels')]
    everything = {'uniqueness_ratio': 5.0, 'disp12_max_diff': 1}
    for window, disparities, image, changes in (
            (5, 2, 'uint8', {'subpixel': False}), (15, 64, 'uint8', {}),
            (15, 128, 'float', {}), (21, 64, 'uint8', everything),
            (35, 40, 'float', everything), (51, 512, 'uint8', everything)):
        config = MatcherConfig(stereo_algorithm='sad', correlation_window_size=window,
                               disparity_range=disparities, **changes)
        found, wanted = sad_plan.cut(config, 1280, 720), refine.steps(config, ())
        names.append(('sad.cu', sad.kernel_name(found, image, wanted)))
    names.append(('sad.cu', sad.kernel_name(found._replace(copies=1), image, wanted)))
    for number, streaming in enumerate(sad_variants.STREAMING):
        for pixel, unrolled in (('uint8', number % 2 == 0), ('int32', number % 2 == 1)):
            variant = sad_variants.Variant(streaming, pixel, unrolled, 128)
            names.append(('sad_variants.cu', variant.kernel_name(5)))
    return [*names, ('sad_variants.cu', 'cut_to_8bit<float, int>')]


@pytest.mark.parametrize('architecture', ARCHITECTURES)
def test_kernels_of_sad_compile(architecture: str) -> None:
    logs = compile_all(kernels_of_sad(), architecture)
    if architecture == 'sm_90':
        assert {name: spilled_bytes(log) for name, log in logs.items() if spilled_bytes(log)} == {}


def kernels_of_the_papers() -> list[tuple[str, str]]:
    """Every number type with a storage and a layout of its own, and the widest unrolled range."""
    names = []
    for disparities, change in (
            (21, {'message_type': 'float32', 'message_storage': 'local'}),
            (128, {'message_type': 'float32', 'message_storage': 'register',
                   'storage_blocks': 2}),
            (32, {'message_type': 'float16', 'message_storage': 'shared',
                  'message_layout': 'pixel_major'}),
            (64, {'message_type': 'float16', 'packed_halves': True, 'message_storage': 'hybrid',
                  'storage_registers': 20, 'storage_shared': 30, 'storage_block_height': 2}),
            (16, {'message_type': 'int16', 'message_storage': 'register'})):
        config = MatcherConfig(disparity_range=disparities, **change)
        for image in ('uint8', 'float'):
            names += [('storage.cu', name)
                      for name in storage_layout.kernels(config, image).values()]
    return sorted(set(names))


@pytest.mark.parametrize('architecture', ARCHITECTURES)
def test_kernels_of_the_papers_compile(architecture: str) -> None:
    logs = compile_all(kernels_of_the_papers(), architecture)
    if architecture != 'sm_90':
        return
    for name, log in logs.items():
        if name.startswith('send_messages'):
            numbers = [int(number) for number in re.findall(r' (\d+)', name)]
            disparities, registers, shared = numbers[0], *numbers[-2:]
            local = -(-4 * (disparities - registers - shared) // 8) * 8
            assert spilled_bytes(log) >= local, name
            # Values beyond what 255 registers hold are spilled, as in the paper.
            assert disparities > 32 or spilled_bytes(log) == local, name
def kernels_of_tiles(architecture: str) -> list[tuple[str, str]]:
    """Kernels of every schedule, type, way to compute costs, and number of lanes."""
    names = []
    number = int(architecture[3:])
    found = dataclasses.replace(device.TYPICAL, capability=(number // 10, number % 10))
    for disparities, size, image, schedule, changes in (
            (16, 13, 'uint8', 'speculative', {}),
            (16, 13, 'uint8', 'speculative', {'message_computation': 'fast'}),
            (32, 5, 'float', 'speculative', {'message_type': 'float32',
                                             'message_computation': 'fast'}),
            (16, 13, 'uint8', 'rows', {}), (16, 13, 'uint8', 'rows', {'data_truncation': 15.3}),
            (21, 13, 'float', 'rows', {'message_type': 'float32'}),
            (5, 20, 'uint8', 'cooperative', {'message_computation': 'fast'}),
            (64, 13, 'float', 'cooperative', {'preprocessing': 'sobel_x'}),
            (128, 13, 'float', 'lock_free', {'tile_synchronisation': 'all',
                                             'preprocessing': 'sobel'}),
            (512, 3, 'uint8', 'launches', {'message_type': 'float32'}),
            (300, 5, 'uint8', 'launches', {'message_computation': 'fast'})):
        config = MatcherConfig(**{
            'stereo_algorithm': 'tiled_bp', 'preprocessing': 'none', 'tile_size': size,
            'disparity_range': disparities, 'data_weight': 0.1, 'data_truncation': 15.0,
            'discontinuity_slope': 1.0, 'tile_schedule': schedule, **changes})
        # Where all tiles are to be on chip: runs of six as on Tsukuba, and of two.
        width, height = ((640, 480) if schedule != 'speculative' else (384, 288)
                         if size == 13 else (90, 60))
        cut = tiled_plan.cut(config, width, height, found)
        names.append(tiled.kernel(config, cut, image, True))
    return names


@pytest.mark.parametrize('architecture', ARCHITECTURES)
def test_kernels_of_tiles_compile(architecture: str) -> None:
    logs = compile_all(kernels_of_tiles(architecture), architecture)
    if architecture == 'sm_90':
        assert {name: spilled_bytes(log) for name, log in logs.items() if spilled_bytes(log)} == {}


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Iterator[None]:
    """A user's cache directory of its own for one test."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    compiler.cache_directory.cache_clear()
    yield
    compiler.cache_directory.cache_clear()


@pytest.mark.usefixtures('empty_cache')
def test_compiled_kernels_are_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiler.origins()
    first = compiler.compiled('refine.cu', 'median<3>', 'sm_90')
    assert compiler.origins()['compiled'] == before['compiled'] + 1
    monkeypatch.setattr(compiler, 'compile_kernel', None)
    assert compiler.compiled('refine.cu', 'median<3>', 'sm_90') == first
    assert compiler.origins()['disk'] == before['disk'] + 1
    directory = compiler.cache_directory()
    assert directory is not None
    assert directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures('empty_cache')
def test_a_cache_of_somebody_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, 'geteuid', lambda: 12345)
    assert compiler.cache_directory() is None


@pytest.mark.usefixtures('empty_cache')
def test_kernels_compiled_side_by_side_are_found_on_the_disk() -> None:
    names = [('beliefs.cu', 'take_right_labels'), ('preprocess.cu', 'texture'),
             ('preprocess.cu', 'texture')]
    seen: list[tuple[int, int]] = []
    before = compiler.origins()
    compiler.compile_side_by_side(names, 'sm_90', lambda *done: seen.append(done))
    assert seen == [(1, 2), (2, 2)]
    assert compiler.origins()['compiled'] == before['compiled'] + 2
    compiler.compiled(*names[0], 'sm_90')
    assert compiler.origins()['disk'] == before['disk'] + 1
    with pytest.raises(RuntimeError, match='does not compile'):
        compiler.compile_side_by_side([('beliefs.cu', 'nothing')], 'sm_90')


@pytest.mark.usefixtures('empty_cache')
def test_files_that_others_remove_meanwhile_disturb_nobody(
        monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path,
        caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(compiler, 'FILES_KEPT', 2)
    monkeypatch.setattr(compiler, 'compile_kernel', lambda file, name, *_: (b'code', name))
    directory = compiler.cache_directory()
    assert directory is not None
    # Like a file that was there when the directory was read, and is not any more.
    (directory / 'gone.cubin').symlink_to(tmp_path / 'nowhere')
    for name in ('first', 'second', 'third', 'third'):
        assert compiler.compiled('refine.cu', name, 'sm_90') == (b'code', name)
    assert caplog.messages == []
    kept = {file.read_bytes() for file in directory.iterdir()}
    assert kept == {b'second\ncode', b'third\ncode'}
