"""The papers' plain steps on the CPU: every layout gives the bits of the reference program."""

from __future__ import annotations

import pathlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

pytest.importorskip('numba')
from stereo_bp_ros import Calibration, ConfigError, MatcherConfig, RawImage, geometry
from stereo_bp_ros.engines import kernels_of
from stereo_bp_ros.engines.cpu import layout_plan, plan
from stereo_bp_ros.engines.cpu.engine import CpuEngine
from stereo_bp_ros.types import OUTPUT_TYPES, OUTPUTS

CALIBRATION = Calibration(focal_px=300, baseline_m=0.2, cx_left=40, cx_right=41.5, cy=30)
LAYOUTS = ('disparity_major', 'pixel_major')


def paper(disparities: int, **changes: Any) -> MatcherConfig:
    return MatcherConfig(**{
        'preprocessing': 'none', 'disparity_range': disparities, 'data_weight': 0.1,
        'data_truncation': 15.0, 'discontinuity_slope': 1.0, 'discontinuity_truncation': 0.0,
        'border': 'keep', 'message_type': 'float32', 'backend': 'cpu', **changes})


def noisy_pair(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(width)
    left = cv2.GaussianBlur(rng.integers(0, 256, (height, width), dtype=np.uint8), (0, 0), 1.0)
    right = np.roll(left, -3, axis=1)
    right[height // 2:] = np.roll(left[height // 2:], -7, axis=1)
    noise = rng.integers(0, 256, (height, width), dtype=np.uint8)
    return left, np.where(rng.random((height, width)) < 0.1, noise, right)


def frame(config: MatcherConfig, left: np.ndarray, right: np.ndarray,
          names: tuple[str, ...] = OUTPUTS) -> dict[str, np.ndarray]:
    engine = CpuEngine(config, left.shape[1], left.shape[0])
    outputs = {name: np.full(left.shape, -7, OUTPUT_TYPES[name]) for name in names}
    for _ in range(2):          # the second finds what the first has left
        engine.compute(RawImage.from_array(left), RawImage.from_array(right), CALIBRATION,
                       outputs)
    engine.close()
    return outputs


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize('vectorised', [True, False])
@pytest.mark.parametrize('layout', LAYOUTS)
@pytest.mark.parametrize(('width', 'height', 'changes'), [
    (97, 40, {'disparity_range': 21, 'min_disparity': -4}),
    (64, 33, {'disparity_range': 2, 'levels': 1, 'iterations': 1}),
    (131, 17, {'disparity_range': 40, 'reference_image': 'right'}),
    (16, 16, {'disparity_range': 5, 'levels': 6, 'iterations': 0}),
])
def test_float32_gives_the_bits_of_exact(width: int, height: int, changes: dict[str, Any],
                                         layout: str, vectorised: bool) -> None:
    config = paper(**{'disparities': 8}, disp12_max_diff=1, uniqueness_ratio=1.0).replace(
        **changes)
    pair = noisy_pair(width, height)
    expected = frame(config.replace(exact=True), *pair)
    for memory in ({}, {'aligned_rows': False}, {'allocation': 'single'},
                   {'allocation': 'separate', 'aligned_rows': False}):
        chosen = config.replace(message_layout=layout, vectorised=vectorised, **memory)
        assert_same(frame(chosen, *pair), expected)


def test_float16_is_the_same_in_every_layout() -> None:
    config = paper(18, message_type='float16', message_layout='disparity_major')
    pair = noisy_pair(90, 37)
    expected = frame(config, *pair)
    for change in ({'vectorised': False}, {'aligned_rows': False},
                   {'message_layout': 'pixel_major'},
                   {'message_layout': 'pixel_major', 'vectorised': False},
                   {'allocation': 'separate'}):
        assert_same(frame(config.replace(**change), *pair), expected)


@pytest.mark.parametrize('name', ['tsukuba', 'venus', 'cones_quarter'])
def test_float16_agrees_with_exact(data: pathlib.Path, name: str) -> None:
    entry = yaml.safe_load((data / 'middlebury' / 'sets.yaml').read_text())[name]
    pair = [cv2.imread(str(data / 'middlebury' / name / f'{side}.png'), cv2.IMREAD_GRAYSCALE)
            for side in ('left', 'right')]
    config = paper(entry['disparities'], subpixel=False)
    inside = (slice(1, -1), slice(1, -1))
    exact = frame(config.replace(exact=True), *pair, ('disparity',))['disparity'][inside]
    found = frame(config.replace(message_type='float16', message_layout='disparity_major'),
                  *pair, ('disparity',))['disparity'][inside]
    assert np.mean(found == exact) >= 0.994
    assert np.mean(np.abs(found - exact) > 1) <= 0.002


def test_the_number_of_threads_changes_no_pixel() -> None:
    pair = noisy_pair(70, 45)
    config = paper(12, message_layout='disparity_major')
    assert_same(frame(config.replace(num_threads=1), *pair),
                frame(config.replace(num_threads=2), *pair))


@pytest.mark.parametrize(('change', 'field', 'need'), [
    ({'message_storage': 'local'}, 'message_storage', 'use backend cuda'),
    ({'message_type': 'float16', 'packed_halves': True}, 'packed_halves', 'use backend cuda'),
    ({'message_type': 'int16', 'message_layout': 'pixel_major'}, 'message_layout', 'float32'),
    ({'vectorised': False}, 'vectorised', 'other than auto'),
    ({'allocation': 'single'}, 'allocation', 'other than auto'),
])
def test_what_the_cpu_has_not_is_refused_in_words(change: dict[str, Any], field: str,
                                                  need: str) -> None:
    with pytest.raises(ConfigError, match=need) as refused:
        plan.memory_plan(paper(8, **change), 64, 48)
    assert refused.value.field == field


def test_rows_are_aligned_where_they_are_asked_to_be() -> None:
    for aligned, pitches in ((True, [32, 16, 16]), (False, [27, 14, 7])):
        config = paper(8, message_layout='disparity_major', aligned_rows=aligned, levels=3)
        assert [level.pitch for level in layout_plan.levels(config, 53, 37)] == pitches
    held = layout_plan.allocate([('a', (3,), 'int16'), ('b', (5,), 'float32')], True)
    assert all(array.ctypes.data % 64 == 0 for array in held.values())


def test_only_frames_that_are_to_allocate_do() -> None:
    pair = [RawImage.from_array(image) for image in noisy_pair(120, 80)]
    out = {'disparity': np.empty((80, 120), np.float32)}
    peaks = {}
    for allocation in ('once', 'single', 'separate'):
        config = paper(16, message_layout='disparity_major', allocation=allocation)
        engine = CpuEngine(config, 120, 80)
        engine.compute(*pair, CALIBRATION, out)
        tracemalloc.start()
        engine.compute(*pair, CALIBRATION, out)
        peaks[allocation] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        engine.close()
        names = {spec.name for spec in engine.plan.arrays}
        assert ('sent_0' in names) == (allocation == 'once')
    everything = geometry.MemoryPlan.lay_out(
        layout_plan.shapes(config, layout_plan.levels(config, 120, 80)))
    assert peaks['once'] < 65536
    assert peaks['single'] >= everything.total
    assert peaks['separate'] < peaks['single']


def test_other_kernels_are_known_to_be_so() -> None:
    config = paper(8)
    plain = config.replace(message_layout='disparity_major')
    known = [kernels_of(one) for one in (
        config, plain, plain.replace(vectorised=False), config.replace(
            message_layout='pixel_major'))]
    assert len(set(known)) == 4


def test_warming_up_leaves_nothing_to_compile(child: Callable[..., str]) -> None:
    assert child(
        'import numpy as np\n'
        'from stereo_bp_ros import MatcherConfig, RawImage\n'
        'from stereo_bp_ros.engines.cpu import runtime\n'
        'from stereo_bp_ros.engines.cpu.engine import CpuEngine, warm_up\n'
        'config = MatcherConfig(message_type="float32", message_layout="pixel_major",\n'
        '                       disparity_range=16)\n'
        'warm_up(config)\n'
        'before = runtime.compiled_signatures()\n'
        'image = RawImage.from_array(np.zeros((50, 70), np.uint8))\n'
        'CpuEngine(config, 70, 50).compute(image, image, None,\n'
        '                                  {"disparity": np.empty((50, 70), np.float32)})\n'
        'print(runtime.compiled_signatures() - before)') == '0'
