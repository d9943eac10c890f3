"""The papers' kernels of belief propagation on a GPU: every storage and layout gives the bits of
the CPU engine."""

from __future__ import annotations

import pathlib
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

pytest.importorskip('cupy')
pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.engines import choice
from stereo_bp_ros.engines.cpu.engine import CpuEngine
from stereo_bp_ros.engines.cuda.engine import CudaEngine
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from test.engines.support.cuda_runs import run
from test.engines.support.outputs import assert_same
from test.engines.support.pairs import CALIBRATION, noisy_pair
from test.engines.support.plain_steps import LAYOUTS, STORAGES, TYPES
from test.settings import paper, plain

pytestmark = pytest.mark.gpu

FIVE_SETS = ('tsukuba', 'venus', 'barn1', 'cones_quarter', 'cones_half')
REFINED = {'subpixel': True, 'disp12_max_diff': 1, 'uniqueness_ratio': 2.0}
EXACT = {'message_type': 'float32', 'exact': True}


def on_cpu(config: MatcherConfig, left: np.ndarray, right: np.ndarray,
           names: tuple[str, ...] = OUTPUTS) -> dict[str, np.ndarray]:
    height, width = left.shape
    engine = CpuEngine.of(config.replace(program='default'), width, height)
    return run(config, left, right, names, engine=engine)


@pytest.mark.parametrize('changes', [
    *({'disparity_range': disparities, 'min_disparity': -5, 'levels': 4, **REFINED, **storage}
      for disparities in (7, 40) for storage in STORAGES.values()),
    *({'disparity_range': 19, 'disp12_max_diff': 1, **kind, **storage, **layout}
      for kind in ({}, EXACT) for storage in STORAGES.values() for layout in LAYOUTS.values()),
    # What follows messages, and an image whose costs are no whole numbers.
    *({'disparity_range': disparities, **EXACT, **changes} for disparities in (2, 21, 40, 150)
      for changes in (REFINED, {'min_disparity': -5, 'reference_image': 'right',
                                'data_truncation': 15.3},
                      {'preprocessing': 'sobel_x', 'data_weight': 0.07, 'levels': 3})),
    *({'disparity_range': 8, 'levels': levels, 'iterations': iterations,
       **plain(storage='hybrid', registers=8)}
      for levels, iterations in ((1, 0), (1, 1), (3, 0), (2, 1), (6, 4)))], ids=str)
def test_every_storage_and_layout_gives_the_bits_of_the_cpu_engine(changes: dict[str, Any]
                                                                   ) -> None:
    config = paper(**changes)
    for size in ((75, 42), (33, 64)):
        pair = noisy_pair(*size)
        assert_same(run(config, *pair, OUTPUTS), on_cpu(config, *pair))


@pytest.mark.parametrize('layout', LAYOUTS)
@pytest.mark.parametrize('storage', STORAGES)
def test_packed_halves_of_whole_numbers_give_the_bits_of_int16(layout: str, storage: str) -> None:
    # With these parameters every number that decides is whole and at most 2048.
    config = paper(16, disp12_max_diff=1, subpixel=True, **STORAGES[storage] | LAYOUTS[layout])
    for size in ((76, 41), (75, 42)):
        pair = noisy_pair(*size)
        assert_same(run(config.replace(**TYPES['half2']), *pair),
                    on_cpu(config, *pair, ('disparity',)))


@pytest.mark.parametrize('name', ['tsukuba', 'cones_quarter'])
def test_exact_equals_the_reference_map_on_every_interior_pixel(
        data: pathlib.Path, name: str) -> None:
    entry = yaml.safe_load((data / 'middlebury' / 'sets.yaml').read_text())[name]
    left, right = (cv2.imread(str(data / 'middlebury' / name / f'{side}.png'), 0)
                   for side in ('left', 'right'))
    reference = cv2.imread(str(data / 'reference' / f'{name}_hbp_float32.png'), 0)
    config = MatcherConfig.preset('five_sets', disparity_range=entry['disparities'],
                                  message_type='float32', exact=True)
    with StereoMatcher(config, 'cuda') as matcher:
        found = matcher.compute(left, right).disparity
    inside = (slice(1, -1), slice(1, -1))
    np.testing.assert_array_equal(found[inside], reference[inside])


@pytest.mark.parametrize('kind', [*TYPES, 'int16 in tiles', 'float32 in tiles'])
@pytest.mark.parametrize('name', FIVE_SETS)
def test_every_type_agrees_with_exact(data: pathlib.Path, name: str, kind: str) -> None:
    """Those of the papers and those of the engine."""
    entry = yaml.safe_load((data / 'middlebury' / 'sets.yaml').read_text())[name]
    left, right, truth = (cv2.imread(str(data / 'middlebury' / name / f'{part}.png'), 0)
                          for part in ('left', 'right', 'disparity'))
    config = paper(entry['disparities'], **(
        {**TYPES[kind], **plain(storage='register')} if kind in TYPES
        else {'message_type': kind.split()[0]}))
    inside = (slice(1, -1), slice(1, -1))
    exact = config.replace(program='default', **EXACT)
    wanted = on_cpu(exact, left, right, ('disparity',))['disparity'][inside]
    found = run(config, left, right)['disparity'][inside]
    if kind == 'float32':
        np.testing.assert_array_equal(found, wanted)
    known = truth[inside] > 0

    def bad(disparity: np.ndarray) -> float:
        shifted = disparity + CALIBRATION.shift - truth[inside] / entry['disparity_scale']
        return 100 * float(np.mean(np.abs(shifted)[known] > 1))

    assert np.mean(found == wanted) >= 0.994
    assert np.mean(np.abs(found - wanted) > 1) <= 0.002
    assert abs(bad(found) - bad(wanted)) <= 0.1


@pytest.mark.parametrize('allocation', ['single', 'separate'])
def test_what_a_frame_allocates_it_gives_back(allocation: str,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    from cupy.cuda import runtime
    config = paper(32, **plain(allocation=allocation))
    pair = noisy_pair(300, 200)
    engine = CudaEngine.of(config, 300, 200)
    first = run(config, *pair, engine=engine)
    malloc, free = runtime.malloc, runtime.free
    taken: list[int] = []
    held: set[int] = set()

    def count(size: int) -> int:
        taken.append(malloc(size))
        held.add(taken[-1])
        return taken[-1]

    def give_back(address: int) -> None:
        held.remove(address)
        free(address)

    monkeypatch.setattr(runtime, 'malloc', count)
    monkeypatch.setattr(runtime, 'free', give_back)
    for frames in range(1, 4):
        assert_same(run(config, *pair, engine=engine), first)
        assert not held
        assert len(taken) == frames * (50 if allocation == 'separate' else 1)
    engine.close()


def test_storage_is_where_it_is_asked_for() -> None:
    pair = noisy_pair(160, 120)
    for storage, local, shared in (('register', 0, 0), ('shared', 0, 24 * 128 * 4),
                                   ('local', 24 * 4, 0), ('hybrid', 17 * 4, 4 * 128 * 4)):
        config = paper(24, backend='cuda', message_type='float32', **STORAGES[storage])
        with choice.choose(config).tools.kernels_used() as used:
            run(config, *pair)
        for one in (one for one in used if one.name.startswith('send_messages')):
            aligned = -(-local // 8) * 8
            assert (one.local_bytes, one.shared_bytes) == (aligned, shared), storage
            assert one.threads == 128
