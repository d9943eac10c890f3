"""Message passing of hierarchical belief propagation, coarse to fine.

Arrays lie as ``plan.Level`` says. Updating one colour of the checkerboard reads only the other,
so neither the order of rows nor the number of threads can change a result.

Felzenszwalb and Huttenlocher, Efficient Belief Propagation for Early Vision, sections 3.2, 3.3.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.beliefs import Selection, clear_row, select_row
from stereo_bp_ros.engines.cpu.envelope import send, send_exactly
from stereo_bp_ros.engines.cpu.plan import DOWN, LEFT, RIGHT, UP, Level
from stereo_bp_ros.engines.cpu.runtime import kernel, parallel_kernel
from stereo_bp_ros.engines.cpu.vectors import interleave, lanes, load, store

#: Iterations that one sweep over a level applies. More of them reuse more of what is in the
#: caches; fewer leave more rows for parallel bands.
SWEEP_ITERATIONS = 8


def pass_messages(levels: list[Level], costs: list[np.ndarray], messages: list[np.ndarray],
                  scratch: np.ndarray, bands: int, iterations: int, slope: float,
                  truncation: float, exact: bool, found: Selection) -> None:
    """Fill ``messages``, coarsest level first, and ``found`` from those of level 0.

    :param costs, messages: per level, 1-D views, uint16, float32, or int16 for float16 values.
    :param scratch: bands x 4 x labels x lanes of one vector, uint16 or float32.
    :param bands: parts that a level is cut into, worked on in parallel.
    :param slope, truncation: of the smoothness cost, in units of the cost.
    :param exact: order of sums and normalisation of the reference maps (float32 only).
    """
    dtype = scratch.dtype.type
    if not exact:
        # A step that costs more than the bound is never taken, and 16 bits need not hold it.
        slope = min(slope, truncation)
    unreached = np.inf if dtype is np.float32 else np.iinfo(dtype).max - slope
    # Without iterations a sweep still starts a level from its parents and selects labels.
    sweeps = max(1, math.ceil(iterations / SWEEP_ITERATIONS))
    messages[-1].fill(0)
    for k in reversed(range(len(levels))):
        # The coarsest level has no parents and stands in for them.
        parent = min(k + 1, len(levels) - 1)
        for i in range(sweeps):
            first, end = i * iterations // sweeps, (i + 1) * iterations // sweeps
            selects = k == 0 and i == sweeps - 1
            steps = end - first + selects
            cuts = max(1, min(bands, (levels[k].height - 2) // (2 * max(1, steps))))
            _sweep(costs[k], messages[k], scratch, levels[k], cuts, first, end, dtype(slope),
                   dtype(truncation), dtype(unreached), True if exact else None,
                   messages[parent], levels[parent], parent > k and i == 0, found, selects)


@kernel
def _start_row(parents: Any, parent_width: int, parent_stride: int, children: Any, row: int,
               height: int, stride: int, labels: int, is_updated: bool) -> None:
    """Give each node of a row what its parent sends: (x, y) has the parent (x // 2, y // 2).

    Where an iteration follows it updates the interior nodes of colour 1 before anyone reads
    them, so those get nothing.
    """
    planes = 4 * labels
    parent_row = row // 2
    even = (2 * parent_row + parent_row % 2) * planes * parent_stride
    odd = (2 * parent_row + 1 - parent_row % 2) * planes * parent_stride
    for colour in range(2):
        target = (2 * row + colour) * planes * stride
        if colour == 1 and is_updated and 0 < row < height - 1:
            _copy_ends(parents, even, odd, parent_width, parent_stride, children, target,
                       stride, planes)
        else:
            _copy_row(parents, even, odd, parent_width, parent_stride, children, target,
                      stride, planes)


@kernel
def _copy_row(parents: Any, even: int, odd: int, parent_width: int, parent_stride: int,
              children: Any, target: int, stride: int, planes: int) -> None:
    """One row of one colour: its column is the x of the parent, whose colours alternate."""
    width = lanes(children)
    for plane in range(planes):
        for column in range(0, (parent_width + 1) // 2, width):
            source = plane * parent_stride + column
            low, high = interleave(load(parents, even + source), load(parents, odd + source))
            place = target + plane * stride + 2 * column
            store(children, place, low)
            if 2 * column + width < stride:
                store(children, place + width, high)


@kernel
def _copy_ends(parents: Any, even: int, odd: int, parent_width: int, parent_stride: int,
               children: Any, target: int, stride: int, planes: int) -> None:
    """As ``_copy_row``, but only the two columns that have the nodes on the border."""
    last = parent_width - 1
    source_of_last = (odd if last % 2 else even) + last // 2
    for plane in range(planes):
        children[target + plane * stride] = parents[even + plane * parent_stride]
        children[target + plane * stride + last] = parents[
            source_of_last + plane * parent_stride]


@parallel_kernel
def _sweep(cost: Any, messages: Any, scratch: Any, level: Level, bands: int, first: int,
           end: int, slope: Any, truncation: Any, unreached: Any, exact: bool | None,
           parents: Any, parent: Level, is_start: bool, found: Any, selects: bool) -> None:
    """Iterations [first, end) of one level, with every row's iterations close in time.

    Row y of iteration t needs rows y - 1 .. y + 1 of iteration t - 1. Within a band of rows each
    iteration follows one row behind the one before it and, at a cut between bands, stops one
    row earlier; the triangles left out at the cuts come second. A sweep thus reads a level
    from memory once, not once per iteration. With ``selects`` labels follow as one more
    iteration would, while the messages are still in the caches. With ``is_start`` rows start
    from their parents just before they are needed; those at the cuts are read by two bands and
    come before.
    """
    height = level.height
    steps = end - first + selects
    if is_start:
        for band in numba.prange(bands):
            top = 1 + band * (height - 2) // bands
            for y in range(top - 1, min(top + 1, height)):
                _start_row(parents, parent.width, parent.stride, messages, y, height,
                           level.stride, level.labels, first < end)
    for band in numba.prange(bands):
        top = 1 + band * (height - 2) // bands
        bottom = 1 + (band + 1) * (height - 2) // bands
        started = bottom - 1 if band < bands - 1 else height
        for front in range(top, bottom + steps):
            if is_start and front + 1 < started:
                _start_row(parents, parent.width, parent.stride, messages, front + 1, height,
                           level.stride, level.labels, first < end)
            for t in range(steps):
                y = front - t
                above_is_done = y >= top + t or (band == 0 and y >= top)
                below_is_done = y < bottom - t or (band == bands - 1 and y < bottom)
                if not (above_is_done and below_is_done):
                    continue
                if first + t < end:
                    _update_row(cost, messages, scratch[band], y, first + t, level, slope,
                                truncation, unreached, exact)
                else:
                    select_row(cost, messages, y, level, found, band)
    for band in numba.prange(1, bands):
        cut = 1 + band * (height - 2) // bands
        for t in range(1, steps):
            for y in range(cut - t, cut + t):
                if first + t < end:
                    _update_row(cost, messages, scratch[band], y, first + t, level, slope,
                                truncation, unreached, exact)
                else:
                    select_row(cost, messages, y, level, found, band)
    if selects:
        clear_row(found, 0)
        clear_row(found, height - 1)


@kernel
def _update_row(cost: Any, messages: Any, scratch: Any, y: int, iteration: int, level: Level,
                slope: Any, truncation: Any, unreached: Any, exact: bool | None) -> None:
    """Send the messages of the interior nodes of one row that an iteration is about."""
    width, _, labels, stride = level
    colour = (iteration + 1) % 2
    odd = (y + colour) % 2              # x = 2 * column + odd
    first, end = 1 - odd, (width - odd) // 2
    plane = labels * stride
    own = (2 * y + colour) * 4 * plane
    other = (2 * y + 1 - colour) * 4 * plane
    from_below = other + 8 * plane + UP * plane
    from_above = other - 8 * plane + DOWN * plane
    from_right = other + LEFT * plane + odd
    from_left = other + RIGHT * plane + odd - 1
    data = (2 * y + colour) * plane
    at_once = lanes(messages)
    # Aligned vectors, unless starting one column later saves the last of them.
    start = first if (end - first) % at_once == 0 else 0
    for column in range(start, end, at_once):
        if exact is None:
            send(cost, data + column, messages, from_below + column, from_above + column,
                 from_right + column, from_left + column, own + column, scratch, stride,
                 labels, slope, truncation, unreached, first - column, end - column)
        else:
            send_exactly(cost, data + column, messages, from_below + column,
                         from_above + column, from_right + column, from_left + column,
                         own + column, scratch, stride, labels, slope, truncation, unreached,
                         first - column, end - column)
