"""Data cost of belief propagation and its pyramid.

Arrays lie as ``plan.Level`` says, with zeros in the columns beyond the image, where sums over
children must find nothing.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from stereo_bp_ros.engines.cpu.plan import Level
from stereo_bp_ros.engines.cpu.runtime import kernel, parallel_kernel
from stereo_bp_ros.engines.cpu.vectors import deinterleave, lanes, load, store


def data_cost(left: np.ndarray, right: np.ndarray, x: int, y: int, levels: list[Level],
              min_disparity: int, weight: float, truncation: float, scale: int,
              costs: list[np.ndarray], scratch: np.ndarray) -> None:
    """``weight * min(|L(x, y) - R(x - d, y)|, truncation)`` and the pyramid over it.

    Where a part of the range has no partner in the right image the cost is 0 for every d. That
    of a node of a level above 0 is the sum of its up to four children's.

    :param left, right: float32 H x W, the images that are matched.
    :param x, y: the pixel of the left image where level 0 begins, both even.
    :param scale: S, which every cost is multiplied by.
    :param costs: per level, filled: 1-D views, uint16 (level 0: ``floor(S * cost + 0.5)``, from
        float64), float32, or int16 for float16 values.
    :param scratch: parts x 5 x columns of the images, float64 for uint16 costs, else float32.
    """
    kind = scratch.dtype.type
    factor, rounding = weight * scale, 0.5 if costs[0].dtype == np.uint16 else 0.0
    above = min(1, len(levels) - 1)
    _data_cost(left, right, x, y, levels[0], min_disparity, kind(factor), kind(truncation),
               kind(rounding), costs[0], scratch, costs[above], levels[above].stride, above > 0)
    for k in range(2, len(levels)):
        child, parent = levels[k - 1], levels[k]
        _sum_children(costs[k - 1], child.height, child.stride, costs[k], parent.stride,
                      parent.labels)


@parallel_kernel
def _data_cost(left: Any, right: Any, first_x: int, first_y: int, level: Level,
               min_disparity: int, weight: Any, truncation: Any, rounding: Any, cost: Any,
               scratch: Any, parents: Any, parent_stride: int, has_parents: bool) -> None:
    """Level 0, and each row of level 1 while its children are in the cache."""
    height = level.height
    parts = scratch.shape[0]
    pairs = (height + 1) // 2
    for part in numba.prange(parts):
        for row in range(part * pairs // parts, (part + 1) * pairs // parts):
            for y in range(2 * row, min(2 * row + 2, height)):
                _cost_of_row(left[first_y + y], right[first_y + y], first_x, y, level,
                             min_disparity, weight, truncation, rounding, cost, scratch[part])
            if has_parents:
                _sum_row(cost, height, level.stride, parents, row, parent_stride, level.labels)


@kernel
def _cost_of_row(left: Any, right: Any, first_x: int, y: int, level: Level, min_disparity: int,
                 weight: Any, truncation: Any, rounding: Any, cost: Any, scratch: Any) -> None:
    width, _, labels, stride = level
    for odd in range(2):
        columns = (left.size + 1 - odd) // 2
        for column in range(columns):
            scratch[odd, column] = left[2 * column + odd]
            scratch[2 + odd, column] = right[2 * column + odd]
    # Columns of the images, of which ``before`` lie left of the level's.
    before = first_x // 2
    start_x = max(first_x, min_disparity + labels - 1)
    last_x = min(first_x + width - 1, left.size - 1, left.size - 1 + min_disparity)
    for odd in range(2):
        colour = (y + odd) % 2
        first = (start_x - odd + 1) // 2
        end = max(first, (last_x - odd) // 2 + 1)
        for label in range(labels):
            # x - d = 2 (column + offset) + 0 or 1
            shift = odd - min_disparity - label
            offset = shift // 2
            start = ((2 * y + colour) * labels + label) * stride
            plane = cost[start:start + stride]
            if first >= end:
                plane[:] = 0
                continue
            plane[:first - before] = 0
            plane[end - before:] = 0
            _differences(scratch[odd, first:end],
                         scratch[2 + shift % 2, first + offset:end + offset],
                         weight, truncation, rounding,
                         _wide(plane, scratch[4])[first - before:end - before])
            _keep(scratch[4], first - before, end - before, plane)


def _wide(plane: Any, spare: Any) -> Any:
    """Where costs are written as numbers: the plane, or ``spare`` where it holds halves."""
    raise TypeError('for kernels only')


@overload(_wide)
def _wide_of_types(plane: Any, spare: Any) -> Any:
    def itself(plane: Any, spare: Any) -> Any:
        return plane

    def elsewhere(plane: Any, spare: Any) -> Any:
        return spare
    return elsewhere if plane.dtype == types.int16 else itself


def _keep(spare: Any, first: int, end: int, plane: Any) -> Any:
    """Round what ``_wide`` had elsewhere to the columns [first, end) of the plane."""
    raise TypeError('for kernels only')


@overload(_keep)
def _keep_of_types(spare: Any, first: int, end: int, plane: Any) -> Any:
    def keep(spare: Any, first: int, end: int, plane: Any) -> Any:
        spare[:first] = 0
        spare[end:] = 0
        for column in range(0, plane.size, lanes(plane)):
            store(plane, column, load(spare, column))

    def nothing(spare: Any, first: int, end: int, plane: Any) -> Any:
        pass
    return keep if plane.dtype == types.int16 else nothing


@kernel
def _differences(left: Any, right: Any, weight: Any, truncation: Any, rounding: Any,
                 cost: Any) -> None:
    for i in range(cost.size):
        difference = abs(left[i] - right[i])
        difference = difference if difference < truncation else truncation
        cost[i] = weight * difference + rounding


@parallel_kernel
def _sum_children(children: Any, child_height: int, child_stride: int, parents: Any,
                  stride: int, labels: int) -> None:
    for row in numba.prange((child_height + 1) // 2):
        _sum_row(children, child_height, child_stride, parents, row, stride, labels)


@kernel
def _sum_row(children: Any, child_height: int, child_stride: int, parents: Any, row: int,
             stride: int, labels: int) -> None:
    """One row of parents."""
    width = lanes(parents)
    for label in range(labels):
        upper = (4 * row * labels + label) * child_stride
        lower = upper + 2 * labels * child_stride if 2 * row + 1 < child_height else -1
        for column in range(0, stride, width):
            first = _child_sums(children, upper, lower, 2 * column, child_stride, labels)
            second = _child_sums(children, upper, lower, 2 * column + width, child_stride,
                                 labels)
            even, odd = deinterleave(first, second)
            target = (2 * row * labels + label) * stride + column
            other_colour = labels * stride
            store(parents, target + row % 2 * other_colour, even)
            store(parents, target + (1 - row % 2) * other_colour, odd)


@kernel
def _child_sums(children: Any, upper: int, lower: int, column: int, stride: int,
                labels: int) -> Any:
    """``((c00 + c01) + c10) + c11`` as [row][x] of the children of consecutive parents.

    The children of a parent x have the column x in either colour; in even rows colour 0 is the
    left one, in odd rows colour 1.
    """
    if column >= stride:
        beyond = load(children, upper)
        return beyond - beyond
    other_colour = labels * stride
    total = load(children, upper + column) + load(children, upper + other_colour + column)
    if lower >= 0:
        total = total + load(children, lower + other_colour + column)
        total = total + load(children, lower + column)
    return total
