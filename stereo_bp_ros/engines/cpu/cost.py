"""Data cost of belief propagation and its pyramid.

Arrays lie as ``plan.Level`` says, with zeros in the columns beyond the image, where sums over
children must find nothing.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.plan import VECTOR_BYTES, Level
from stereo_bp_ros.engines.cpu.runtime import kernel, parallel_kernel
from stereo_bp_ros.engines.cpu.vectors import deinterleave, load, splat, store


def data_cost(left: np.ndarray, right: np.ndarray, level: Level, min_disparity: int,
              weight: float, truncation: float, scale: int, cost: np.ndarray,
              scratch: np.ndarray) -> None:
    """``weight * min(|L(x, y) - R(x - d, y)|, truncation)`` at level 0.

    Where a part of the range has no partner in the right image the cost is 0 for every d.

    :param left, right: float32 H x W, the images that are matched.
    :param scale: S of the int16 messages; unused for float32.
    :param cost: 1-D view, uint16 (``floor(S * cost + 0.5)``, from float64) or float32.
    :param scratch: parts x 4 x columns, float64 for uint16 and float32 for float32 costs.
    """
    kind = scratch.dtype.type
    factor, rounding = (weight * scale, 0.5) if cost.dtype == np.uint16 else (weight, 0.0)
    _data_cost(left, right, level.stride, level.labels, min_disparity, kind(factor),
               kind(truncation), kind(rounding), cost, scratch)


def pyramid(levels: list[Level], costs: list[np.ndarray]) -> None:
    """The cost of each node of a level above 0: the sum of its up to four children's."""
    for k in range(1, len(levels)):
        child, parent = levels[k - 1], levels[k]
        _sum_children(costs[k - 1], child.height, child.stride, costs[k], parent.stride,
                      parent.labels)


@parallel_kernel
def _data_cost(left: Any, right: Any, stride: int, labels: int, min_disparity: int,
               weight: Any, truncation: Any, rounding: Any, cost: Any, scratch: Any) -> None:
    height, width = left.shape
    parts = scratch.shape[0]
    for part in numba.prange(parts):
        for y in range(part * height // parts, (part + 1) * height // parts):
            _cost_of_row(left[y], right[y], y, width, stride, labels, min_disparity, weight,
                         truncation, rounding, cost, scratch[part])


@kernel
def _cost_of_row(left: Any, right: Any, y: int, width: int, stride: int, labels: int,
                 min_disparity: int, weight: Any, truncation: Any, rounding: Any, cost: Any,
                 scratch: Any) -> None:
    for odd in range(2):
        columns = (width + 1 - odd) // 2
        for column in range(columns):
            scratch[odd, column] = left[2 * column + odd]
            scratch[2 + odd, column] = right[2 * column + odd]
    first_x = max(0, min_disparity + labels - 1)
    last_x = min(width - 1, width - 1 + min_disparity)
    for odd in range(2):
        colour = (y + odd) % 2
        first = (first_x - odd + 1) // 2
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
            plane[:first] = 0
            plane[end:] = 0
            _differences(scratch[odd, first:end],
                         scratch[2 + shift % 2, first + offset:end + offset],
                         weight, truncation, rounding, plane[first:end])


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
    lanes = VECTOR_BYTES // parents.itemsize
    for row in numba.prange((child_height + 1) // 2):
        for label in range(labels):
            upper = (4 * row * labels + label) * child_stride
            lower = upper + 2 * labels * child_stride if 2 * row + 1 < child_height else -1
            for column in range(0, stride, lanes):
                first = _child_sums(children, upper, lower, 2 * column, child_stride, labels)
                second = _child_sums(children, upper, lower, 2 * column + lanes, child_stride,
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
    zero = splat(children.dtype.type(0))
    if column >= stride:
        return zero
    other_colour = labels * stride
    total = load(children, upper + column) + load(children, upper + other_colour + column)
    if lower >= 0:
        total = total + load(children, lower + other_colour + column)
        total = total + load(children, lower + column)
    return total
