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
from stereo_bp_ros import ConfigError, MatcherConfig, RawImage, geometry
from stereo_bp_ros.engines import choose
from stereo_bp_ros.engines.cpu.engine import CpuEngine
from stereo_bp_ros.engines.cpu.plan import plan_of
from stereo_bp_ros.papers.plain_steps import cpu_arrays
from stereo_bp_ros.types import OUTPUTS
from test.cases import every, slow
from test.engines.support.outputs import assert_same, rubbish
from test.engines.support.pairs import CALIBRATION, noisy_pair
from test.settings import five_sets, plain

LAYOUTS = ['disparity_major', *slow('pixel_major')]


def paper(disparities: int, **changes: Any) -> MatcherConfig:
    return five_sets(disparities, **{'border': 'keep', 'message_type': 'float32',
                                     'backend': 'cpu', **changes})


def frame(config: MatcherConfig, left: np.ndarray, right: np.ndarray,
          names: tuple[str, ...] = OUTPUTS) -> dict[str, np.ndarray]:
    engine = CpuEngine.of(config, left.shape[1], left.shape[0])
    outputs = rubbish(names, left.shape)
    for _ in range(2):          # the second finds what the first has left
        engine.compute(RawImage.from_array(left), RawImage.from_array(right), CALIBRATION,
                       outputs)
    engine.close()
    return outputs


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
    for allocated in ({}, {'aligned_rows': False}, {'allocation': 'single'},
                      {'allocation': 'separate', 'aligned_rows': False}):
        chosen = config.replace(**plain(layout=layout, vectorised=vectorised, **allocated))
        assert_same(frame(chosen, *pair), expected)


@pytest.mark.slow
def test_float16_is_the_same_in_every_layout() -> None:
    config = paper(18, message_type='float16', **plain())
    pair = noisy_pair(90, 37)
    expected = frame(config, *pair)
    for change in ({'vectorised': False}, {'aligned_rows': False},
                   {'layout': 'pixel_major'},
                   {'layout': 'pixel_major', 'vectorised': False},
                   {'allocation': 'separate'}):
        assert_same(frame(config.replace(**plain(**change)), *pair), expected)


@pytest.mark.slow
@pytest.mark.parametrize('name', ['tsukuba', 'venus', 'cones_quarter'])
def test_float16_agrees_with_exact(data: pathlib.Path, name: str) -> None:
    entry = yaml.safe_load((data / 'middlebury' / 'sets.yaml').read_text())[name]
    pair = [cv2.imread(str(data / 'middlebury' / name / f'{side}.png'), cv2.IMREAD_GRAYSCALE)
            for side in ('left', 'right')]
    config = paper(entry['disparities'], subpixel=False)
    inside = (slice(1, -1), slice(1, -1))
    exact = frame(config.replace(exact=True), *pair, ('disparity',))['disparity'][inside]
    found = frame(config.replace(message_type='float16', **plain()),
                  *pair, ('disparity',))['disparity'][inside]
    assert np.mean(found == exact) >= 0.994
    assert np.mean(np.abs(found - exact) > 1) <= 0.002


def test_the_number_of_threads_changes_no_pixel() -> None:
    pair = noisy_pair(70, 45)
    config = paper(12, **plain())
    assert_same(frame(config.replace(num_threads=1), *pair),
                frame(config.replace(num_threads=2), *pair))


@pytest.mark.parametrize(('change', 'field', 'need'), [
    (plain(storage='register'), 'plain_steps.storage', 'use backend cuda'),
    ({'message_type': 'float16', **plain(packed_halves=True)}, 'plain_steps.packed_halves',
     'use backend cuda'),
    ({'message_type': 'int16', **plain(layout='pixel_major')}, 'message_type', 'float32'),
])
def test_what_the_cpu_has_not_is_refused_in_words(change: dict[str, Any], field: str,
                                                  need: str) -> None:
    with pytest.raises(ConfigError, match=need) as refused:
        plan_of(paper(8, **change), 64, 48)
    assert refused.value.field == field


def test_rows_are_aligned_where_they_are_asked_to_be() -> None:
    for aligned, pitches in ((True, [32, 16, 16]), (False, [27, 14, 7])):
        config = paper(8, levels=3, **plain(aligned_rows=aligned))
        assert [level.pitch for level in cpu_arrays.levels(config, 53, 37)] == pitches
    held = cpu_arrays.allocate([('a', (3,), 'int16'), ('b', (5,), 'float32')], True)
    assert every(array.ctypes.data % 64 == 0 for array in held.values())


def test_only_frames_that_are_to_allocate_do() -> None:
    pair = [RawImage.from_array(image) for image in noisy_pair(120, 80)]
    out = {'disparity': np.empty((80, 120), np.float32)}
    peaks = {}
    for allocation in ('once', 'single', 'separate'):
        config = paper(16, **plain(allocation=allocation))
        engine = CpuEngine.of(config, 120, 80)
        engine.compute(*pair, CALIBRATION, out)
        tracemalloc.start()
        engine.compute(*pair, CALIBRATION, out)
        peaks[allocation] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        engine.close()
        names = {spec.name for spec in engine.plan.memory.arrays}
        assert ('sent_0' in names) == (allocation == 'once')
    everything = geometry.MemoryPlan.lay_out(
        cpu_arrays.shapes(config, cpu_arrays.levels(config, 120, 80)))
    assert peaks['once'] < 65536
    assert peaks['single'] >= everything.total
    assert peaks['separate'] < peaks['single']


def test_other_kernels_are_known_to_be_so() -> None:
    config = paper(8)
    disparity_major = config.replace(**plain())
    known = [choose(one).kernels_of(one) for one in (
        config, disparity_major, config.replace(**plain(vectorised=False)), config.replace(
            **plain(layout='pixel_major')))]
    assert len(set(known)) == 4


@pytest.mark.parametrize('layout', LAYOUTS)
def test_warming_up_leaves_nothing_to_compile(child: Callable[..., str], layout: str) -> None:
    assert child(
        'import numpy as np\n'
        'from stereo_bp_ros import MatcherConfig, RawImage\n'
        'from stereo_bp_ros.engines.cpu.simd import runtime\n'
        'from stereo_bp_ros.engines.cpu.engine import CpuEngine, warm_up\n'
        'config = MatcherConfig.from_mapping({\n'
        '    "message_type": "float32", "disparity_range": 16, "program": "plain_steps",\n'
        f'    "plain_steps.layout": "{layout}"}})\n'
        'warm_up(config)\n'
        'before = runtime.compiled_signatures()\n'
        'image = RawImage.from_array(np.zeros((50, 70), np.uint8))\n'
        'CpuEngine.of(config, 70, 50).compute(image, image, None,\n'
        '                                  {"disparity": np.empty((50, 70), np.float32)})\n'
        'print(runtime.compiled_signatures() - before)') == '0'
