"""The CUDA engine's host code without a device: what it launches, and with which arguments.

Everything of CUDA's that touches a device is replaced; kernels are not run. That the results are
right, the tests with the marker ``gpu`` say.
"""

from __future__ import annotations

import ctypes
import importlib
import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import Calibration, MatcherConfig, RawImage
from stereo_bp_ros.cameras.rectification import RightWarp
from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.engines.choice import create_engine, warm_up
from stereo_bp_ros.engines.cuda.band import stage as band
from stereo_bp_ros.engines.cuda.costs import features, fractions, terms
from stereo_bp_ros.engines.cuda.costs import stage as combined
from stereo_bp_ros.engines.cuda.hierarchical import (
    cost,
    edges,
    formats,
    labels,
    launch,
)
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.outputs import stage as outputs
from stereo_bp_ros.engines.cuda.plan import resolve
from stereo_bp_ros.engines.cuda.runtime import compiler, device, structures
from stereo_bp_ros.engines.cuda.sad import launch as sad_launch
from stereo_bp_ros.engines.cuda.stages import convert, preprocess, refine
from stereo_bp_ros.engines.cuda.tiled import launch as tiled_launch
from stereo_bp_ros.engines.geometry import rectified_size
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from test.cases import slow
from test.engines.support.cuda_stand_in import Log, stand_in
from test.raw_cameras import rectification
from test.settings import plain, streamed
from test.settings import tiled as barriers

# Declares structures of its own, and is not imported before it is used.
importlib.import_module('stereo_bp_ros.papers.plain_steps.cuda')


#: Values in Python of C++ expressions, by file.
CONSTANTS = {
    'hierarchical/messages.cu': {
        **{name: getattr(launch, name) for name in (
            'MAX_HALO', 'FROM_ZERO', 'FROM_PARENTS', 'FROM_MESSAGES', 'LAST_COLOUR',
            'BOTH_COLOURS', 'LABELS', 'OWN_LABELS')},
        'Shape<Int16, 9>::PADDED': 2 * formats.CHUNK},
    'hierarchical/edges.cu': {'EDGE_WIDTH': edges.WIDTH, 'EDGE_HEIGHT': edges.HEIGHT},
    'hierarchical/cost.cu': {
        **{name: getattr(cost, name) for name in ('TILE_WIDTH', 'TILE_HEIGHT', 'TILE_LEVELS')},
        **{f'Warps<{chunks}>::COUNT': cost._warps(chunks)
           for chunks in (1, 3, 5, 8, 9, 16, 17, 32, 64)}},
    'hierarchical/labels.cu': {'THREADS': labels.THREADS},
    'band/centres.cu': {name: getattr(band, name) for name in ('CENTRE_WIDTH', 'CENTRE_HEIGHT')},
    'band/costs.cu': {'BAND_COST_THREADS': band.COST_THREADS},
    'band/paths.cu': {'BAND_PATH_THREADS': band.PATH_THREADS, 'PATH_LANES': band.PATH_LANES},
    'band/labels.cu': {
        **{name: getattr(band, name) for name in ('BAND_WIDTH', 'BAND_HEIGHT', 'MATCH_THREADS',
                                                  'FRACTION_THREADS')},
        'BandTile<4>::BESIDE': quantisation.BAND_REACH,
        **{f'Window<{radius}>::PIXEL_WORDS': band.words(radius) for radius in (1, 2, 3, 4)}},
    'costs/features.cu': {name: getattr(features, name)
                          for name in ('TILE_WIDTH', 'TILE_HEIGHT', 'THREADS')},
    'costs/combine.cu': {'ROW_WIDTH': combined.ROW_WIDTH, 'ROWS': combined.ROWS},
    'costs/path_aggregation.cu': {
        'PATH_THREADS': combined.PATH_THREADS,
        **{f'Volume<{count}>::{name}': of(count)
           for count in (2, 16, 21, 64, 96, 128, 129, 192, 256, 257, 300, 512)
           for name, of in (('PADDED', terms.padded_labels), ('LANES', terms.lanes))}},
    'costs/fractions.cu': {'FRACTION_WIDTH': fractions.WIDTH, 'FRACTION_HEIGHT': fractions.HEIGHT},
    'costs/pyramid.cu': {
        **{name: getattr(combined, name) for name in ('ARRANGED', 'ARRANGING', 'NODES')},
        'Sharing<64>::WARPS': combined.MAX_WARPS},
    'frame/preprocess.cu': {
        **{name: getattr(preprocess, name) for name in ('TILE_WIDTH', 'TILE_HEIGHT',
                                                        'MAX_RADIUS')},
        'THREADS': math.prod(preprocess.BLOCK)},
    'frame/convert.cu': {name: getattr(convert, name) for name in (
        'CHANNEL', 'COLOUR', 'MOSAIC', 'WIDE', 'WIDE_MOSAIC', 'VALUES')},
    'frame/planes.cu': {'CELL': refine.CELL},
    'frame/confidence.cu': {'ROW_BLOCK': refine.ROW_BLOCK, 'JUMP': quantisation.JUMP},
    'frame/speckles.cu': {'TILE_WIDTH': refine.TILE, 'TILE_HEIGHT': refine.TILE},
    'outputs/disparity_color.cu': {'PIXELS': math.prod(outputs.BLOCK)},
    'sad/sad.cu': {'STRIP': sad_launch.STRIP, 'KEY_SCALE': sad_launch.MAX_LABELS,
                   'resident_threads(2, LABELS_ALONE)': sad_launch.RESIDENT_THREADS},
    'tiled/tiled.cu': {
        'PLANES': tiled_launch.PLANES, 'STAGES': tiled_launch.STAGES,
        **{name.upper(): number for number, name in enumerate(tiled_launch.EDGES)}},
}


def structure_in_memory(name: str, structure: type[ctypes.Structure]) -> list[str]:
    """Conditions on sizes and offsets."""
    assert structure._fields_
    # The compiler's own offsetof: NVRTC before 13.5 has no other, and no header.
    return [f'sizeof({name}) == {ctypes.sizeof(structure)}', *(
        f'__INTADDR__(&(({name}*)0)->{field}) == {getattr(structure, field).offset}'
        for field, _ in structure._fields_)]


def formats_in_memory() -> list[str]:
    """Conditions on the formats of messages and costs."""
    checks = []
    for family in formats.FAMILIES:
        for chunks in (1, 3, 7, 8, 9, 16, 17, 24, 32, 64):
            is_split = family.names[0] == 'Fixed32' or (
                family.names[0] != family.names[1] and chunks >= 8)
            if issubclass(family, formats.Int16SixBits) and chunks % 8:
                continue
            message = family(chunks, is_split, 1.0, 1, 8)
            if message.is_int16:
                stepped = family(chunks, is_split, 1.0, 1, 8, first_step=0)
                checks += [f'HAS_FIRST_STEP<{stepped.name}> && !HAS_FIRST_STEP<{message.name}>',
                           f'Shape<{stepped.name}, {8 * chunks}>::UNITS == {stepped.units}']
            shape = f'Shape<{message.name}, {8 * chunks}>'
            checks += [f'{shape}::CHUNKS == {chunks}', f'{shape}::UNITS == {message.units}',
                       f'{shape}::LANES == {message.lanes}',
                       f'sizeof({message.name}::Unit) == {message.unit_bytes}',
                       f'{shape}::WORDS * {message.name}::WORD_REGISTERS == {message.registers}',
                       f'{message.name}::IS_WHOLE == {str(message.is_whole).lower()}']
    for name in ('Nibbles', 'Bytes', 'Multiples', 'MultipleSums', 'Int16', 'Float32'):
        kept = CostFormat(name, 0)
        checks += [f'{name}::UNITS_PER_CHUNK == {kept.units}',
                   f'sizeof({name}::Unit) == {kept.unit_bytes}']
    return checks


@pytest.mark.parametrize('file', sorted(
    {*CONSTANTS, *(file for file, _ in structures.DECLARED.values())}))
def test_constants_structures_and_formats_are_the_same_in_both_languages(file):
    from cupy.cuda import nvrtc
    checks = [f'{name} == {value}' for name, value in CONSTANTS.get(file, {}).items()]
    for name, (place, structure) in structures.DECLARED.items():
        checks += structure_in_memory(name, structure) if place == file else []
    checks += formats_in_memory() if file == 'hierarchical/messages.cu' else []
    source = (compiler.KERNELS / file).read_text(encoding='utf-8')
    source += ''.join(f'\nstatic_assert({check}, "see the condition");' for check in checks)
    program = nvrtc.createProgram(source, file, (), ())
    try:
        nvrtc.compileProgram(program, (*compiler.OPTIONS, '-arch=compute_90'))
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    finally:
        nvrtc.destroyProgram(program)


def test_costs_are_computed_in_float32_only_where_it_is_exact():
    assert cost.is_exact_in_float32(MatcherConfig())
    assert cost.is_exact_in_float32(MatcherConfig.preset('road_sobel'))
    # Some costs are so close to a half that float32 rounds them to the other side.
    for changes in ({'smoothing_sigma': 0.7}, {'preprocessing': 'residual'}, {'sobel_scale': 0.3}):
        assert not cost.is_exact_in_float32(MatcherConfig(**changes))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Replaces CUDA, and notes kernels."""
    return stand_in(monkeypatch)


#: The function that ``log`` replaces.
KERNEL = compiler.kernel

TILED = {'stereo_algorithm': 'tiled_bp', 'disparity_range': 16}
PAPERS = {'message_type': 'float32', 'disparity_range': 16}
BAND = {**load_preset('road'), 'speckle_size': 0, 'median_window_size': 0,
        'bilateral_passes': 0}
COMBINED = {'discontinuity_slope': 20.0, 'discontinuity_truncation': 120.0, 'levels': 3}
CONFIGURATIONS = {
    'int16': {'disparity_range': 24},
    'bytes': {'disparity_range': 128},
    'float32': {'message_type': 'float32'},
    'right': {'reference_image': 'right', 'smoothing_sigma': 0.7, 'preprocessing': 'residual'},
    'corrected': {'row_correction': 'correct'},
    'raw': {'rectify': True, 'rectified_width': 160, 'rectified_height': 120},
    'refined': {'disp12_max_diff': 1, 'uniqueness_ratio': 5.0, 'texture_threshold': 3,
                'filling': 'background', 'median_window_size': 5},
    'partitions': {'partition_rows': 2, 'partition_columns': 2, 'partition_padding': 32},
    'combined': {'census_weight': 0.8, 'sobel_weight': 1.0, **COMBINED},
    'path aggregation': {'grey_weight': 0.5, 'sobel_weight': 1.0, 'path_aggregation': True,
                         **COMBINED, 'smoothing_sigma': 0.7, 'texture_threshold': 3},
    'path aggregation in partitions': {'census_weight': 0.8, 'sparse_census_weight': 0.5,
                                'path_aggregation': True, **COMBINED,
                                'partition_columns': 2, 'partition_padding': 32},
    'band': BAND,
    'band in partitions': {**BAND, 'smoothing_sigma': 0.7, 'reference_image': 'right',
                           'partition_columns': 2, 'partition_rows': 2,
                           'partition_padding': 32},
    'sad': {'stereo_algorithm': 'sad', 'disp12_max_diff': 1},
    **{f'sad {name}': {'stereo_algorithm': 'sad', **streamed(name)}
       for name in ('global', 'shared_one', 'shared_all')},
    **{f'tiled {name}': {**TILED, **barriers(name)}
       for name in ('rows', 'cooperative', 'lock_free', 'launches')},
    'tiled speculative': {**TILED, **barriers('speculative'), 'disparity_range': 8},
    'tiled float32': {**TILED, 'message_type': 'float32', 'disp12_max_diff': 1},
    **{f'storage {name}': {**PAPERS, **plain(storage=name)}
       for name in ('register', 'shared', 'local')},
    'hybrid': {**PAPERS, **plain(storage='hybrid', registers=5, shared=6)},
    'exact': {'message_type': 'float32', 'exact': True},
    'reduced': {'downscale': 2},
    'reduced SAD': {'stereo_algorithm': 'sad', 'downscale': 3},
    **{f'allocation {name}': {'message_type': 'float16', **plain(
        layout='pixel_major', allocation=name, packed_halves=True)}
       for name in ('single', 'separate')},
}


@pytest.mark.parametrize('outputs', [('disparity',), OUTPUTS], ids=['one output', 'all outputs'])
@pytest.mark.parametrize('settings', CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_a_frame_launches_only_what_was_loaded_with_its_engine(log, settings, outputs):
    width, height = 320, 240
    config = MatcherConfig.from_mapping({'backend': 'cuda', **settings})
    engine = create_engine(config, width, height)
    known = set(log.loaded)
    images = [RawImage.from_array(np.full((height, width, 3), grey, np.uint8))
              for grey in (90, 110)]
    size = rectified_size(config, width, height)
    arrays = {name: OUTPUTS[name].empty(size[::-1]) for name in outputs}
    calibration = Calibration(400.0, 0.1, 160.0, 161.0, 120.0)
    found = rectification(size=size) if config.rectify else None
    for live in ({}, {'speckle_size': 20, 'median_window_size': 3},
                 {'filling': 'plane', 'bilateral_passes': 2}):
        before = len(log.launched)
        engine.update(resolve(engine.config.replace(**live), engine.plan.device))
        timings = engine.compute(*images, calibration, arrays, found)
        assert {'upload', 'download'} <= timings.keys()
        assert len(log.launched) > before
        captured = len(log.launched)
        engine.compute(*images, calibration, arrays, found)
        is_graph = settings.get('plain_steps.allocation', 'once') == 'once'
        assert (len(log.launched) == captured) == is_graph
    assert set(log.loaded) == known
    assert set(log.launched) <= known
    engine.close()


TINY = 'int16', 'raw', 'combined', 'sad', 'tiled lock_free'


@pytest.mark.parametrize('name', [*TINY, *slow(*sorted(CONFIGURATIONS.keys() - TINY))])
def test_images_of_a_few_pixels_have_a_plan_and_a_frame(log, name):
    """Also those of 1 x 1, which are as large when they are reduced."""
    settings = CONFIGURATIONS[name]
    for size, factor in (((1, 1), 1), ((1, 1), 2), ((1, 1), 4), ((1, 3), 2), ((5, 4), 3)):
        config = MatcherConfig.from_mapping({
            'backend': 'cuda', **settings, 'downscale': factor, 'partition_rows': 0,
            'disparity_range': factor * settings.get('disparity_range', 64),
            'partition_columns': 0})
        if config.rectify:
            config = config.replace(rectified_width=size[0], rectified_height=size[1])
        width, height = (97, 61) if config.rectify else size
        engine = create_engine(config, width, height)
        image = RawImage.from_array(np.zeros((height, width), np.uint8))
        engine.compute(image, image, Calibration(400.0, 0.1, 1.0, 1.0, 1.0),
                       {name: output.empty(size[::-1]) for name, output in OUTPUTS.items()},
                       rectification(size=size) if config.rectify else None)
        assert (f'{outputs.ENLARGE[0]}: {outputs.ENLARGE[1]}' in log.launched) == (factor > 1)
        log.launched.clear()
        engine.close()


@pytest.mark.parametrize('reference', ['left', 'right'])
def test_maps_are_copied_once_for_a_calibration_and_no_frame_is_captured_again(
        log, monkeypatch, reference):
    from cupy.cuda import runtime
    copied = []
    config = MatcherConfig(backend='cuda', rectify=True, reference_image=reference)
    engine = create_engine(config, 97, 61)
    monkeypatch.setattr(runtime, 'memcpyAsync', lambda to, _from, size, *_: copied.append(
        (to, size)))
    images = [RawImage.from_array(np.full((61, 97), grey, np.uint8)) for grey in (90, 110)]
    arrays = {'disparity': OUTPUTS['disparity'].empty((61, 97))}
    places = {name: (engine._arena.device[name], engine._arena.nbytes[name])
              for side in ('left', 'right') for name in (f'{side}_map', f'{side}_map_parts')}
    for i in range(3):
        engine.compute(*images, None, arrays, rectification())
        if not i:
            captured = len(log.launched)
    assert copied == list(places.values())
    engine.compute(*images, None, arrays, rectification(d=(0.1, 0, 0, 0)))
    assert copied == 2 * list(places.values())
    assert len(log.launched) == captured
    engine.close()


@pytest.mark.parametrize('reference', ['left', 'right'])
def test_a_correction_launches_a_remap_only_while_there_is_one(log, monkeypatch, reference):
    from cupy.cuda import runtime
    copied = []
    config = MatcherConfig(backend='cuda', row_correction='correct', reference_image=reference)
    images = [RawImage.from_array(np.full((61, 97), grey, np.uint8)) for grey in (90, 110)]
    arrays = {'disparity': OUTPUTS['disparity'].empty((61, 97))}

    def launched(engine: Any, warp: RightWarp | None) -> list[str]:
        log.launched.clear()
        if warp is not None:
            warp.prepare(None, 97, 61)
        engine.compute(*images, None, arrays, None, warp)
        return list(log.launched)

    off = create_engine(config.replace(row_correction='off'), 97, 61)
    plain = launched(off, None)
    off.close()
    engine = create_engine(config, 97, 61)
    known = set(log.loaded)
    monkeypatch.setattr(runtime, 'memcpyAsync', lambda to, _from, size, *_: copied.append(
        (to, size)))
    assert launched(engine, None) == plain
    first, second = (RightWarp((1, 0, 0, 0, 1, rows, 0, 0, 1)) for rows in (1.5, 2.0))
    corrected = launched(engine, first)
    remap, others = 'frame/convert.cu: rectify<uint8>', 'frame/convert.cu: convert<uint8>'
    assert corrected.count(remap) == corrected.count(others) == 1
    assert [name for name in corrected if name not in (remap, others)] == [
        name for name in plain if name != others]
    # No frame is captured again, and the maps change with the homography alone.
    assert not any([launched(engine, warp) for warp in (second, None, second)])
    maps = [(engine._arena.device[name], engine._arena.nbytes[name])
            for name in ('right_map', 'right_map_parts')]
    assert copied == 2 * maps
    assert set(log.loaded) == known
    engine.close()


@pytest.mark.parametrize('settings', CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_warming_up_compiles_the_kernels_of_an_engine_and_touches_no_device(
        log, settings, monkeypatch):
    import cupy
    from cupy.cuda import memory, pinned_memory, runtime
    config = MatcherConfig.from_mapping({'backend': 'cuda', **settings})
    create_engine(config, 320, 240).close()

    def refuse(*_: object, **__: object) -> None:
        pytest.fail('touched the device')

    for owner, name in ((memory, 'Memory'), (pinned_memory, 'PinnedMemory'),
                        (runtime, 'malloc'), (cupy.cuda, 'Device'), (cupy.cuda, 'Stream'),
                        (device, 'available_memory')):
        monkeypatch.setattr(owner, name, refuse)
    compiled = set()

    def compile_one(file: str, name: str, _architecture: str) -> tuple[bytes, str]:
        compiled.add(f'{file}: {name}')
        return b'', name

    monkeypatch.setattr(compiler, 'kernel', KERNEL)
    monkeypatch.setattr(compiler, 'compiled', compile_one)
    monkeypatch.setattr(compiler, '_ahead', {})
    warm_up(config, 320, 240)
    assert compiled == set(log.loaded)
    assert not log.launched
