"""The CUDA engine on a GPU: results, memory, live settings, errors."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig, RawImage, StereoMatcher
from stereo_bp_ros.engines.cuda import engine as cuda
from stereo_bp_ros.engines.cuda.hierarchical import formats, launch
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.plan import forget, resolve
from stereo_bp_ros.engines.cuda.runtime import compiler, device
from stereo_bp_ros.frame.disparity_frame import ENGINE_STAGES, OUTPUTS
from test.cases import every
from test.engines.support.cuda_runs import labels as labels_of
from test.engines.support.cuda_runs import naive_labels, run
from test.engines.support.pairs import CALIBRATION, compare_engines, noisy_pair, random_raw
from test.settings import five_sets, paper, plain, streamed

pytestmark = pytest.mark.gpu


def assert_labels_of_the_plain_implementation(
        config: MatcherConfig, width: int, height: int,
        tilings: dict[int, launch.Tiling] | None = None) -> None:
    left, right = noisy_pair(width, height)
    found = labels_of(config, run(config, left, right, tilings=tilings)['disparity'])
    assert np.array_equal(found, naive_labels(config, left, right))


@pytest.mark.parametrize(('disparities', 'levels', 'width', 'height'), [
    *((disparities, 3, 49, 33) for disparities in (2, 3, 8, 9, 21, 64, 77, 128, 300, 512)),
    *((12, levels, *size) for levels in (1, 4, 6)
      for size in ((16, 16), (17, 16), (16, 19), (31, 64), (130, 17)))])
def test_int16_labels_equal_the_plain_implementation(disparities: int, levels: int, width: int,
                                                     height: int) -> None:
    config = paper(disparities, levels=levels, iterations=5, min_disparity=-5)
    assert_labels_of_the_plain_implementation(config, width, height)


@pytest.mark.parametrize('iterations', [0, 1, 2, 3, 11])
@pytest.mark.parametrize('per_pass', [1, 2, 7])
@pytest.mark.parametrize('directions', [1, 2, 4])
def test_results_do_not_depend_on_the_tiling(iterations: int, per_pass: int,
                                             directions: int) -> None:
    tiling = launch.Tiling(per_pass, 10, 6, 256, directions)
    assert_labels_of_the_plain_implementation(paper(20, levels=3, iterations=iterations), 61, 45,
                                              dict.fromkeys(range(3), tiling))


@pytest.mark.parametrize(('disparities', 'iterations', 'per_pass'), [
    (6, 2, 2), (6, 7, 7), (20, 5, 3), (20, 7, 7), (20, 4, 2), (40, 9, 3), (40, 7, 7), (150, 4, 2)])
@pytest.mark.parametrize('directions', [1, 2, 4])
def test_results_do_not_depend_on_where_nodes_are_kept(disparities: int, iterations: int,
                                                       per_pass: int, directions: int) -> None:
    left, right = noisy_pair(61, 45)
    kept = launch.Tiling(per_pass, 6, 4, 1024, directions, resident=True)
    moving = launch.Tiling(per_pass, 10, 6, 128, directions)
    for message_type in ('int16', 'float32') if disparities < 100 else ('int16',):
        config = paper(disparities, levels=3, iterations=iterations, message_type=message_type)
        found = [run(config, left, right, tilings=dict.fromkeys(range(3), cut))['disparity']
                 for cut in (kept, moving)]
        assert np.array_equal(*found)


@pytest.mark.parametrize(('kind', 'slope', 'truncation', 'disparities'), [
    *(('Int16Bytes', 20.0, 120.0, disparities) for disparities in (16, 21, 64, 130, 300)),
    *(('Int16SixBits', 20.0, 600.0, disparities) for disparities in (64, 128)),
    *(('Int16', 40.0, 600.0, disparities) for disparities in (21, 100, 300))])
@pytest.mark.parametrize('iterations', ['7', '4, 0, 2, 1', '0, 1, 3, 0'])
def test_a_first_step_and_iterations_of_levels_equal_the_plain_implementation(
        kind: str, disparities: int, slope: float, truncation: float, iterations: str) -> None:
    config = paper(disparities, levels=4, iterations=iterations, data_weight=17.0,
                   discontinuity_slope=slope, discontinuity_first_step=10.0,
                   discontinuity_truncation=truncation, data_truncation=15.0)
    assert MessageFormat.of(config).name == f'{kind}FirstStep'
    slots = launch.Tiling(2, 10, 6, 128, 2, last=launch.Tiling(2, 10, 6, 128, 2))
    for tilings in ({}, {k: slots for k, count in enumerate(config.iterations_of_levels)
                         if count >= 2 and disparities < 200}):
        assert_labels_of_the_plain_implementation(config, 61, 45, tilings)


@pytest.mark.parametrize('disparities', [12, 40, 128])
@pytest.mark.parametrize(('iterations', 'directions'), [(1, 2), (4, 1)])
@pytest.mark.parametrize('truncation', [15.0, 20.0])
def test_an_iteration_that_labels_come_out_of_changes_nothing(disparities: int, iterations: int,
                                                              directions: int,
                                                              truncation: float) -> None:
    # A truncation of 15 leaves costs of 4 bits, where messages are in bytes.
    config = paper(disparities, levels=3, iterations=iterations, data_truncation=truncation,
                   discontinuity_truncation=6.0)
    one = launch.Tiling(1, 16, 8, 128, directions)
    tiles = {0: one._replace(last=launch.Tiling(1, 14, 6, 128, directions))}
    assert_labels_of_the_plain_implementation(config, 149, 45, tiles)
    left, right = noisy_pair(149, 45)
    # What few want is taken from the messages once more.
    config = config.replace(subpixel=True, uniqueness_ratio=3.0, disp12_max_diff=1)
    results = [run(config, left, right, OUTPUTS, tilings=tilings) for tilings in (tiles, {
        0: launch.Tiling(2, 10, 6, 128, directions)})]
    for name in OUTPUTS:
        assert np.array_equal(results[0][name], results[1][name], equal_nan=True)


@pytest.mark.parametrize('disparities', [16, 40, 64, 122])
def test_messages_kept_in_few_bits_change_nothing(monkeypatch: pytest.MonkeyPatch,
                                                  disparities: int) -> None:
    left, right = noisy_pair(90, 57)
    # 16 bits, and what is kept in bytes or in 6 bits at all.
    kinds = [('Int16', 0, 0),
             ('Int16Bytes', 255, 0) if disparities < 64 else ('Int16SixBits', 0, 31)]
    for changes in ({}, {'uniqueness_ratio': 3.0, 'disp12_max_diff': 1}):
        config = paper(disparities, **changes)
        results = []
        for kind, largest, steepest in kinds:
            monkeypatch.setattr(formats, 'MAX_BYTE', largest)
            monkeypatch.setattr(formats, 'MAX_SIX_BIT_SLOPE', steepest)
            forget()
            assert MessageFormat.of(config).name == kind
            results.append(run(config, left, right, OUTPUTS if changes else ('disparity',)))
        forget()
        for name in results[0]:
            for other in results[1:]:
                assert np.array_equal(results[0][name], other[name], equal_nan=True)


@pytest.mark.parametrize('disparities', [64, 128])
def test_tiles_of_whole_rounds_change_nothing(disparities: int) -> None:
    # Threads of their own where images are of 8 bits and labels are all that is wanted.
    config = paper(disparities, levels=2, iterations=2, discontinuity_slope=0.5)
    assert isinstance(MessageFormat.of(config), formats.Int16SixBits)
    whole = launch.Tiling(1, 16, 8, 128, 2)
    left, right = noisy_pair(149, 75)
    for changes in ({}, {'preprocessing': 'sobel_x'}, {'uniqueness_ratio': 3.0, 'subpixel': True}):
        results = [run(config.replace(**changes), left, right, ('disparity', 'confidence')
                       if 'subpixel' in changes else ('disparity',), tilings={0: whole._replace(
                           last=launch.Tiling(1, 30, 22, threads, 2))})
                   for threads in (launch.SIX_BIT_LABEL_THREADS, 256)]
        for name in results[0]:
            assert np.array_equal(*(found[name] for found in results), equal_nan=True)


@pytest.mark.parametrize('disparities', [16, 40, 128, 200])
@pytest.mark.parametrize('architecture', ['compute_75', 'compute_80', 'compute_87'])
def test_the_arithmetic_of_older_devices_gives_the_same_labels(
        monkeypatch: pytest.MonkeyPatch, architecture: str, disparities: int) -> None:
    # Their packed minimum has other instructions; a newer device runs their PTX.
    monkeypatch.setattr(device.Properties, 'architecture', architecture)
    monkeypatch.setattr(compiler, '_loaded', {})
    assert_labels_of_the_plain_implementation(paper(disparities, levels=3, iterations=5), 49, 33)


CASES: dict[str, dict[str, Any]] = {
    'defaults': {},
    'negative disparities': {'min_disparity': -20},
    'right reference': {'reference_image': 'right', 'min_disparity': -4},
    'grey values': {'preprocessing': 'none'},
    'gaussian': {'smoothing_sigma': 0.8},
    'gradient': {'preprocessing': 'sobel'},
    'residual': {'preprocessing': 'residual'},
    'wide residual': {'preprocessing': 'residual', 'residual_window_size': 9,
                      'residual_iterations': 2},
    'first step': {'discontinuity_first_step': 0.2},
    'iterations of levels': {'iterations': '3, 0, 5', 'discontinuity_first_step': 0.2},
    'costs of 16 bits': {'levels': 2, 'data_weight': 2.0, 'data_truncation': 200.0},
    'uniqueness': {'uniqueness_ratio': 20.0},
    'texture': {'texture_threshold': 900},
    'left-right check': {'disp12_max_diff': 1},
    'median 3': {'median_window_size': 3},
    'median 5 and check': {'median_window_size': 5, 'disp12_max_diff': 1},
    'speckles': {'speckle_size': 40, 'speckle_range': 2.0},
    'filling': {'filling': 'background', 'disp12_max_diff': 1},
    'plane': {'filling': 'plane', 'disp12_max_diff': 1},
    'bilateral': {'bilateral_passes': 2, 'disp12_max_diff': 1},
    'bilateral, everywhere': {'bilateral_passes': 1, 'bilateral_sigma': 0.7, 'filling': 'plane',
                              'disp12_max_diff': 1, 'border': 'keep', 'speckle_size': 20},
    'border': {'border': 'keep'},
    'no subpixel': {'subpixel': False},
    'half': {'downscale': 2},
    'third, right reference': {'downscale': 3, 'reference_image': 'right', 'min_disparity': -6,
                               'filling': 'plane', 'disp12_max_diff': 1, 'median_window_size': 3},
    'half, multi-feature cost': {'downscale': 2, 'levels': 2, 'census_weight': 0.8,
                                 'path_aggregation': True,
                                 'discontinuity_slope': 20.0, 'discontinuity_truncation': 120.0},
    'band': {'band_radius': 2, 'levels': 1, 'iterations': 2, 'census_weight': 0.4,
             'sparse_census_weight': 0.4, 'sobel_weight': 1.0, 'path_aggregation': True,
             'discontinuity_first_step': 10.0, 'discontinuity_slope': 20.0,
             'discontinuity_truncation': 60.0, 'discontinuity_edge_threshold': 16,
             'disp12_max_diff': 1, 'speckle_size': 20, 'bilateral_passes': 2},
    'fewer points': {'points_decimation': 3, 'points_min_depth': 4.0, 'points_max_depth': 9.0},
    'everything': {'filling': 'background', 'disp12_max_diff': 2, 'speckle_size': 30,
                   'median_window_size': 3, 'uniqueness_ratio': 5.0, 'texture_threshold': 200,
                   'reference_image': 'right', 'border': 'keep'},
}


@pytest.mark.parametrize('case', CASES)
@pytest.mark.parametrize('image', ['mono8', 'mono16', 'rgb8'])
def test_every_setting_gives_what_the_cpu_engine_gives(case: str, image: str) -> None:
    pytest.importorskip('numba')
    config = MatcherConfig(**{'disparity_range': 30, 'levels': 4, **CASES[case]})
    left, right = noisy_pair(88, 47)
    if image == 'mono16':
        left, right = (side.astype(np.uint16) * 200 + 13 for side in (left, right))
    elif image == 'rgb8':
        left, right = (np.ascontiguousarray(np.dstack((side, side[::-1], 255 - side)))
                       for side in (left, right))
    compare_engines(config, left, right)


@pytest.mark.parametrize('algorithm', ['bp', 'sad', 'tiled_bp'])
@pytest.mark.parametrize('factor', [1, 2, 3, 4])
def test_images_of_a_few_pixels_give_what_the_cpu_gives(algorithm: str, factor: int) -> None:
    """Also those of 1 x 1, which are as large when they are reduced."""
    config = MatcherConfig(stereo_algorithm=algorithm, disparity_range=16, downscale=factor,
                           border='invalid' if algorithm == 'sad' else 'keep', disp12_max_diff=1,
                           filling='plane')
    for height, width in itertools.product(range(1, 6), repeat=2):
        left, right = np.random.default_rng(0).integers(0, 256, (2, height, width), np.uint8)
        found = []
        for backend in ('cuda', 'cpu'):
            with StereoMatcher(config, backend) as matcher:
                found.append(matcher.compute(left, right, calibration=CALIBRATION,
                                             outputs=tuple(OUTPUTS)))
        assert every(np.array_equal(*(getattr(frame, name) for frame in found), equal_nan=True)
                     for name in OUTPUTS), (width, height)


@pytest.mark.alone
@pytest.mark.parametrize('settings', [{}, {'stereo_algorithm': 'sad'}, {
    'stereo_algorithm': 'sad', **streamed('shared_all')}, plain(storage='shared')], ids=str)
def test_a_thousand_frames_allocate_and_compile_nothing(
        settings: dict[str, Any], refuse_to_allocate: Callable[[], None]) -> None:
    from cupy.cuda import runtime
    config = five_sets(16, speckle_size=20, uniqueness_ratio=2.0, disp12_max_diff=1, **settings)
    left, right = (RawImage.from_array(image) for image in noisy_pair(160, 120))
    engine = cuda.CudaEngine.of(config, 160, 120)
    outputs = {name: OUTPUTS[name].empty((120, 160)) for name in OUTPUTS}
    for _ in range(3):
        engine.compute(left, right, CALIBRATION, outputs)

    refuse_to_allocate()
    free = runtime.memGetInfo()[0]
    tracemalloc.start()
    try:
        for _ in range(1000):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            engine.compute(left, right, CALIBRATION, outputs)
            assert tracemalloc.get_traced_memory()[1] - before < 4096
    finally:
        tracemalloc.stop()
    assert runtime.memGetInfo()[0] == free
    engine.close()


@pytest.mark.parametrize('disparities', [16, 128])
def test_labels_do_not_depend_on_what_else_is_wanted(disparities: int) -> None:
    config = paper(disparities, message_type='int16', data_weight=0.07)
    pair = noisy_pair(240, 130)
    assert np.array_equal(run(config, *pair)['disparity'],
                          run(config, *pair, OUTPUTS)['disparity'])


def test_two_engines_in_two_threads_do_not_disturb_each_other() -> None:
    configs = (paper(16, discontinuity_truncation=1.7), paper(40, data_weight=0.3, levels=3))
    pairs = (noisy_pair(97, 80, 1), noisy_pair(121, 64, 2))
    alone = [run(config, *pair)['disparity'] for config, pair in zip(configs, pairs, strict=True)]
    wrong: list[int] = []

    def work(number: int) -> None:
        left, right = pairs[number]
        engine = cuda.CudaEngine.of(configs[number], left.shape[1], left.shape[0])
        for _ in range(100):
            if not np.array_equal(run(configs[number], left, right, engine=engine)['disparity'],
                                  alone[number]):
                wrong.append(number)
        engine.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize('algorithm', ['bp', 'sad'])
def test_live_settings_act_on_the_next_frame(algorithm: str) -> None:
    config = five_sets(16, subpixel=False, stereo_algorithm=algorithm)
    left, right = noisy_pair(90, 60)
    engine = cuda.CudaEngine.of(config, 90, 60)
    run(config, left, right, engine=engine)
    changed = config.replace(subpixel=True, disp12_max_diff=1, median_window_size=3,
                             speckle_size=10, filling='plane', bilateral_passes=2,
                             uniqueness_ratio=8.0,
                             border='keep' if algorithm == 'bp' else 'invalid')
    engine.update(resolve(changed, engine.plan.device))
    after = run(changed, left, right, OUTPUTS, engine=engine)
    engine.close()
    fresh = run(changed, left, right, OUTPUTS)
    for name in OUTPUTS:
        assert np.array_equal(after[name], fresh[name], equal_nan=True)


def test_a_fault_on_the_device_is_a_named_error_that_stays(child: Callable[..., str]) -> None:
    said = child("""
import numpy as np, cupy
from stereo_bp_ros import MatcherConfig, RawImage, StereoMatcher
from stereo_bp_ros.errors import DeviceLostError, BackendUnavailable
from stereo_bp_ros.engines.cuda import engine
from stereo_bp_ros.engines.cuda.runtime import device
config = MatcherConfig(disparity_range=16, levels=3)
image = RawImage.from_array(np.zeros((48, 64), np.uint8))
out = {'disparity': np.empty((48, 64), np.float32)}
first = engine.CudaEngine.of(config, 64, 48)
first.compute(image, image, None, out)
fault = cupy.RawKernel('extern "C" __global__ void fault(int* p) { *p = 1; }', 'fault')
fault((1,), (1,), (np.uint64(8),))
for action in (lambda: first.compute(image, image, None, out),
               lambda: engine.CudaEngine.of(config, 64, 48)):
    try:
        action()
        print('no error')
    except DeviceLostError as error:
        print('lost')
first.close()
print(device.unavailable(0).reason.split('(')[0])
import os; os._exit(0 if not __import__('sys').stdout.flush() else 0)
""")
    assert said.splitlines() == ['lost', 'lost', 'CUDA device 0 was lost']


@pytest.mark.alone
def test_a_full_device_is_a_named_error_and_recoverable(child: Callable[..., str]) -> None:
    said = child("""
import numpy as np
from cupy.cuda import runtime
from stereo_bp_ros import MatcherConfig, RawImage, StereoMatcher
from stereo_bp_ros.errors import OutOfDeviceMemory
from stereo_bp_ros.engines.cuda import engine
config = MatcherConfig(disparity_range=128)
runtime.setDevice(0)
engine.CudaEngine.of(config, 64, 48).close()
held, size = [], runtime.memGetInfo()[0]
while size > 2**24:
    try:
        held.append(runtime.malloc(size))
    except runtime.CUDARuntimeError:
        size //= 2
try:
    engine.CudaEngine.of(config, 900, 750)
    print('no error')
except OutOfDeviceMemory:
    print('out of memory')
for address in held:
    runtime.free(address)
made = engine.CudaEngine.of(config, 900, 750)
image = RawImage.from_array(np.zeros((750, 900), np.uint8))
made.compute(image, image, None, {'disparity': np.empty((750, 900), np.float32)})
print('works again')
""")
    assert said.splitlines() == ['out of memory', 'works again']


def test_a_closed_engine_says_so() -> None:
    engine = cuda.CudaEngine.of(paper(16), 64, 48)
    engine.close()
    engine.close()
    with pytest.raises(RuntimeError, match='closed'):
        run(paper(16), *noisy_pair(64, 48), engine=engine)


@pytest.mark.parametrize(('encoding', 'settings', 'stages'), [
    ('mono8', {'preprocessing': 'none'}, []),
    ('mono8', {'preprocessing': 'sobel'}, ['preprocess']),
    ('rgb8', {'preprocessing': 'none'}, ['convert']),
    ('mono16', {'preprocessing': 'residual', 'disp12_max_diff': 1},
     ['convert', 'preprocess', 'refine']),
    ('mono8', {'preprocessing': 'none', 'median_window_size': 3, 'speckle_size': 30}, ['refine']),
    ('mono8', {'preprocessing': 'none', 'stereo_algorithm': 'sad'}, ['refine'])], ids=str)
def test_every_stage_that_has_kernels_of_its_own_has_a_time(
        encoding: str, settings: dict[str, Any], stages: list[str]) -> None:
    config = MatcherConfig(disparity_range=32, **settings)
    engine = cuda.CudaEngine.of(config, 320, 240)
    pair = [random_raw(encoding, 320, 240, seed, 0) for seed in (1, 2)]
    for _ in range(3):
        timings = engine.compute(*pair, None, {'disparity': np.empty((240, 320), np.float32)})
        assert set(timings) == set(ENGINE_STAGES)
        assert every(value >= 0 for value in timings.values())
        assert [stage for stage in ('convert', 'preprocess', 'refine')
                if timings[stage] > 0] == stages
        assert min(timings[stage] for stage in ('upload', 'messages', 'download')) > 0
    engine.close()
