"""Message passing of hierarchical belief propagation, coarse to fine.

Arrays lie as ``memory.Level`` says. Updating one colour of the checkerboard reads only the other,
so neither the order of rows nor the number of threads can change a result.

Felzenszwalb and Huttenlocher, Efficient Belief Propagation for Early Vision, sections 3.2, 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cpu.band.layout import BandLevel
from stereo_bp_ros.engines.cpu.hierarchical.labels import Selection, clear_row
from stereo_bp_ros.engines.cpu.hierarchical.rows import select_row, start_row, update_row
from stereo_bp_ros.engines.cpu.memory import Level, bands, sweeps
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.vectors import address, lanes

#: What a sweep does one after the other, each on all bands of rows at once.
BEGINNINGS, BANDS, CUTS = range(3)


def pass_messages(plan: Plan, config: ResolvedConfig, levels: Sequence[Level | BandLevel],
                  slots: list[np.ndarray], arrays: Mapping[str, np.ndarray], found: Selection,
                  truncations: list[np.ndarray] | None) -> None:
    """Fill ``messages_k``, coarsest level first, and ``found`` from those of level 0.

    :param slots: per level, of each row in its messages: ``memory.row_slots``.
    :param truncations: as ``cost.edge_truncations`` gives them.
    """
    costs, messages = ([arrays[f'{name}_{k}'].reshape(-1) for k in range(config.levels)]
                       for name in ('cost', 'messages'))
    slope, truncation = quantisation.message_smoothness(config)
    first_step, exact = quantisation.first_step(config), config.exact
    iterations, scratch = config.iterations_of_levels, arrays['message_vectors']
    dtype = scratch.dtype.type
    if not exact:
        # A step that costs more than the bound is never taken, and 16 bits need not hold it.
        slope = min(slope, truncation)
    unreached = np.inf if dtype is np.float32 else np.iinfo(dtype).max - slope
    # Without a first step of its own compiled code need not know of it.
    nearest = dtype(first_step) if first_step < slope and not exact else None
    # The four messages of one vector of nodes stand for all.
    the_same = np.full(4 * VECTOR_BYTES // scratch.itemsize, truncation, dtype)
    for k in reversed(range(len(levels))):
        # The coarsest level has no parents and stands in for them: its rows start at 0.
        parent = min(k + 1, len(levels) - 1)
        count = sweeps(iterations[k])
        for i in range(count):
            first, end = i * iterations[k] // count, (i + 1) * iterations[k] // count
            selects = k == 0 and i == count - 1
            cuts = bands(levels[k].height, plan.threads, end - first + selects)
            # Level 0 alone selects: what is compiled for others' costs need not know how.
            chosen = found if costs[k].dtype == costs[0].dtype else None
            for part in range(BEGINNINGS if i == 0 else BANDS, CUTS + 1):
                _sweep(cuts, part, costs[k], messages[k], slots[k], scratch, levels[k], cuts,
                       first, end, dtype(slope), nearest,
                       truncations[k] if truncations else the_same, dtype(unreached),
                       True if exact else None, messages[parent], levels[parent], parent > k,
                       i == 0, chosen, selects)


@parallel_kernel
def _sweep(band: int, part: int, cost: Any, messages: Any, slots: Any, scratch: Any,
           level: Level, bands: int, first: int, end: int, slope: Any, first_step: Any,
           truncations: Any, unreached: Any, exact: bool | None, parents: Any, parent: Level,
           has_parents: bool, is_start: bool, found: Any, selects: bool) -> None:
    """Iterations [first, end) of one level, with every row's iterations close in time.

    Row y of iteration t needs rows y - 1 .. y + 1 of iteration t - 1. Within a band of rows each
    iteration follows one row behind the one before it and, at a cut between bands, stops one row
    earlier; the triangles left out at the cuts come second. A sweep thus reads a level from
    memory once, not once per iteration. With ``selects`` labels follow as one more iteration
    would, while the messages are still in the caches; without ``found`` there are none. With
    ``is_start`` rows start from their parents, or at 0, just before they are needed; those at the
    cuts are read by two bands and come before.

    :param part: ``BEGINNINGS``, ``BANDS`` or ``CUTS``, one after the other.
    """
    height = level.height
    steps = end - first + selects
    own_truncations = truncations.size > 4 * lanes(truncations)
    top = 1 + band * (height - 2) // bands
    bottom = 1 + (band + 1) * (height - 2) // bands
    started = bottom - 1 if band < bands - 1 else height
    # Iteration t is about the rows from top + late * t up to bottom - early * t.
    late, early = min(band, 1), min(bands - 1 - band, 1)
    if part == CUTS:
        bottom, late, early = top, -late, -late
    if part == BEGINNINGS:
        for y in range(top - 1, min(top + 1, height)):
            start_row(address(parents), parent, has_parents, address(messages), level,
                       y, slots[y], first < end)
        return
    for front in range(top, bottom + 2 * steps):
        if is_start and part == BANDS and front + 1 < started:
            start_row(address(parents), parent, has_parents, address(messages), level,
                       front + 1, slots[front + 1], first < end)
        for t in range(steps):
            y = front - t
            if y < top + late * t or y >= bottom - early * t:
                continue
            near = slots[y - 1], slots[y], slots[y + 1]
            if first + t < end:
                update_row(address(cost), address(messages), address(scratch[band]), y,
                            near, first + t, level, slope, first_step,
                            address(truncations), own_truncations, unreached, exact)
            elif found is not None:
                select_row(address(cost), address(messages), y, near, level, found,
                           address(truncations), band)
    if part == CUTS and band == 0 and found is not None and selects:
        clear_row(found, 0)
        clear_row(found, height - 1)
