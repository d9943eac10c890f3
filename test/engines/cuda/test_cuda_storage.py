"""The papers' kernels of belief propagation: limits and arrays anywhere, results on a GPU."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from stereo_bp_ros import ConfigError, MatcherConfig, RawImage, geometry
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.papers.plain_steps import cuda_arrays
from stereo_bp_ros.types import OUTPUTS
from test.cases import every
from test.engines.support.outputs import assert_same, rubbish
from test.engines.support.pairs import CALIBRATION, noisy_pair
from test.settings import paper, plain

FIVE_SETS = ('tsukuba', 'venus', 'barn1', 'cones_quarter', 'cones_half')

STORAGES: dict[str, dict[str, Any]] = {
    'register': plain(storage='register'),
    'shared': plain(storage='shared'),
    'local': plain(storage='local'),
    'hybrid': plain(storage='hybrid', registers=3, shared=4),
    'high blocks': plain(storage='shared', block_width=16, block_height=16),
    'odd blocks': plain(storage='register', block_width=5, block_height=7, blocks=3),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    'disparity major': plain(layout='disparity_major'),
    'pixel major': plain(layout='pixel_major'),
    'unaligned': plain(layout='disparity_major', aligned_rows=False),
    'pixel major, unaligned': plain(layout='pixel_major', aligned_rows=False),
    'one block a frame': plain(layout='disparity_major', allocation='single'),
    'arrays for each level': plain(layout='disparity_major', allocation='separate',
                                   aligned_rows=False),
}
#: What follows messages, and an image whose costs are no whole numbers.
EXACT: tuple[dict[str, Any], ...] = (
    {'subpixel': True, 'disp12_max_diff': 1, 'uniqueness_ratio': 2.0},
    {'min_disparity': -5, 'reference_image': 'right', 'data_truncation': 15.3},
    {'preprocessing': 'sobel_x', 'data_weight': 0.07, 'levels': 3})
TYPES: dict[str, dict[str, Any]] = {
    'float32': {'message_type': 'float32'}, 'float16': {'message_type': 'float16'},
    'half2': {'message_type': 'float16', **plain(packed_halves=True)},
    'int16': {'message_type': 'int16'}}


# --- settings and arrays

@pytest.mark.parametrize(('field', 'limit', 'change'), [
    ('storage', 'hold 113 for blocks of 512', {'storage': 'shared', 'block_height': 16}),
    ('shared', 'hold 56 for blocks of 1024', {
        'storage': 'hybrid', 'shared': 57, 'block_height': 32}),
    ('shared', 'at most 28', {'storage': 'hybrid', 'registers': 100, 'shared': 29}),
    ('block_height', '2048 threads', {
        'storage': 'local', 'block_width': 64, 'block_height': 32}),
    ('registers', 'storage hybrid', {'storage': 'shared', 'registers': 2}),
    ('vectorised', 'use backend cpu', {'storage': 'local', 'vectorised': False}),
    ('packed_halves', 'float16', {'storage': 'local', 'packed_halves': True}),
])
def test_combinations_that_cannot_be_are_refused_with_their_limit(
        field: str, limit: str, change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=limit) as refused:
        plan_of(paper(128, **plain(**change)), 64, 48)
    assert refused.value.field == f'plain_steps.{field}'


def test_a_smaller_device_refuses_sooner() -> None:
    config = paper(128, **plain(storage='shared'))
    small = TYPICAL.__class__(0, 'small', (7, 5), 8, 64 * 1024, 64 * 1024, 2**33, False)
    plan_of(config, 64, 48)
    with pytest.raises(ConfigError, match='65536 bytes of shared memory hold 128') as refused:
        plan_of(config.replace(disparity_range=129), 64, 48, small)
    assert refused.value.field == 'plain_steps.storage'


@pytest.mark.parametrize('layout', LAYOUTS)
@pytest.mark.parametrize('kind', TYPES)
def test_arrays_of_a_block_do_not_overlap_and_lie_at_multiples_of_their_values(
        kind: str, layout: str) -> None:
    config = paper(9, **{**LAYOUTS[layout], **TYPES[kind]})
    levels = cuda_arrays.levels(config, 53, 37)
    costs, messages, total = cuda_arrays.block_offsets(config, levels)
    _, stored, sums = cuda_arrays.kind(config)
    spans = []
    for k, level in enumerate(levels):
        assert level.pitch >= (level.width + 1) // 2
        assert level.pitch % 16 == 0 or not config.plain_steps.aligned_rows
        values = level.height * level.pitch * 9
        kinds = [np.dtype(stored if k == 0 else sums)] * 2 + [np.dtype(stored)] * 8
        starts = [*(costs[k] + at for at in level.cost), *(messages[k] + at for at in level.sent)]
        for dtype, start in zip(kinds, starts, strict=True):
            assert start % (64 if config.plain_steps.aligned_rows else dtype.itemsize) == 0
            spans.append((start, start + values * dtype.itemsize))
    spans.sort()
    assert every(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    assert spans[-1][1] <= total


def test_what_a_frame_allocates_is_not_in_the_plan_of_the_engine() -> None:
    def names(allocation: str) -> set[str]:
        config = paper(9, **plain(allocation=allocation))
        return {spec.name for spec in plan_of(config, 53, 37).memory.arrays}
    assert 'storage' in names('once')
    assert 'storage' not in names('single') | names('separate')


@pytest.mark.parametrize('packed', [False, True])
@pytest.mark.parametrize('block', [(32, 4), (16, 3), (5, 7)])
def test_local_accesses_are_those_of_the_warps_with_a_node_to_update(
        block: tuple[int, int], packed: bool) -> None:
    changes = TYPES['half2'] if packed else {}
    config = paper(12, levels=2, iterations=3, **{**changes, **plain(
        storage='hybrid', registers=2, shared=3, block_width=block[0], block_height=block[1])})
    warps = set()
    for k, (width, height) in enumerate(geometry.pyramid(71, 23, 2)):
        for t in range(3):
            for y in range(1, height - 1):
                for x in range((y + t) % 2 + 1, width - 1, 2):
                    column = x // 2 // (2 if packed else 1)
                    thread = y % block[1] * block[0] + column % block[0]
                    warps.add((k, t, column // block[0], y // block[1], thread // 32))
    expected = len(warps) * 7 * 4 * 4
    assert cuda_arrays.local_accesses(config, 71, 23) == (expected, expected)
    config = paper(12, **plain(storage='shared'))
    assert cuda_arrays.local_accesses(config, 71, 23) == (0, 0)


# --- results


def frame(engine: Any, left: np.ndarray, right: np.ndarray,
          names: tuple[str, ...] = OUTPUTS) -> dict[str, np.ndarray]:
    outputs = rubbish(names, left.shape)
    engine.compute(RawImage.from_array(left), RawImage.from_array(right), CALIBRATION, outputs)
    return outputs


def on_cuda(config: MatcherConfig, left: np.ndarray, right: np.ndarray,
            names: tuple[str, ...] = OUTPUTS) -> dict[str, np.ndarray]:
    from stereo_bp_ros.engines.cuda.engine import CudaEngine
    engine = CudaEngine.of(config, left.shape[1], left.shape[0])
    found = frame(engine, left, right, names)
    engine.close()
    return found


def on_cpu(config: MatcherConfig, left: np.ndarray, right: np.ndarray,
           names: tuple[str, ...] = OUTPUTS) -> dict[str, np.ndarray]:
    from stereo_bp_ros.engines.cpu.engine import CpuEngine
    engine = CpuEngine.of(config.replace(program='default'), left.shape[1], left.shape[0])
    found = frame(engine, left, right, names)
    engine.close()
    return found


@pytest.mark.gpu
class TestOnTheDevice:
    """Every storage and layout computes the same."""

    @pytest.mark.parametrize('storage', STORAGES)
    @pytest.mark.parametrize('disparities', [7, 21, 40])
    def test_int16_gives_the_bits_of_the_cpu_engine(self, storage: str, disparities: int) -> None:
        config = paper(disparities, min_disparity=-5, subpixel=True, disp12_max_diff=1,
                       uniqueness_ratio=2.0, levels=4, **STORAGES[storage])
        for size in ((88, 47), (33, 64)):
            pair = noisy_pair(*size)
            assert_same(on_cuda(config, *pair), on_cpu(config, *pair))

    @pytest.mark.parametrize('layout', LAYOUTS)
    @pytest.mark.parametrize('storage', ['register', 'local', 'hybrid'])
    def test_no_layout_changes_a_bit(self, layout: str, storage: str) -> None:
        config = paper(19, disp12_max_diff=1, **{**STORAGES[storage], **LAYOUTS[layout]})
        pair = noisy_pair(91, 50)
        assert_same(on_cuda(config, *pair), on_cpu(config, *pair))

    @pytest.mark.parametrize('layout', LAYOUTS)
    @pytest.mark.parametrize('storage', STORAGES)
    def test_float32_gives_the_bits_of_exact(self, layout: str, storage: str) -> None:
        config = paper(18, message_type='float32', exact=True, subpixel=True, disp12_max_diff=1,
                       **{**STORAGES[storage], **LAYOUTS[layout]})
        pair = noisy_pair(75, 42)
        assert_same(on_cuda(config, *pair), on_cpu(config, *pair))

    @pytest.mark.parametrize('changes', EXACT)
    @pytest.mark.parametrize('disparities', [2, 21, 40, 150])
    def test_exact_gives_the_bits_of_the_cpu_engine(self, disparities: int,
                                                    changes: dict[str, Any]) -> None:
        config = paper(disparities, message_type='float32', exact=True, **changes)
        for size in ((75, 42), (33, 64)):
            pair = noisy_pair(*size)
            assert_same(on_cuda(config, *pair), on_cpu(config, *pair))

    @pytest.mark.parametrize('name', ['tsukuba', 'cones_quarter'])
    def test_exact_equals_the_reference_map_on_every_interior_pixel(
            self, data: pathlib.Path, name: str) -> None:
        from stereo_bp_ros import StereoMatcher
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

    @pytest.mark.parametrize('layout', LAYOUTS)
    @pytest.mark.parametrize('storage', STORAGES)
    def test_packed_halves_of_whole_numbers_give_the_bits_of_int16(self, layout: str,
                                                                   storage: str) -> None:
        # With these parameters every number that decides is whole and at most 2048.
        chosen = {**STORAGES[storage], **LAYOUTS[layout]}
        config = paper(16, disp12_max_diff=1, subpixel=True, **chosen)
        for size in ((76, 41), (75, 42)):
            pair = noisy_pair(*size)
            found = on_cuda(config.replace(**TYPES['half2']), *pair, ('disparity',))
            assert_same(found, on_cpu(config, *pair, ('disparity',)))

    @pytest.mark.parametrize(('levels', 'iterations'), [(1, 0), (1, 1), (3, 0), (2, 1), (6, 4)])
    def test_few_levels_and_iterations(self, levels: int, iterations: int) -> None:
        config = paper(8, levels=levels, iterations=iterations,
                       **plain(storage='hybrid', registers=8))
        pair = noisy_pair(37, 29)
        assert_same(on_cuda(config, *pair), on_cpu(config, *pair))

    @pytest.mark.parametrize('kind', TYPES)
    @pytest.mark.parametrize('name', FIVE_SETS)
    def test_every_type_agrees_with_exact(self, data: pathlib.Path, name: str,
                                          kind: str) -> None:
        entry = yaml.safe_load((data / 'middlebury' / 'sets.yaml').read_text())[name]
        left, right, truth = (cv2.imread(str(data / 'middlebury' / name / f'{part}.png'), 0)
                              for part in ('left', 'right', 'disparity'))
        config = paper(entry['disparities'], **{**TYPES[kind], **plain(storage='register')})
        inside = (slice(1, -1), slice(1, -1))
        exact = config.replace(program='default', message_type='float32', exact=True)
        wanted = on_cpu(exact, left, right, ('disparity',))['disparity'][inside]
        found = on_cuda(config, left, right, ('disparity',))['disparity'][inside]
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
    def test_what_a_frame_allocates_it_gives_back(self, allocation: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
        from cupy.cuda import runtime

        from stereo_bp_ros.engines.cuda.engine import CudaEngine
        config = paper(32, **plain(allocation=allocation))
        pair = noisy_pair(300, 200)
        engine = CudaEngine.of(config, 300, 200)
        first = frame(engine, *pair)
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
            assert_same(frame(engine, *pair), first)
            assert not held
            assert len(taken) == frames * (50 if allocation == 'separate' else 1)
        engine.close()

    def test_a_frame_of_one_allocation_allocates_and_compiles_nothing(
            self, refuse_to_allocate: Callable[[], None],
            monkeypatch: pytest.MonkeyPatch) -> None:
        from cupy.cuda import runtime

        from stereo_bp_ros.engines.cuda.engine import CudaEngine
        pair = noisy_pair(160, 120)
        engine = CudaEngine.of(paper(16, **plain(storage='shared')), 160, 120)
        first = frame(engine, *pair)
        refuse_to_allocate()
        monkeypatch.setattr(runtime, 'malloc', None)
        for _ in range(20):
            assert_same(frame(engine, *pair), first)
        engine.close()

    def test_storage_is_where_it_is_asked_for(self) -> None:
        from stereo_bp_ros import engines
        from stereo_bp_ros.engines.cuda.engine import CudaEngine
        pair = noisy_pair(160, 120)
        for storage, local, shared in (('register', 0, 0), ('shared', 0, 24 * 128 * 4),
                                       ('local', 24 * 4, 0), ('hybrid', 17 * 4, 4 * 128 * 4)):
            config = paper(24, backend='cuda', message_type='float32', **STORAGES[storage])
            with engines.choose(config).tools.kernels_used() as used:
                engine = CudaEngine.of(config, 160, 120)
                frame(engine, *pair, ('disparity',))
                engine.close()
            for one in (one for one in used if one.name.startswith('send_messages')):
                aligned = -(-local // 8) * 8
                assert (one.local_bytes, one.shared_bytes) == (aligned, shared), storage
                assert one.threads == 128
