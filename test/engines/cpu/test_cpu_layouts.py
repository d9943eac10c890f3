"""The papers' plain steps on the CPU: every layout gives the bits of the reference program."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

pytest.importorskip('numba')
from stereo_bp_ros import ConfigError, MatcherConfig, RawImage
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.choice import resolve
from stereo_bp_ros.engines.cpu.engine import CpuEngine
from stereo_bp_ros.engines.cpu.plan import plan_of
from stereo_bp_ros.papers.plain_steps import cpu_arrays
from test.cases import every, slow
from test.engines.support.outputs import assert_same
from test.engines.support.pairs import CALIBRATION, all_outputs, noisy_pair
from test.settings import five_sets, plain


def paper(disparities: int, **changes: Any) -> MatcherConfig:
    return five_sets(disparities, **{'border': 'keep', 'message_type': 'float32',
                                     'backend': 'cpu', **changes})


def frame(config: MatcherConfig, left: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    return all_outputs(CpuEngine.of(config, *left.shape[::-1]), left, right)


@pytest.mark.parametrize('vectorised', [True, False])
@pytest.mark.parametrize('layout', ['disparity_major', *slow('pixel_major')])
@pytest.mark.parametrize(('width', 'height', 'changes'), [
    (97, 40, {'disparity_range': 21, 'min_disparity': -4}),
    (64, 33, {'disparity_range': 2, 'levels': 1, 'iterations': 1}),
    (131, 17, {'disparity_range': 40, 'reference_image': 'right'}),
    (16, 16, {'disparity_range': 5, 'levels': 6, 'iterations': 0}),
    *slow((90, 37, {'disparity_range': 18, 'message_type': 'float16'}))])
def test_every_layout_gives_the_bits_of_exact(width: int, height: int, changes: dict[str, Any],
                                              layout: str, vectorised: bool) -> None:
    config = paper(8, disp12_max_diff=1, uniqueness_ratio=1.0).replace(**changes)
    pair = noisy_pair(width, height)
    # Halves have no exact program: one layout is the reference of the others.
    expected = frame(config.replace(exact=True) if config.message_type == 'float32'
                     else config.replace(**plain()), *pair)
    for allocated in ({}, {'aligned_rows': False}, {'allocation': 'single'},
                      {'allocation': 'separate', 'aligned_rows': False}):
        chosen = config.replace(**plain(layout=layout, vectorised=vectorised, **allocated))
        assert_same(frame(chosen, *pair), expected)


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
        names = {spec.name for spec in engine.plan.memory.arrays}
        assert ('sent_0' in names) == (allocation == 'once')
    everything = geometry.MemoryPlan.lay_out(
        cpu_arrays.shapes(config, cpu_arrays.levels(config, 120, 80)))
    assert peaks['once'] < 65536
    assert peaks['single'] >= everything.total
    assert peaks['separate'] < peaks['single']


def test_other_kernels_are_known_to_be_so() -> None:
    config = paper(8)
    configs = [config, *(config.replace(**plain(**settings)) for settings in (
        {}, {'vectorised': False}, {'layout': 'pixel_major'}))]
    assert len({one.backend.kernels_of(one) for one in map(resolve, configs)}) == 4
