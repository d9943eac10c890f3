"""Tiled belief propagation on a GPU: the CPU engine's bits, from every schedule."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip('cupy')
pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.engines.cpu.engine import CpuEngine
from stereo_bp_ros.engines.cuda.engine import CudaEngine
from stereo_bp_ros.engines.cuda.runtime import compiler, device
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from test.engines.support.pairs import CALIBRATION, noisy_pair
from test.engines.support.pairs import all_outputs as run
from test.engines.support.pairs import compare_engines as compare
from test.settings import five_sets, tiled

pytestmark = pytest.mark.gpu

SCHEDULES = ('speculative', 'rows', 'cooperative', 'lock_free', 'launches')

#: Those that any image fits, and any number of inner iterations; and those with barriers.
GENERAL, WITH_BARRIERS = SCHEDULES[1:], SCHEDULES[2:]

#: Everything that is filled, read by what these settings publish.
EVERYTHING = {'uniqueness_ratio': 8.0, 'disp12_max_diff': 1}


def configuration(**changes: Any) -> MatcherConfig:
    return five_sets(**{'stereo_algorithm': 'tiled_bp', 'disparity_range': 16, 'tile_size': 6,
                        **changes})


def ranges() -> Iterator[tuple[str, dict[str, Any], int, int]]:
    """Every way to deal out labels to lanes; schedule, settings and size of the image."""
    for disparities, schedule in itertools.product((2, 3, 8, 9, 21, 64, 100, 128, 300, 512),
                                                   SCHEDULES):
        size = 2 if disparities > 256 else 3 if disparities > 100 else 5
        height = 5 if schedule == 'speculative' and disparities > 256 else 23     # all on chip
        yield schedule, {'disparity_range': disparities, 'tile_size': size, 'min_disparity': -2,
                         **EVERYTHING}, disparities + 31, height


@pytest.mark.parametrize(('schedule', 'changes', 'width', 'height'), [
    *ranges(),
    *((schedule, {'tile_size': size, 'disparity_range': 7}, 79, 55)
      for schedules, sizes in ((SCHEDULES, (2, 3, 7, 16, 23)), (WITH_BARRIERS, (33, 47)))
      for schedule, size in itertools.product(schedules, sizes)),
    *((schedule, {'disparity_range': 5, 'outer_iterations': 2, **EVERYTHING}, *size)
      for schedule in SCHEDULES
      for size in ((1, 1), (5, 2), (16, 16), (17, 64), (130, 17), (6, 500), (700, 6))),
    # More rows of tiles than multiprocessors.
    *((schedule, {'tile_size': 2, 'outer_iterations': 2, 'disparity_range': 6}, 40, 700)
      for schedule in ('rows', 'cooperative'))], ids=str)
def test_every_range_tile_and_image_gives_what_the_cpu_engine_gives(
        schedule: str, changes: dict[str, Any], width: int, height: int) -> None:
    compare(configuration(**changes, **tiled(schedule)), *noisy_pair(width, height, height))


@pytest.mark.parametrize(('schedule', 'synchronisation', 'outer', 'inner'), [
    *((schedule, 'needed', outer, 1) for schedule in SCHEDULES for outer in (1, 2)),
    *((schedule, 'needed', *iterations) for schedule in GENERAL
      for iterations in ((1, 2), (3, 4))),
    *((schedule, 'all', *iterations) for schedule in WITH_BARRIERS
      for iterations in ((1, 1), (3, 4)))])
@pytest.mark.parametrize('computation', ['plain', 'fast'])
def test_every_schedule_and_number_of_iterations_gives_what_the_cpu_engine_gives(
        outer: int, inner: int, computation: str, schedule: str, synchronisation: str) -> None:
    config = configuration(outer_iterations=outer, inner_iterations=inner,
                           **tiled(schedule, computation=computation,
                                   synchronisation=synchronisation))
    compare(config, *noisy_pair(71, 47, outer + inner))


@pytest.mark.parametrize('kind', ['flat', 'stripes', 'ramp', 'noise'])
def test_messages_that_travel_far_are_those_of_the_order_of_visits(kind: str) -> None:
    # Without texture a message goes on unchanged, from a speck in the corner to everywhere.
    width, height = 260, 150
    left = np.full((height, width), 90, np.uint8)
    left[:9, :60] = np.random.default_rng(0).integers(0, 256, (9, 60))
    if kind == 'stripes':
        left[::7] = 30
    elif kind == 'ramp':
        left[:] = np.arange(width) // 2
    right = np.roll(left, -4, axis=1)
    if kind == 'noise':
        left, right = np.random.default_rng(1).integers(0, 256, (2, height, width), np.uint8)
    for outer in (1, 2):
        compare(configuration(outer_iterations=outer, border='keep', **tiled('speculative'),
                              **EVERYTHING), left, right)


@pytest.mark.parametrize('changes', [
    {'preprocessing': 'sobel_x'}, {'preprocessing': 'sobel'}, {'smoothing_sigma': 0.8},
    {'data_truncation': 15.3}, {'discontinuity_slope': 50.0},
    {**tiled(computation='fast'), 'discontinuity_truncation': 9.0},
    {'reference_image': 'right', 'min_disparity': -4, **EVERYTHING},
    {'min_disparity': 3, **EVERYTHING}, {'border': 'keep', **EVERYTHING},
    {'filling': 'background', 'disp12_max_diff': 2, 'speckle_size': 30, 'median_window_size': 3,
     'uniqueness_ratio': 5.0, 'texture_threshold': 200}], ids=str)
@pytest.mark.parametrize('schedule', ['speculative', 'rows', 'launches'])
def test_every_setting_gives_what_the_cpu_engine_gives(changes: dict[str, Any],
                                                       schedule: str) -> None:
    compare(configuration(**{**changes, 'program': 'tiled_barriers',
                             'tiled_barriers.schedule': schedule}), *noisy_pair(83, 41))


@pytest.mark.parametrize('disparities', [5, 16, 40])
@pytest.mark.parametrize('computation', ['plain', 'fast'])
@pytest.mark.parametrize('inner', [1, 2])
def test_float32_labels_hardly_differ_from_the_cpu_engines(disparities: int, computation: str,
                                                           inner: int) -> None:
    config = configuration(disparity_range=disparities, message_type='float32',
                           subpixel=False, border='keep', outer_iterations=2,
                           inner_iterations=inner, **tiled(computation=computation))
    left, right = noisy_pair(150, 90)
    expected = run(CpuEngine.of(config, 150, 90), left, right)['disparity']
    schedules = SCHEDULES if inner == 1 else GENERAL
    found = {name: run(CudaEngine.of(config.replace(**tiled(name)), 150, 90), left,
                       right)['disparity'] for name in schedules}
    for name in schedules:
        assert np.array_equal(found[name], found['rows']), name
    assert (found['rows'] != expected).mean() < 0.006
    assert (np.abs(found['rows'] - expected) > 1).mean() < 0.002


@pytest.mark.parametrize('architecture', ['compute_75', 'compute_80', 'compute_87'])
@pytest.mark.parametrize('computation', ['plain', 'fast'])
def test_the_arithmetic_of_older_devices_gives_the_same_labels(
        monkeypatch: pytest.MonkeyPatch, architecture: str, computation: str) -> None:
    monkeypatch.setattr(device.Properties, 'architecture', architecture)
    monkeypatch.setattr(compiler, '_loaded', {})
    compare(configuration(disparity_range=21,
                          **tiled('cooperative', computation=computation)), *noisy_pair(61, 37))


def test_engines_side_by_side_do_not_wait_for_each_other_for_ever() -> None:
    left, right = noisy_pair(200, 150)
    config = configuration(outer_iterations=2)
    engines = [CudaEngine.of(config.replace(**tiled(name)), 200, 150)
               for name in SCHEDULES]
    results = [{name: OUTPUTS[name].empty((150, 200)) for name in OUTPUTS} for _ in engines]
    for _ in range(20):
        for engine, result in zip(engines, results, strict=True):
            engine.compute(RawImage.from_array(left), RawImage.from_array(right), CALIBRATION,
                           result)
    for result in results[1:]:
        assert np.array_equal(result['disparity'], results[0]['disparity'])
    for engine in engines:
        engine.close()
