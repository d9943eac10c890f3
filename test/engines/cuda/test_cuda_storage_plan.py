"""The papers' rules for storage: numbers of their devices, and what holds on any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stereo_bp_ros.papers.plain_steps import tune as storage_plan
from stereo_bp_ros.papers.plain_steps.cuda_arrays import Split
from stereo_bp_ros.papers.plain_steps.tune import TYPICAL, Limits

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
