"""The papers' rules for storage, limits and arrays: arithmetic without CuPy or a GPU."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stereo_bp_ros import ConfigError
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime import device
from stereo_bp_ros.papers.plain_steps import cuda_arrays
from stereo_bp_ros.papers.plain_steps import tune as storage_plan
from stereo_bp_ros.papers.plain_steps.cuda_arrays import Split
from stereo_bp_ros.papers.plain_steps.tune import TYPICAL, Limits
from test.cases import every
from test.engines.support.plain_steps import LAYOUTS, TYPES
from test.settings import paper, plain

# Before compute capability 2.0 the arguments of a kernel lie in its blocks' shared memory.
GTX_285 = Limits(1024, 8, 16384, 124, 16 * 1024, 16 * 1024, 128, 512)
TESLA_C870 = Limits(768, 8, 8192, 124, 16 * 1024, 16 * 1024, 128, 512)
GTX_470 = Limits(1536, 8, 32768, 63, 48 * 1024, 48 * 1024, 0, 1024)


@pytest.mark.parametrize(('limits', 'occupancy', 'bounds', 'expected'), [
    # Table 3: best at 0.14, as fast as 34-31-0 of table 2, which has two blocks of 32 x 2 in
    # place of one of 32 x 4: the same four rows.
    (GTX_285, 0.14, {}, (4, 1, Split(34, 31, 0), 0.125)),
    # Table 3: best at 0.10. No local memory.
    (TESLA_C870, 0.10, {}, (2, 1, Split(12, 53, 0), 0.083)),
    # Table 3, shared memory favoured: best at 0.16, seven rows.
    (GTX_470, 0.16, {'initial_values': 0, 'max_values': 0}, (7, 1, Split(0, 54, 11), 0.146))])
def test_the_walk_finds_the_best_splits_of_the_paper(
        limits: Limits, occupancy: float, bounds: dict[str, int],
        expected: tuple[int, int, Split, float]) -> None:
    found = storage_plan.walk(limits, occupancy, 65, **bounds)
    assert (found.block_height, found.blocks, found.split) == expected[:3]
    assert found.occupancy == pytest.approx(expected[3], abs=5e-4)
    assert found.block_width == 32
    assert limits is not GTX_285 or found.registers == 124


def test_rows_that_no_block_divides_give_way_to_fewer() -> None:
    # 0.72 of 24 rows are 17: 17 blocks of one row are too many, one of 17 rows is too high.
    found = storage_plan.walk(TESLA_C870, 0.72, 65)
    assert (found.block_height, found.blocks) == (16, 1)


def test_fifty_values_at_most_go_into_registers() -> None:
    assert storage_plan.walk(GTX_285, 1.0, 129).split.registers == 50


def test_the_paper_tries_49_occupancies() -> None:
    tried = storage_plan.OCCUPANCIES
    assert (len(tried), tried[0], tried[-1]) == (49, 0.04, 1.0)


@given(occupancy=st.floats(0.01, 1), disparities=st.integers(2, 512),
       limits=st.sampled_from([GTX_285, TESLA_C870, GTX_470, TYPICAL]))
def test_what_the_walk_chooses_fits_the_device(occupancy: float, disparities: int,
                                               limits: Limits) -> None:
    found = storage_plan.walk(limits, occupancy, disparities)
    threads = found.block_width * found.block_height
    assert sum(found.split) == disparities
    assert min(found.split) >= 0
    assert threads <= limits.block_threads
    assert found.blocks <= limits.blocks
    assert found.occupancy <= max(occupancy, 32 / limits.threads) + 1e-9
    assert found.occupancy == threads * found.blocks / limits.threads
    shared = found.split.shared * threads * 4
    assert shared <= limits.block_shared_memory
    if shared:
        assert found.blocks * (shared + limits.block_reserve) <= limits.shared_memory
    assert found.registers * threads * found.blocks <= limits.registers


def test_candidates_are_each_configuration_once() -> None:
    found = storage_plan.candidates(TYPICAL, 64)
    assert len({walked for _, walked in found}) == len(found)
    for occupancy, walked in found:
        assert storage_plan.walk(TYPICAL, occupancy, 64) == walked


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
    plan_of(config, 64, 48)
    with pytest.raises(ConfigError, match='65536 bytes of shared memory hold 128') as refused:
        plan_of(config.replace(disparity_range=129), 64, 48,
                dataclasses.replace(device.TYPICAL, shared_memory=64 * 1024))
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
