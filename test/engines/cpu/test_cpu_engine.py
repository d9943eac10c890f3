"""The CPU engine as a whole: frames, live settings, memory, threads, compilation."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.engines.cpu.engine import CpuEngine
from stereo_bp_ros.engines.cpu.plan import plan_of, resolve
from stereo_bp_ros.frame.disparity_frame import DERIVED, ENGINE_STAGES, OUTPUTS
from test.cases import slow
from test.engines.support.outputs import assert_same, rubbish
from test.engines.support.pairs import CALIBRATION
from test.settings import plain

WIDTH, HEIGHT = 96, 50

KINDS: dict[str, dict[str, Any]] = {
    'int16': {},
    'float32': {'message_type': 'float32'},
    'float16': {'message_type': 'float16'},
    'exact': {'message_type': 'float32', 'exact': True},
    'combined': {'census_weight': 0.8, 'grey_weight': 0.5, 'path_aggregation': True,
                 'path_step_penalty': 2, 'path_jump_penalty': 10, 'discontinuity_slope': 2.0,
                 'discontinuity_truncation': 10.0},
    'sad': {'stereo_algorithm': 'sad', 'correlation_window_size': 7},
    'tiled': {'stereo_algorithm': 'tiled_bp'},
    'plain': {'message_type': 'float32', **plain()},
    'reduced': {'stereo_algorithm': 'sad', 'correlation_window_size': 7, 'downscale': 2},
}

#: One of every path through the engine; what another number type shares with them is slow.
NAMES = ['int16', 'exact', 'combined', 'sad', *slow('float32', 'float16', 'tiled', 'plain')]

#: What a process compiles first may hide what it compiles later: in CI each has its own.
in_processes = pytest.mark.parametrize('names', [
    [name for name in KINDS if name != 'float16'], *slow(*([name] for name in KINDS))],
    ids=['most', *KINDS])


@pytest.fixture(params=NAMES)
def config(request: pytest.FixtureRequest) -> MatcherConfig:
    """One configuration of every kind of engine."""
    return MatcherConfig.from_mapping({'disparity_range': 16, **KINDS[request.param]})


def noisy_pair(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two disparities, a plain patch and noise: every check rejects something."""
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8)
    left[10:40, 30:60] = 128
    right = np.roll(left, -5, axis=1)
    right[HEIGHT // 2:] = np.roll(left[HEIGHT // 2:], -9, axis=1)
    noise = rng.integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8)
    return left, np.where(rng.random((HEIGHT, WIDTH)) < 0.1, noise, right)


def frame(engine: CpuEngine, left: np.ndarray, right: np.ndarray,
          names: tuple[str, ...] = OUTPUTS) -> dict[str, np.ndarray]:
    outputs = rubbish(names, (HEIGHT, WIDTH))
    engine.compute(RawImage.from_array(left), RawImage.from_array(right), CALIBRATION, outputs)
    return outputs


def test_the_right_image_as_reference_is_the_mirror_of_the_left(config: MatcherConfig) -> None:
    config = config.replace(disp12_max_diff=1, uniqueness_ratio=2.0)
    left, right = noisy_pair()
    # Points have a right and a left of their own.
    names = tuple(name for name in OUTPUTS if name not in DERIVED)
    of_right = frame(CpuEngine.of(config.replace(reference_image='right'), WIDTH, HEIGHT), left,
                     right, names)
    mirrored = frame(CpuEngine.of(config, WIDTH, HEIGHT), right[:, ::-1], left[:, ::-1], names)
    assert_same(of_right, {name: values[:, ::-1] for name, values in mirrored.items()})


LIVE: tuple[dict[str, Any], ...] = (
    {'uniqueness_ratio': 8.0}, {'texture_threshold': 500}, {'subpixel': False},
    {'disp12_max_diff': 1}, {'median_window_size': 5}, {'speckle_size': 30, 'speckle_range': 0.0},
    {'filling': 'background', 'disp12_max_diff': 1}, {'filling': 'plane', 'disp12_max_diff': 1},
    {'bilateral_passes': 2}, {'bilateral_sigma': 0.5, 'bilateral_passes': 1},
    {'pre_adjust_disparity': False})


def test_live_settings_act_without_a_new_engine(config: MatcherConfig) -> None:
    left, right = noisy_pair()
    engine = CpuEngine.of(config, WIDTH, HEIGHT)
    before = frame(engine, left, right)
    for change in LIVE:
        changed = config.replace(**change)
        engine.update(resolve(changed))
        after = frame(engine, left, right)
        assert_same(after, frame(CpuEngine.of(changed, WIDTH, HEIGHT), left, right))
        assert any(not np.array_equal(after[name], before[name], equal_nan=True)
                   for name in OUTPUTS), change
    engine.update(resolve(config))
    assert_same(frame(engine, left, right), before)


def test_frames_and_outputs_do_not_depend_on_each_other(config: MatcherConfig) -> None:
    engine = CpuEngine.of(config, WIDTH, HEIGHT)
    first = frame(engine, *noisy_pair(1))
    kept = {name: values.copy() for name, values in first.items()}
    second = frame(engine, *noisy_pair(2))
    assert_same(second, frame(CpuEngine.of(config, WIDTH, HEIGHT), *noisy_pair(2)))
    for name in OUTPUTS:
        assert_same(frame(engine, *noisy_pair(2), names=(name,)), {name: second[name]})
    engine.close()
    assert_same(first, kept)
    with pytest.raises(RuntimeError, match='closed'):
        frame(engine, *noisy_pair())


def test_a_frame_tells_the_time_of_every_stage(config: MatcherConfig) -> None:
    engine = CpuEngine.of(config, WIDTH, HEIGHT)
    image = RawImage.from_array(noisy_pair()[0])
    timings = engine.compute(image, image, None, rubbish(('disparity',), (HEIGHT, WIDTH)))
    assert tuple(timings) == ENGINE_STAGES
    assert timings['messages'] > 0
    assert timings['refine'] > 0


def test_no_frame_after_the_first_allocates(config: MatcherConfig) -> None:
    config = config.replace(disp12_max_diff=1, uniqueness_ratio=2.0, texture_threshold=10,
                            median_window_size=3, speckle_size=50, filling='plane',
                            bilateral_passes=2)
    shape = (300, 400)
    engine = CpuEngine.of(config, shape[1], shape[0])
    rng = np.random.default_rng(0)
    images = [RawImage.from_array(rng.integers(0, 256, shape, np.uint8)) for _ in range(2)]
    outputs = rubbish(OUTPUTS, shape)
    engine.compute(*images, CALIBRATION, outputs)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        engine.compute(*images, CALIBRATION, outputs)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    # Less than one image of bytes: NumPy's 64 KiB for conversions, and Python's own objects.
    assert peak < shape[0] * shape[1]


def test_memory_stays_within_the_plan(child: Callable[..., str]) -> None:
    # Resident memory, which also counts what OpenCV and the C library allocate.
    outcome = child(
        'import json, resource, numpy as np\n'
        'from stereo_bp_ros import MatcherConfig, StereoMatcher\n'
        'from stereo_bp_ros.engines.choice import warm_up\n'
        'config = MatcherConfig(disparity_range=64, disp12_max_diff=1, median_window_size=3,\n'
        '                       uniqueness_ratio=2.0, speckle_size=50, num_threads=2)\n'
        'def peak():\n'
        '    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n'
        'warm_up(config)\n'
        'pair = np.random.default_rng(0).integers(0, 256, (2, 480, 640), dtype=np.uint8)\n'
        'before = peak()\n'
        'with StereoMatcher(config, "cpu") as matcher:\n'
        '    matcher.compute(*pair)\n'
        '    first = peak()\n'
        '    for _ in range(4):\n'
        '        matcher.compute(*pair)\n'
        '    print(json.dumps([first - before, peak() - first, matcher.memory_plan.total]))')
    grown, later, planned = json.loads(outcome)
    images = 480 * 640 * 4
    assert grown < planned + 4 * images         # the result, and Python's own
    assert later < 2 * images


def test_messages_of_level_0_take_no_memory_for_rows_that_are_done() -> None:
    config = MatcherConfig(disparity_range=16, num_threads=1)
    sizes = [next(array.nbytes for array in plan_of(config, 640, height).memory.arrays
                  if array.name == 'messages_0') for height in (64, 480)]
    assert sizes[0] == sizes[1] > 0


def test_a_plan_needs_no_numba_and_can_be_made_while_another_thread_imports_the_engine(
        child: Callable[..., str]) -> None:
    assert child('import sys, types\n'
                 'from stereo_bp_ros import MatcherConfig\n'
                 'from stereo_bp_ros.engines import choice\n'
                 'from stereo_bp_ros.engines.cpu.stages import convert, rectify\n'
                 'config = MatcherConfig(backend="cpu")\n'
                 'choice.resolve(config).plan(640, 480).memory\n'
                 'print("numba" in sys.modules)\n'
                 'name = "stereo_bp_ros.engines.cpu.simd.runtime"\n'
                 'sys.modules[name] = types.ModuleType(name)     # as it is at first\n'
                 'print(choice.choose(config).free_memory() > 0)') == 'False\nTrue'


@in_processes
def test_the_number_of_threads_changes_no_pixel(child: Callable[..., str], names: list[str]
                                                ) -> None:
    outcome = child(
        'import numpy as np\n'
        'from stereo_bp_ros import MatcherConfig, StereoMatcher\n'
        'pair = np.random.default_rng(5).integers(0, 30, (2, 111, 97), dtype=np.uint8)\n'
        f'for kind in {[KINDS[name] for name in names]!r}:\n'
        '    for iterations in (5, 11):\n'
        '        frames = []\n'
        '        for threads in (1, 2, 3, 4):\n'
        '            config = MatcherConfig.from_mapping({"disparity_range": 21,\n'
        '                "num_threads": threads, "iterations": iterations, **kind})\n'
        '            with StereoMatcher(config, "cpu") as matcher:\n'
        '                frames.append(matcher.compute(\n'
        '                    *pair, outputs=("disparity", "confidence")))\n'
        '        assert len(np.unique(frames[0].disparity)) > 20\n'
        '        print(all(np.array_equal(getattr(frames[0], name), getattr(other, name))\n'
        '                  for other in frames for name in ("disparity", "confidence")))',
        NUMBA_NUM_THREADS='4')
    assert outcome.split() == ['True'] * 2 * len(names)


@in_processes
def test_after_warm_up_no_frame_compiles(child: Callable[..., str], names: list[str]) -> None:
    outcome = child(
        'import numpy as np\n'
        'from stereo_bp_ros import *\n'
        'from stereo_bp_ros.engines.choice import warm_up\n'
        'from stereo_bp_ros.engines.cpu.simd import runtime\n'
        'from stereo_bp_ros.images.raw_images import ENCODINGS\n'
        'from test.engines.support.pairs import CALIBRATION, random_raw\n'
        f'live = [{{}}, {{"reference_image": "right"}}, *{LIVE!r}]\n'
        'rng = np.random.default_rng(0)\n'
        'images = [rng.integers(0, 256, shape, dtype) for shape, dtype in\n'
        '          (((50, 96), np.uint8), ((51, 97, 3), np.uint8), ((40, 80), np.uint16))]\n'
        f'for kind in {[KINDS[name] for name in names]!r}:\n'
        '    config = MatcherConfig.from_mapping(\n'
        '        {"disparity_range": 16, "backend": "cpu", **kind})\n'
        '    warm_up(config)\n'
        '    compiled = runtime.compiled_signatures()\n'
        '    assert compiled > 5\n'
        '    frames = [(image, image, change) for change in live for image in images]\n'
        '    for encoding in ENCODINGS:\n'
        '        raw = random_raw(encoding, 96, 50)\n'
        '        frames.append((raw, raw, {}))\n'
        '    for left, right, change in frames:\n'
        '        with StereoMatcher(config.replace(**change)) as matcher:\n'
        '            for outputs in (("disparity",), ("depth", "confidence", "points")):\n'
        '                matcher.compute(left, right, calibration=CALIBRATION,\n'
        '                                outputs=outputs)\n'
        '    assert runtime.compiled_signatures() == compiled, kind\n'
        'print("done")')
    assert outcome == 'done'
