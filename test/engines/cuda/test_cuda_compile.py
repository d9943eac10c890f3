"""Every kernel compiles for every architecture, without a driver or a GPU (NVRTC alone).

One kernel of each file in ``make test``, all of them in ``make test-all``.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cuda.band import matching as band_matching
from stereo_bp_ros.engines.cuda.band import stage as band
from stereo_bp_ros.engines.cuda.costs import fractions
from stereo_bp_ros.engines.cuda.costs import stage as combined
from stereo_bp_ros.engines.cuda.hierarchical import cost, edges, labels, messages, schedule
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.outputs import stage as outputs
from stereo_bp_ros.engines.cuda.plan import resolve
from stereo_bp_ros.engines.cuda.runtime import compiler, device
from stereo_bp_ros.engines.cuda.sad import launch as sad_launch
from stereo_bp_ros.engines.cuda.sad import matching as sad
from stereo_bp_ros.engines.cuda.stages import convert, preprocess, rectify, refine, right_labels
from stereo_bp_ros.engines.cuda.tiled import launch as tiled_launch
from stereo_bp_ros.engines.cuda.tiled import matching as tiled
from stereo_bp_ros.papers.plain_steps import cuda_arrays
from stereo_bp_ros.papers.streamed_sad import cuda
from test.cases import slow
from test.settings import five_sets, plain
from test.settings import tiled as barriers

#: The first one compiles everything, which the others repeat for few ranges.
ARCHITECTURES = ('sm_90', 'sm_75', 'sm_87', 'sm_120')
RANGES = (2, 8, 16, 21, 32, 64, 128, 256, 512)
RANGES_OF_OTHERS = (21, 128)
MESSAGE_TYPES = ('int16', 'float32')
#: What multi-feature costs are matched with.
COMBINED = {'discontinuity_slope': 20.0, 'discontinuity_truncation': 120.0, 'levels': 3}


def kernels_of(disparities: int, message_type: str) -> list[tuple[str, str]]:
    """File and name of every kernel that a configuration of this kind can launch."""
    config = five_sets(disparities, message_type=message_type)
    names = [('hierarchical/messages.cu', messages.inherit_name(config))]
    for image in ('uint8', 'float'):
        names += cost.kernels(config, image, True)
    if message_type == 'int16':
        names += cost.kernels(config.replace(preprocessing='sobel_x'), 'float', True)
        names += cost.kernels(config.replace(data_truncation=15.3, levels=7), 'uint8', True)
    steps = schedule.launches(config, 640, 480)
    for image in ('uint8', 'float'):
        base = messages.base_cost(config, image, steps)
        names += cost.kernels(config, image, True, base)
        names += [messages.kernel_of(config, step, base, has_more)
                  for step in steps for has_more in (False, True)]
        names += labels.kernels(config, steps[-1], base)
    # Without iterations, and with tilings whose last pass leaves messages.
    names += labels.kernels(config, None, CostFormat.of(config, 0).name)[1:]    # with all there is
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


#: A first step of its own: range, slope, first step, truncation and the format that follows.
FIRST_STEPS = ((64, 20.0, 10.0, 120.0, 'Int16Bytes'), (128, 20.0, 10.0, 120.0, 'Int16Bytes'),
               (16, 20.0, 10.0, 120.0, 'Int16Bytes'), (256, 20.0, 10.0, 120.0, 'Int16Bytes'),
               (64, 20.0, 10.0, 300.0, 'Int16SixBits'), (128, 20.0, 10.0, 300.0, 'Int16SixBits'),
               (21, 200.0, 10.0, 300.0, 'Int16'),
               (128, 200.0, 10.0, 300.0, 'Int16'), (512, 20.0, 10.0, 300.0, 'Int16'))


def kernels_of_a_first_step(case: tuple[int, float, float, float, str]) -> list[tuple[str, str]]:
    """File and name of every kernel that passes messages or selects labels."""
    disparities, slope, first_step, truncation, kind = case
    config = MatcherConfig(
        census_weight=1.0, disparity_range=disparities, discontinuity_slope=slope, levels=3,
        discontinuity_first_step=first_step, discontinuity_truncation=truncation,
        iterations='3, 5, 7')
    assert MessageFormat.of(config).name == f'{kind}FirstStep'
    steps = schedule.launches(config, 1242, 375)
    base = messages.base_cost(config, 'float', steps)
    return sorted({('hierarchical/messages.cu', messages.inherit_name(config)),
                   *labels.kernels(config, steps[-1], base), *labels.kernels(config, None, base),
                   *(messages.kernel_of(config, step, base, has_more)
                     for step in steps for has_more in (False, True))})


def kernels_of_the_other_stages() -> list[tuple[str, str]]:
    """Everything before and after matching, whatever the settings."""
    names = list(refine.KERNELS)
    names += [('frame/convert.cu', name) for name in (*convert.kernels(), *rectify.kernels())]
    names += [outputs.ENLARGE, *outputs.KERNELS.values()]
    names += sorted({('frame/preprocess.cu', name) for method in ('sobel', 'residual')
                     for sigma in (0.0, 1.0)
                     for name in preprocess.kernels(MatcherConfig(preprocessing=method,
                                                                  smoothing_sigma=sigma))})
    return [*names, *map(right_labels.kernel, right_labels.KEYS)]


def kernels_of_combined_costs(disparities: int) -> list[tuple[str, str]]:
    """Every cost and window, with and without path aggregation."""
    names = []
    for window, changes in (
            ('5x5', {}), ('7x5', {'grey_weight': 1.0, 'path_aggregation': True}),
            ('9x7', {'sobel_weight': 1.0, 'path_aggregation': True}),
            ('7x5', {'census_weight': 0.0, 'sparse_census_weight': 1.0}),
            ('5x5', {'sparse_census_weight': 1.0, 'sobel_weight': 1.0}),
            ('9x7', {'sobel_weight': 1.0, 'grey_weight': 1.0}),
            ('9x7', {'sparse_census_weight': 1.0, 'sobel_weight': 1.0, 'grey_weight': 1.0})):
        config = MatcherConfig.from_mapping({
            'disparity_range': disparities, 'census_weight': 0.8, 'census_window': window,
            **COMBINED, **changes})
        for image in ('uint8', 'float'):
            names += [*combined.kernels(config, image), edges.kernel(image), edges.kernel('int')]
        steps = schedule.launches(config, 640, 480)
        base = messages.base_cost(config, 'uint8', steps)
        names += [messages.kernel_of(config, step, base, has_more)
                  for step in steps for has_more in (False, True)]
        names += [*labels.kernels(config, steps[-1], base), fractions.kernel(config)]
    return sorted(set(names))


def kernels_of_a_band() -> list[tuple[str, str]]:
    """Kernels of the second pass; the first one's are those of multi-feature costs."""
    config = MatcherConfig.preset('road')
    names = {name for image in ('uint8', 'float') for name in band.kernels(config, image)}
    return [*sorted(names),
            *(band_matching.halved(has_whole_grey) for has_whole_grey in (False, True))]


def kernels_of_sad() -> list[tuple[str, str]]:
    """Kernels of every number of tiles and chunks, and of every variant."""
    names = [right_labels.kernel('uint32')]
    everything = {'uniqueness_ratio': 5.0, 'disp12_max_diff': 1}
    for window, disparities, image, changes in (
            (5, 2, 'uint8', {'subpixel': False}), (15, 64, 'uint8', {}),
            (15, 128, 'float', {}), (21, 64, 'uint8', everything),
            (35, 40, 'float', everything), (51, 512, 'uint8', everything)):
        config = MatcherConfig(stereo_algorithm='sad', correlation_window_size=window,
                               disparity_range=disparities, **changes)
        found, wanted = sad_launch.launch_of(config, 1280, 720), refine.steps(config, ())
        names.append(('sad/sad.cu', sad.kernel_name(found, image, wanted)))
    names.append(('sad/sad.cu', sad.kernel_name(found._replace(copies=1), image, wanted)))
    for number, streaming in enumerate(cuda.STREAMING):
        for pixel, unrolled in (('uint8', number % 2 == 0), ('int32', number % 2 == 1)):
            variant = cuda.Variant(streaming, pixel, unrolled, 128)
            names.append(('papers/streamed_sad.cu', variant.kernel_name(5)))
    return [*names, ('papers/streamed_sad.cu', 'cut_to_8bit<float, int>')]


def kernels_of_the_papers(image: str) -> list[tuple[str, str]]:
    """Every number type with a storage and a layout of its own, and the widest unrolled range."""
    names = []
    for disparities, change in (
            (21, {'message_type': 'float32', **plain(storage='local')}),
            (128, {'message_type': 'float32', **plain(storage='register', blocks=2)}),
            (32, {'message_type': 'float16', **plain(storage='shared', layout='pixel_major')}),
            (64, {'message_type': 'float16', **plain(
                packed_halves=True, storage='hybrid', registers=20, shared=30, block_height=2)}),
            (16, {'message_type': 'int16', **plain(storage='register')}),
            (16, {'message_type': 'float32', 'exact': True}),
            (512, {'message_type': 'float32', 'exact': True})):
        config = resolve(MatcherConfig.from_mapping(
            {'disparity_range': disparities, **change}), device.TYPICAL)[-1]
        names += [('papers/plain_steps.cu', name)
                  for name in cuda_arrays.kernels(config, image).values()]
    return sorted(set(names))


FAST = {'tiled_barriers.computation': 'fast'}
#: Tiles of every schedule: range, size of a tile, image, schedule, and what else is set.
TILES = ((16, 13, 'uint8', 'speculative', FAST), (16, 13, 'uint8', 'rows', {}),
         (64, 13, 'float', 'cooperative', {'preprocessing': 'sobel_x'}))
#: The other types, ways to compute costs, and numbers of lanes.
OTHER_TILES = (
    (16, 13, 'uint8', 'speculative', {}),
    (32, 5, 'float', 'speculative', {'message_type': 'float32', **FAST}),
    (16, 13, 'uint8', 'rows', {'data_truncation': 15.3}),
    (21, 13, 'float', 'rows', {'message_type': 'float32'}), (5, 20, 'uint8', 'cooperative', FAST),
    (128, 13, 'float', 'lock_free', {'tiled_barriers.synchronisation': 'all',
                                     'preprocessing': 'sobel'}),
    (300, 5, 'uint8', 'launches', FAST),
    (512, 3, 'uint8', 'launches', {'message_type': 'float32'}))


def kernels_of_tiles(tiles: Iterable[tuple[int, int, str, str, dict[str, Any]]],
                     architecture: str) -> list[tuple[str, str]]:
    """File and name of the kernels that tiles like these are visited by."""
    names = []
    number = int(architecture[3:])
    found = dataclasses.replace(device.TYPICAL, capability=(number // 10, number % 10))
    for disparities, size, image, order, changes in tiles:
        config = five_sets(disparities, **{'stereo_algorithm': 'tiled_bp', 'tile_size': size,
                                           **barriers(order), **changes})
        # Where all tiles are to be on chip: runs of six as on Tsukuba, and of two.
        width, height = ((640, 480) if order != 'speculative' else (384, 288)
                         if size == 13 else (90, 60))
        launch = tiled_launch.launch_of(config, width, height, found)
        names.append(tiled.kernel(config, launch, image, True))
    return names


Kernels = Callable[[str], list[tuple[str, str]]]


def of_any(kernels: Callable[..., list[tuple[str, str]]], *arguments: Any) -> Kernels:
    """Kernels that are the same on every architecture."""
    return lambda _: kernels(*arguments)


#: Those of few ranges, for every architecture, and further ones for the first.
GROUPS: dict[str, Kernels] = {
    'other stages': of_any(kernels_of_the_other_stages), 'sad': of_any(kernels_of_sad),
    'band': of_any(kernels_of_a_band),
    **{f'papers {image}': of_any(kernels_of_the_papers, image) for image in ('uint8', 'float')},
    **{f'tiles {name}': partial(kernels_of_tiles, tiles)
       for name, tiles in (('schedules', TILES), ('others', OTHER_TILES))},
    **{f'first step {case}': of_any(kernels_of_a_first_step, case) for case in FIRST_STEPS},
    **{f'bp {labels} {kind}': of_any(kernels_of, labels, kind)
       for labels, kind in itertools.product(RANGES_OF_OTHERS, MESSAGE_TYPES)},
    **{f'multi-feature costs {labels}': of_any(kernels_of_combined_costs, labels)
       for labels in RANGES_OF_OTHERS}}
FURTHER: dict[str, Kernels] = {
    **{f'bp {labels} {kind}': of_any(kernels_of, labels, kind)
       for labels, kind in itertools.product(RANGES, MESSAGE_TYPES)},
    **{f'multi-feature costs {labels}': of_any(kernels_of_combined_costs, labels)
       for labels in RANGES}}


def assert_local_memory(name: str, log: str) -> None:
    """No kernel has any, but where a paper keeps values there."""
    if not name.startswith('send_messages'):
        assert spilled_bytes(log) == 0, name
        return
    numbers = [int(number) for number in re.findall(r' (\d+)', name)]
    disparities, registers, shared = numbers[0], *numbers[-2:]
    local = -(-4 * (disparities - registers - shared) // 8) * 8
    # Values beyond what 255 registers hold are spilled, as in the paper.
    assert spilled_bytes(log) == local or (disparities > 32 and spilled_bytes(log) > local), name


@pytest.mark.parametrize(('group', 'architecture'), slow(
    *itertools.product(GROUPS, ARCHITECTURES),
    *((group, ARCHITECTURES[0]) for group in FURTHER if group not in GROUPS)))
def test_all_kernels_compile(group: str, architecture: str) -> None:
    logs = compile_all((GROUPS | FURTHER)[group](architecture), architecture)
    assert logs
    for name, log in logs.items():
        if architecture == ARCHITECTURES[0] or group == 'other stages':
            assert_local_memory(name, log)


def test_the_kernel_of_each_file_with_the_longest_name_compiles() -> None:
    names: dict[str, str] = {}
    for group in ('other stages', 'band', 'sad', 'papers uint8', 'tiles schedules', 'bp 21 int16',
                  'bp 21 float32', 'multi-feature costs 21'):      # few labels, which take little
        for file, name in GROUPS[group](ARCHITECTURES[0]):
            names[file] = max(names.get(file, ''), name, key=len)
    assert len(names) == len(list(compiler.KERNELS.rglob('*.cu')))
    for name, log in compile_all(list(names.items()), ARCHITECTURES[0]).items():
        assert_local_memory(name, log)
