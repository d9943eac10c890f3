"""Data cost of belief propagation and its pyramid.

Arrays lie as ``memory.Level`` says, with zeros in the columns beyond the image, where sums over
children must find nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numba
import numpy as np

from stereo_bp_ros.config import ResolvedConfig, quantisation
from stereo_bp_ros.engines.cpu.costs import volume
from stereo_bp_ros.engines.cpu.memory import Level
from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel
from stereo_bp_ros.engines.cpu.simd.vectors import (
    address,
    deinterleave,
    lanes,
    load,
    minimum,
    splat,
    store,
)


def data_cost(left: np.ndarray, right: np.ndarray, x: int, y: int, levels: list[Level],
              min_disparity: int, weight: float, truncation: float, scale: int,
              costs: list[np.ndarray], image_rows: np.ndarray, cost_rows: np.ndarray) -> None:
    """``weight * min(|L(x, y) - R(x - d, y)|, truncation)`` and the pyramid over it.

    Where a part of the range has no partner in the right image the cost is 0 for every d. That
    of a node of a level above 0 is the sum of its up to four children's.

    :param left, right: float32 H x W, the images that are matched.
    :param x, y: the pixel of the left image where level 0 begins, both even.
    :param scale: S, which every cost is multiplied by.
    :param costs: per level, filled: 1-D views, uint16 or uint8 (level 0:
        ``floor(S * cost + 0.5)``, from float64), float32, or int16 for float16 values.
    :param image_rows: scratch, parts x 4 x columns of the images, float64 for integer costs, else
        float32.
    :param cost_rows: scratch, parts x columns, uint16 or float32.
    """
    kind = image_rows.dtype.type
    factor, rounding = weight * scale, 0.5 if cost_rows.dtype == np.uint16 else 0.0
    above = min(1, len(levels) - 1)
    _data_cost(left, right, x, y, levels[0], min_disparity, kind(factor), kind(truncation),
               kind(rounding), costs[0], image_rows, cost_rows, costs[above], levels[above],
               above > 0)
    for k in range(2, len(levels)):
        _sum_children(costs[k - 1], levels[k - 1], costs[k], levels[k])


def combined_cost(config: ResolvedConfig, width: int, x: int, y: int, levels: list[Level],
                  costs: list[np.ndarray], arrays: Mapping[str, np.ndarray],
                  threads: int) -> None:
    """Combined costs, with or without path sums, and the pyramid over them.

    The cost of a level above 0 is the sum of its children's, less the least of the node's, cut
    at four truncations: no message can tell.

    :param width: of the images, pixels.
    :param x, y: as for ``data_cost``.
    :param costs: per level, filled: 1-D views, uint8 of level 0, uint16 of the others.
    :param arrays: features, and those of ``costs.layout.cost_arrays``, which are filled.
    """
    volume.fill(config, width, x, y, levels[0], costs[0], arrays, threads)
    bound = 4 * quantisation.message_smoothness(config)[1]
    for k in range(1, len(levels)):
        _sum_cut_children(costs[k - 1], levels[k - 1], costs[k], levels[k], np.uint16(bound))


@parallel_kernel
def _data_cost(left: Any, right: Any, first_x: int, first_y: int, level: Level,
               min_disparity: int, weight: Any, truncation: Any, rounding: Any, cost: Any,
               image_rows: Any, cost_rows: Any, parents: Any, parent: Level,
               has_parents: bool) -> None:
    """Level 0, and each row of level 1 while its children are in the cache."""
    height = level.height
    parts = cost_rows.shape[0]
    pairs = (height + 1) // 2
    for part in numba.prange(parts):
        for row in range(part * pairs // parts, (part + 1) * pairs // parts):
            for y in range(2 * row, min(2 * row + 2, height)):
                _cost_of_row(left[first_y + y], right[first_y + y], first_x, y, level,
                             min_disparity, weight, truncation, rounding, address(cost),
                             image_rows[part], cost_rows[part])
            if has_parents:
                _sum_row(address(cost), level, address(parents), parent, row)


@kernel
def _cost_of_row(left: Any, right: Any, first_x: int, y: int, level: Level, min_disparity: int,
                 weight: Any, truncation: Any, rounding: Any, cost: Any, images: Any,
                 plane: Any) -> None:
    width, labels = level.width, level.labels
    at_once, stride = lanes(cost), images.shape[1]
    images_at, plane_at = address(images), address(plane)
    for odd in range(2):
        columns = (left.size + 1 - odd) // 2
        for column in range(columns):
            images[odd, column] = left[2 * column + odd]
            images[2 + odd, column] = right[2 * column + odd]
    # Columns of the images, of which ``before`` lie left of the level's.
    before = first_x // 2
    start_x = max(first_x, min_disparity + labels - 1)
    last_x = min(first_x + width - 1, left.size - 1, left.size - 1 + min_disparity)
    for odd in range(2):
        colour = (y + odd) % 2
        first = (start_x - odd + 1) // 2
        end = max(first, (last_x - odd) // 2 + 1)
        plane[:] = 0
        target = (2 * y + colour) * level.tiles * level.cost_planes * at_once
        for label in range(labels):
            if first < end:
                # x - d = 2 (column + offset) + 0 or 1
                shift = odd - min_disparity - label
                offset = shift // 2
                _differences(images_at, odd * stride + first,
                             (2 + shift % 2) * stride + first + offset, end - first, weight,
                             truncation, rounding, plane_at, first - before)
            for tile in range(level.tiles):
                store(cost, target + (tile * level.cost_planes + label) * at_once,
                      load(plane_at, tile * at_once))


@kernel
def _differences(images: Any, left: int, right: int, count: int, weight: Any, truncation: Any,
                 rounding: Any, plane: Any, first: int) -> None:
    for i in range(count):
        difference = abs(images[left + i] - images[right + i])
        difference = difference if difference < truncation else truncation
        plane[first + i] = weight * difference + rounding


@parallel_kernel
def _sum_children(children: Any, child: Level, parents: Any, parent: Level) -> None:
    for row in numba.prange(parent.height):
        _sum_row(address(children), child, address(parents), parent, np.int64(row))


@kernel
def _sum_row(children: Any, child: Level, parents: Any, parent: Level, row: int) -> None:
    """One row of parents."""
    at_once = lanes(parents)
    block, from_block = parent.cost_planes * at_once, child.cost_planes * at_once
    upper = 4 * row * child.tiles * from_block
    lower = upper + 2 * child.tiles * from_block if 2 * row + 1 < child.height else -1
    target = 2 * row * parent.tiles * block
    for tile in range(parent.tiles):
        has_second = 2 * tile + 1 < child.tiles
        for place in range(0, parent.labels * at_once, at_once):
            first = _child_sums(children, upper, lower, 2 * tile * from_block + place, child,
                                from_block)
            second = first - first
            if has_second:
                second = _child_sums(children, upper, lower, (2 * tile + 1) * from_block + place,
                                     child, from_block)
            even, odd = deinterleave(first, second)
            own = target + tile * block + place
            store(parents, own + row % 2 * parent.tiles * block, even)
            store(parents, own + (1 - row % 2) * parent.tiles * block, odd)


@parallel_kernel
def _sum_cut_children(children: Any, child: Level, parents: Any, parent: Level,
                      bound: Any) -> None:
    for index in numba.prange(parent.height):
        row = np.int64(index)
        _sum_row(address(children), child, address(parents), parent, row)
        for tile in range(2 * row * parent.tiles, 2 * (row + 1) * parent.tiles):
            _cut_tile(address(parents), parent, tile, bound)


@kernel
def _cut_tile(costs: Any, level: Level, tile: int, bound: Any) -> None:
    at_once = lanes(costs)
    first = tile * level.cost_planes * at_once
    end = first + level.labels * at_once
    least, most = load(costs, first), splat(bound)
    for place in range(first, end, at_once):
        least = minimum(least, load(costs, place))
    for place in range(first, end, at_once):
        store(costs, place, minimum(load(costs, place) - least, most))


@kernel
def _child_sums(children: Any, upper: int, lower: int, place: int, child: Level,
                block: int) -> Any:
    """``((c00 + c01) + c10) + c11`` as [row][x] of the children of consecutive parents.

    The children of a parent x have the column x in either colour; in even rows colour 0 is the
    left one, in odd rows colour 1.
    """
    other_colour = child.tiles * block
    total = load(children, upper + place) + load(children, upper + other_colour + place)
    if lower >= 0:
        total = total + load(children, lower + other_colour + place)
        total = total + load(children, lower + place)
    return total
