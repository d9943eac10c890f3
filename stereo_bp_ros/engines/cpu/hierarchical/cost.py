"""Data cost of belief propagation and its pyramid, and which messages cross an edge.

Arrays lie as ``memory.Level`` says, with zeros in the columns beyond the image, where sums over
children must find nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cpu.costs import volume
from stereo_bp_ros.engines.cpu.costs.features import rounded
from stereo_bp_ros.engines.cpu.memory import DOWN, LEFT, RIGHT, UP, Level
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import (
    address,
    deinterleave,
    lanes,
    load,
    minimum,
    splat,
    store,
)
from stereo_bp_ros.engines.partitions import Partition

#: More than any sum of differences.
_NO_EDGE = 2**31 - 1


def fill_costs(plan: Plan, config: ResolvedConfig, part: Partition, levels: list[Level],
               arrays: Mapping[str, np.ndarray]) -> None:
    """Fill ``cost_k`` of a partition, the pyramid over its data cost.

    Without multi-feature costs it is ``weight * min(|L(x, y) - R(x - d, y)|, truncation)``, and 0
    for every d where a part of the range has no partner in the right image. Times the scale of
    messages it is ``floor(cost + 0.5)``, from float64, for integers. A node of a level above 0
    has the sum of its up to four children's; with multi-feature costs less the minimum of the
    node's, and cut at four truncations, above which no message differs.
    """
    costs = [arrays[f'cost_{k}'].reshape(-1) for k in range(config.levels)]
    done, bound = 0, None
    if config.has_combined_cost:
        volume.fill(plan, config, part, levels[0], costs[0], arrays)
        bound = np.uint16(4 * quantisation.message_smoothness(config)[1])
    else:
        rows, scratch = arrays['image_rows'], arrays['cost_rows']
        kind, rounding = rows.dtype.type, 0.5 if scratch.dtype == np.uint16 else 0.0
        done = min(1, len(levels) - 1)
        _data_cost(len(scratch), arrays['left_matched'], arrays['right_matched'], part.x, part.y,
                   levels[0], config.min_disparity,
                   kind(config.data_weight * quantisation.message_scale(config)),
                   kind(config.data_truncation), kind(rounding), costs[0], rows, scratch,
                   costs[done], levels[done], done > 0)
    for k in range(done + 1, len(levels)):
        _sum_children(levels[k].height, costs[k - 1], levels[k - 1], costs[k], levels[k], bound)


@parallel_kernel
def _data_cost(part: int, left: Any, right: Any, first_x: int, first_y: int, level: Level,
               min_disparity: int, weight: Any, truncation: Any, rounding: Any, cost: Any,
               image_rows: Any, cost_rows: Any, parents: Any, parent: Level,
               has_parents: bool) -> None:
    """Level 0, and each row of level 1 while its children are in the cache."""
    height = level.height
    parts = cost_rows.shape[0]
    pairs = (height + 1) // 2
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
def _sum_children(row: int, children: Any, child: Level, parents: Any, parent: Level, bound: Any
                  ) -> None:
    """:param bound: of the costs less the minimum of a node; None = costs as they are."""
    _sum_row(address(children), child, address(parents), parent, row)
    if bound is not None:
        for tile in range(2 * row * parent.tiles, 2 * (row + 1) * parent.tiles):
            _cut_tile(address(parents), parent, tile, bound)


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


# --- edges of the image

def edge_truncations(config: ResolvedConfig, part: Partition, arrays: Mapping[str, np.ndarray]
                     ) -> list[np.ndarray] | None:
    """Fill the truncations of all messages of a partition, which are lower across edges.

    Grey values are whole numbers of 8 bits, those of coarser levels sums of four: the same on
    every back end.

    :returns: per level, the truncations as a 1-D view; None = the same of all messages. Those of
        a band search always have their own.
    """
    if not config.discontinuity_edge_threshold and not config.searches_band:
        return None
    grey = arrays['left_smoothed' if config.smoothing_sigma else 'left_grey']
    kind = arrays['truncations_0'].dtype.type
    usual = kind(quantisation.message_smoothness(config)[1])
    at_edges = kind(quantisation.edge_truncation(config))
    found = []
    for k in range(config.levels):
        sums, truncations = arrays[f'grey_sums_{k}'], arrays[f'truncations_{k}']
        if k == 0:
            _round_grey(len(sums), grey, part.x, part.y, sums)
        else:
            _sum_grey(len(sums), arrays[f'grey_sums_{k - 1}'], sums)
        _compare_grey(len(sums) - 2, sums, quantisation.edge_threshold(config, k) or _NO_EDGE,
                      usual, at_edges, truncations)
        found.append(truncations.reshape(-1))
    return found


@parallel_kernel
def _round_grey(y: int, grey: Any, left: int, top: int, sums: Any) -> None:
    for x in range(sums.shape[1]):
        sums[y, x] = rounded(grey[top + y, left + x])


@parallel_kernel
def _sum_grey(y: int, children: Any, sums: Any) -> None:
    """The last row and the last column count twice where their number is odd."""
    bottom, right = children.shape[0] - 1, children.shape[1] - 1
    above, below = 2 * y, min(2 * y + 1, bottom)
    for x in range(sums.shape[1]):
        first, second = 2 * x, min(2 * x + 1, right)
        sums[y, x] = (children[above, first] + children[above, second]
                      + children[below, first] + children[below, second])


@parallel_kernel
def _compare_grey(inner: int, sums: Any, threshold: int, usual: Any, at_edges: Any,
                  truncations: Any) -> None:
    """Of every node of an inner row: the truncations of its four messages."""
    y = inner + 1
    found = np.empty((4, sums.shape[1]), truncations.dtype)
    _compare_row(sums[y - 1], sums[y], sums[y + 1], np.int32(threshold), usual, at_edges,
                 found)
    for odd in range(2):
        _spread_row(found, odd, truncations[y, (y + odd) % 2])


@kernel
def _compare_row(above: Any, own: Any, below: Any, threshold: Any, usual: Any, at_edges: Any,
                 out: Any) -> None:
    """Over three pixels on each side of an edge."""
    up, down, left, right = out[UP], out[DOWN], out[LEFT], out[RIGHT]
    for x in range(1, own.shape[0] - 1):
        row = _sum(own[x - 1], own[x], own[x + 1])
        column = _sum(above[x], own[x], below[x])
        row_above = _sum(above[x - 1], above[x], above[x + 1])
        row_below = _sum(below[x - 1], below[x], below[x + 1])
        column_before = _sum(above[x - 1], own[x - 1], below[x - 1])
        column_after = _sum(above[x + 1], own[x + 1], below[x + 1])
        up[x] = at_edges if _distance(row, row_above) >= threshold else usual
        down[x] = at_edges if _distance(row, row_below) >= threshold else usual
        left[x] = at_edges if _distance(column, column_before) >= threshold else usual
        right[x] = at_edges if _distance(column, column_after) >= threshold else usual


@kernel
def _sum(a: Any, b: Any, c: Any) -> Any:
    return np.int32(np.int32(a + b) + c)


@kernel
def _distance(a: Any, b: Any) -> Any:
    return np.int32(abs(np.int32(a - b)))


@kernel
def _spread_row(found: Any, odd: int, out: Any) -> None:
    """From [direction][x] to [tile][direction][lane] of one colour, but for the borders."""
    tiles, _, count = out.shape
    first, end = 1 - odd, (found.shape[1] - odd) // 2
    up, down, left, right = found[UP], found[DOWN], found[LEFT], found[RIGHT]
    if count == 1:          # a stride that is known becomes vectors
        nodes = out.reshape(-1)
        for column in range(first, end):
            nodes[4 * column + UP] = up[2 * column + odd]
            nodes[4 * column + DOWN] = down[2 * column + odd]
            nodes[4 * column + LEFT] = left[2 * column + odd]
            nodes[4 * column + RIGHT] = right[2 * column + odd]
        return
    for tile in range(tiles):
        begin = tile * count
        for direction in range(4):
            for lane in range(max(0, first - begin), min(count, end - begin)):
                out[tile, direction, lane] = found[direction, 2 * (begin + lane) + odd]
