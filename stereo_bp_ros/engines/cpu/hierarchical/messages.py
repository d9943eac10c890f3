"""Message passing of hierarchical belief propagation, coarse to fine.

Arrays lie as ``memory.Level`` says. Updating one colour of the checkerboard reads only the other,
so neither the order of rows nor the number of threads can change a result.

Felzenszwalb and Huttenlocher, Efficient Belief Propagation for Early Vision, sections 3.2, 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numba
import numpy as np

from stereo_bp_ros.config import ResolvedConfig, quantisation
from stereo_bp_ros.engines.cpu.hierarchical.envelope import send, send_exactly
from stereo_bp_ros.engines.cpu.hierarchical.formats import arriving
from stereo_bp_ros.engines.cpu.hierarchical.labels import Selection, clear_row, select_row
from stereo_bp_ros.engines.cpu.memory import Level, bands, sweeps
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel
from stereo_bp_ros.engines.cpu.simd.vectors import address, interleave, lanes, load_stored, store

#: What a sweep does one after the other, each on all bands of rows at once.
BEGINNINGS, BANDS, CUTS = range(3)


def pass_messages(plan: Plan, config: ResolvedConfig, levels: list[Level],
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
            _sweep(costs[k], messages[k], slots[k], scratch, levels[k], cuts, first, end,
                   dtype(slope), nearest, truncations[k] if truncations else the_same,
                   dtype(unreached), True if exact else None, messages[parent], levels[parent],
                   parent > k, i == 0, chosen, selects)


@kernel
def _start_row(parents: Any, parent: Level, has_parents: bool, children: Any, level: Level,
               y: int, slot: int, is_updated: bool) -> None:
    """Give each node of a row what its parent sends, or 0: (x, y) has the parent (x // 2, y // 2).

    Where an iteration follows it updates the interior nodes of colour 1 before anyone reads
    them, so those get nothing from parents.
    """
    at_once = lanes(children)
    block = 4 * level.planes * at_once
    if not has_parents:
        row = 2 * level.tiles * block
        for place in range(slot * row, (slot + 1) * row):
            children[place] = 0
        return
    upper = y // 2
    even = (2 * upper + upper % 2) * parent.tiles * block
    odd = (2 * upper + 1 - upper % 2) * parent.tiles * block
    for colour in range(2):
        target = (2 * slot + colour) * level.tiles * block
        if colour == 1 and is_updated and 0 < y < level.height - 1:
            _copy_ends(parents, even, odd, parent.width, children, target, block)
        else:
            for tile in range(parent.tiles):
                _copy_tile(parents, even + tile * block, odd + tile * block, children,
                           target + 2 * tile * block, 2 * tile + 1 < level.tiles, block)


@kernel
def _copy_tile(parents: Any, even: int, odd: int, children: Any, target: int, has_second: bool,
               block: int) -> None:
    """Two tiles of one colour: their column is the x of the parent, whose colours alternate."""
    for place in range(0, block, lanes(children)):
        first, second = interleave(load_stored(parents, even + place),
                                   load_stored(parents, odd + place))
        store(children, target + place, first)
        if has_second:
            store(children, target + block + place, second)


@kernel
def _copy_ends(parents: Any, even: int, odd: int, parent_width: int, children: Any, target: int,
               block: int) -> None:
    """Of a row of one colour the two columns that have the nodes on the border."""
    at_once = lanes(children)
    last = parent_width - 1
    source = (odd if last % 2 else even) + last // 2 // at_once * block + last // 2 % at_once
    end = target + last // at_once * block + last % at_once
    for place in range(0, block, at_once):
        children[target + place] = parents[even + place]
        children[end + place] = parents[source + place]


@parallel_kernel
def _sweep(cost: Any, messages: Any, slots: Any, scratch: Any, level: Level, bands: int,
           first: int, end: int, slope: Any, first_step: Any, truncations: Any, unreached: Any,
           exact: bool | None, parents: Any, parent: Level, has_parents: bool, is_start: bool,
           found: Any, selects: bool) -> None:
    """Iterations [first, end) of one level, with every row's iterations close in time.

    Row y of iteration t needs rows y - 1 .. y + 1 of iteration t - 1. Within a band of rows each
    iteration follows one row behind the one before it and, at a cut between bands, stops one row
    earlier; the triangles left out at the cuts come second. A sweep thus reads a level from
    memory once, not once per iteration. With ``selects`` labels follow as one more iteration
    would, while the messages are still in the caches; without ``found`` there are none. With
    ``is_start`` rows start from their parents, or at 0, just before they are needed; those at the
    cuts are read by two bands and come before.

    All three are one parallel loop: each loop compiles whatever it calls for itself.
    """
    height = level.height
    steps = end - first + selects
    own_truncations = truncations.size > 4 * lanes(truncations)
    for part in range(BEGINNINGS if is_start else BANDS, CUTS + 1):
        for index in numba.prange(bands):
            band = np.int64(index)      # else what takes it is compiled for uint64 too
            top = 1 + band * (height - 2) // bands
            bottom = 1 + (band + 1) * (height - 2) // bands
            started = bottom - 1 if band < bands - 1 else height
            # Iteration t is about the rows from top + late * t up to bottom - early * t.
            late, early = min(band, 1), min(bands - 1 - band, 1)
            if part == CUTS:
                bottom, late, early = top, -late, -late
            if part == BEGINNINGS:
                for y in range(top - 1, min(top + 1, height)):
                    _start_row(address(parents), parent, has_parents, address(messages), level,
                               y, slots[y], first < end)
                continue
            for front in range(top, bottom + 2 * steps):
                if is_start and part == BANDS and front + 1 < started:
                    _start_row(address(parents), parent, has_parents, address(messages), level,
                               front + 1, slots[front + 1], first < end)
                for t in range(steps):
                    y = front - t
                    if y < top + late * t or y >= bottom - early * t:
                        continue
                    near = slots[y - 1], slots[y], slots[y + 1]
                    if first + t < end:
                        _update_row(address(cost), address(messages), address(scratch[band]), y,
                                    near, first + t, level, slope, first_step,
                                    address(truncations), own_truncations, unreached, exact)
                    elif found is not None:
                        select_row(address(cost), address(messages), y, near, level, found, band)
    if found is not None and selects:
        clear_row(found, 0)
        clear_row(found, height - 1)


@kernel
def _update_row(cost: Any, messages: Any, scratch: Any, y: int, slots: tuple[int, int, int],
                iteration: int, level: Level, slope: Any, first_step: Any, truncations: Any,
                own_truncations: bool, unreached: Any, exact: bool | None) -> None:
    """Send the messages of the interior nodes of one row that an iteration is about.

    :param slots: where the messages of rows y - 1, y and y + 1 lie.
    :param own_truncations: whether each message has one; else those of one vector are all's.
    """
    width, _, labels, tiles, cost_planes, planes = level
    colour = (iteration + 1) % 2
    odd = (y + colour) % 2              # x = 2 * column + odd
    end = (width - odd) // 2
    at_once = lanes(messages)
    for tile in range((end + at_once - 1) // at_once):
        at = arriving(messages, level, slots, y, odd, tile)
        own = ((2 * slots[1] + colour) * tiles + tile) * 4 * planes * at_once
        node = (2 * y + colour) * tiles + tile
        data = node * cost_planes * at_once
        bounds = node * 4 * at_once if own_truncations else 0
        column = tile * at_once
        first, last = 1 - odd - column, end - column
        if exact is None:
            send(cost, data, messages, at, own, scratch, labels, planes, slope, first_step,
                 truncations, bounds, unreached, first, last)
        else:
            send_exactly(cost, data, messages, at, own, scratch, labels, planes, slope,
                         truncations, bounds, unreached, first, last)
