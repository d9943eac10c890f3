"""The data cost of level 0: multi-feature costs, with or without path aggregation.

The costs themselves are ``data_cost``, [y][x][label], of which fractions are taken, too. Results
lie as ``memory.Level`` says.

A pixel has its labels side by side, padded with 255 to whole vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cpu.costs import layout
from stereo_bp_ros.engines.cpu.costs.features import FEATURES, offsets
from stereo_bp_ros.engines.cpu.costs.paths import begin_path, extend_path, settle_pixel
from stereo_bp_ros.engines.cpu.memory import Level
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import by_types, kernel
from stereo_bp_ros.engines.cpu.simd.vectors import (
    SQUARE,
    address,
    minimum,
    saturating_sum,
    scaled,
    splat,
    store_bytes,
    transpose,
)
from stereo_bp_ros.engines.partitions import Partition

#: Pixels on each side of the centre of the window that fractions are taken of.
FRACTION_RADIUS = 2

#: Cost of the labels that a vector has beyond the last one.
BEYOND = 255

#: Pixels of a row that two tiles have, one of each colour.
STRIP = 2 * SQUARE


def fill(plan: Plan, config: ResolvedConfig, part: Partition, level: Level, cost: Any,
         arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Data costs 0..255 of a partition. Costs see the whole images, paths the partition.

    :param cost: uint8, 1-D, filled.
    :param arrays: features, and those of ``layout.cost_arrays``.
    """
    step, jump = np.uint8(config.path_step_penalty), np.uint8(config.path_jump_penalty)
    volume = arrays['data_cost']
    _fill(plan.threads, layout.terms(config, plan.width), arrays['left_features'],
          arrays['right_features'], plan.width, part.x, part.y, level, config.min_disparity,
          config.outside_cost, volume, cost, arrays.get('path_down', volume), step, jump,
          config.path_aggregation, plan.threads)
    if config.path_aggregation:
        _sum_paths(level, volume, cost, arrays['path_down'], arrays['path_up'],
                   arrays['path_across'], arrays['path_total'], step, jump)


@parallel_kernel
def _fill(part: int, terms: Any, left: Any, right: Any, image_width: int, first_x: int,
          first_y: int, level: Level, min_disparity: int, outside: int, volume: Any, cost: Any,
          down: Any, step: Any, jump: Any, has_paths: bool, parts: int) -> None:
    """Costs, and with ``has_paths`` the paths down; without them the finished tiles."""
    label_bytes = volume.shape[2]
    left_bytes, right_bytes = left.shape[1], right.shape[1]
    top, bottom, begin, end = 0, level.height, 0, level.tiles
    if has_paths:
        begin, end = part * end // parts, (part + 1) * end // parts
    else:
        top, bottom = part * bottom // parts, (part + 1) * bottom // parts
    for tile in range(begin, end):
        for y in range(top, bottom):
            _fill_strip(terms, address(left), (first_y + y) * left_bytes, address(right),
                        (first_y + y) * right_bytes, image_width, first_x, level, y, tile,
                        min_disparity, outside, address(volume), label_bytes)
            if has_paths:
                _paths_down(level, y, tile, address(volume), label_bytes, address(down), step,
                            jump)
            else:
                _fill_tiles(address(volume), y * 2 * level.tiles * SQUARE * label_bytes,
                            label_bytes, level, y, tile, address(cost))


@kernel
def _fill_strip(terms: Any, left: Any, left_row: int, right: Any, right_row: int,
                image_width: int, first_x: int, level: Level, y: int, tile: int,
                min_disparity: int, outside: int, volume: Any, label_bytes: int) -> None:
    """The costs of the pixels of one tile of each colour."""
    for x in range(tile * STRIP, (tile + 1) * STRIP):
        place = (y * level.tiles * STRIP + x) * label_bytes
        if x < level.width:
            _costs_of_pixel(terms, left, left_row, right, right_row, image_width, first_x + x,
                            level.labels, label_bytes, min_disparity, outside, volume, place)
        else:
            _clear_pixel(label_bytes, volume, place)


@kernel
def _paths_down(level: Level, y: int, tile: int, volume: Any, label_bytes: int, down: Any,
                step: Any, jump: Any) -> None:
    row = level.tiles * STRIP * label_bytes
    for x in range(tile * STRIP, min((tile + 1) * STRIP, level.width)):
        place = y * row + x * label_bytes
        if y == 0:
            begin_path(volume, place, down, place, label_bytes)
        else:
            extend_path(down, place - row, volume, place, down, place, label_bytes, step, jump)


def _sum_paths(level: Level, volume: Any, cost: Any, down: Any, up: Any, across: Any,
               totals: Any, step: Any, jump: Any) -> None:
    """Paths to both sides, paths up and the finished tiles, from the last row to the first."""
    count = len(across)
    for bottom in range(level.height, 0, -count):
        top = max(0, bottom - count)
        _sum_across(bottom - top, level, top, volume, across, step, jump)
        _finish_strips(len(totals), level, top, bottom, volume, cost, down, up, across, totals,
                       step, jump)


@parallel_kernel
def _sum_across(row: int, level: Level, top: int, volume: Any, across: Any, step: Any, jump: Any
                ) -> None:
    _paths_across(level, top + row, address(volume), volume.shape[2], address(across[row]), step,
                  jump)


@parallel_kernel
def _finish_strips(part: int, level: Level, top: int, bottom: int, volume: Any, cost: Any,
                   down: Any, up: Any, across: Any, totals: Any, step: Any, jump: Any) -> None:
    parts, label_bytes = totals.shape
    for tile in range(part * level.tiles // parts, (part + 1) * level.tiles // parts):
        for back in range(bottom - top):
            y = bottom - 1 - back
            _finish_strip(level, y, tile, address(volume), address(cost), address(down),
                          address(up), address(across[y - top]), address(totals[part]),
                          label_bytes, step, jump)


@kernel
def _paths_across(level: Level, y: int, volume: Any, label_bytes: int, across: Any, step: Any,
                  jump: Any) -> None:
    """The paths to the right and to the left of one row."""
    row = level.tiles * STRIP * label_bytes
    for i in range(level.width):
        # Side by side: neither has to wait for the other.
        for backwards in range(2):
            column = (level.width - 1 - i if backwards else i) * label_bytes
            place, target = y * row + column, column + backwards * row
            if i == 0:
                begin_path(volume, place, across, target, label_bytes)
            else:
                source = target + label_bytes if backwards else target - label_bytes
                extend_path(across, source, volume, place, across, target, label_bytes, step,
                            jump)


@kernel
def _finish_strip(level: Level, y: int, tile: int, volume: Any, cost: Any, down: Any, up: Any,
                  across: Any, total: Any, label_bytes: int, step: Any, jump: Any) -> None:
    """The paths up of one strip's row, and the sums in place of the paths to the right."""
    row = level.tiles * STRIP * label_bytes
    for x in range(tile * STRIP, (tile + 1) * STRIP):
        column = x * label_bytes
        if x >= level.width:
            _clear_pixel(label_bytes, across, column)
            continue
        place = y * row + column
        own, before = y % 2 * row + column, (y + 1) % 2 * row + column
        if y == level.height - 1:
            begin_path(volume, place, up, own, label_bytes)
        else:
            extend_path(up, before, volume, place, up, own, label_bytes, step, jump)
        settle_pixel(across, column, row + column, down, place, up, own, total, label_bytes)
    _fill_tiles(across, 0, label_bytes, level, y, tile, cost)


@by_types
def added_costs(terms: Any, total: Any, left: Any, left_row: int, right: Any, right_row: int,
                 own: int, others: int) -> Any:
    """``total`` plus the costs of 64 labels of a pixel, or of four times 16 of two pixels.

    :param terms: the last ones of ``layout.terms``.
    :param left_row, right_row: where a row's features start, bytes.
    :param own, others: pixels from there; of two pixels each one's, and of each 16 labels.
    """
    if len(terms) == 0:
        return lambda terms, total, left, left_row, right, right_row, own, others: total
    name, size = list(layout.COSTS.items())[-len(terms)]
    differ = FEATURES[name].differ

    def add(terms: Any, total: Any, left: Any, left_row: Any, right: Any, right_row: Any,
            own: Any, others: Any) -> Any:
        of_left, of_right, weight, bound = terms[0]
        if weight:
            value = differ(left, offsets(left_row + of_left, size, own),
                           right, offsets(right_row + of_right, size, others))
            value = minimum(value, splat(np.uint8(bound)))
            total = saturating_sum(total, scaled(value, np.uint16(weight)))
        return added_costs(terms[1:], total, left, left_row, right, right_row, own, others)
    return add


@kernel
def _costs_of_pixel(terms: Any, left: Any, left_row: int, right: Any, right_row: int,
                    image_width: int, x: int, labels: int, label_bytes: int, min_disparity: int,
                    outside: int, costs: Any, place: int) -> None:
    """All labels of the pixel ``x`` of the left image, from ``costs[place]`` on."""
    for label in range(0, labels, VECTOR_BYTES):
        total = added_costs(terms, splat(np.uint8(0)), left, left_row, right, right_row, x,
                            image_width - 1 - x + label)
        store_bytes(costs, place + label, total)
    # Labels [first, end) have a partner.
    first = min(labels, x - min_disparity - image_width + 1)
    end = max(0, x - min_disparity + 1)
    for label in range(first):
        costs[place + label] = np.uint8(outside)
    for label in range(end, labels):
        costs[place + label] = np.uint8(outside)
    for label in range(labels, label_bytes):
        costs[place + label] = np.uint8(BEYOND)


@kernel
def _fill_tiles(pixels: Any, row: int, label_bytes: int, level: Level, y: int, tile: int,
                cost: Any) -> None:
    """A tile [plane][lane] of each colour from its pixels' labels.

    :param row: where the labels of the row's first pixel start, bytes.
    """
    for odd in range(2):
        start = row + (2 * tile * SQUARE + odd) * label_bytes
        place = (((2 * y + (y + odd) % 2) * level.tiles + tile) * level.cost_planes) * SQUARE
        for label in range(0, label_bytes, SQUARE):
            transpose(pixels, start + label, 2 * label_bytes, cost, place + label * SQUARE)


@kernel
def _clear_pixel(label_bytes: int, pixels: Any, place: int) -> None:
    """Zeros where a tile has columns beyond the image."""
    for label in range(0, label_bytes, VECTOR_BYTES):
        store_bytes(pixels, place + label, splat(np.uint8(0)))


@parallel_kernel
def fill_fractions(row: int, data_cost: Any, level: Level, first_x: int, first_y: int, left: int,
                   top: int, right: int, label: Any, fraction: Any) -> None:
    """Fractions of a label from the data cost: where two lines of one slope meet.

    a, b and c are sums over 5 x 5 pixels of the costs of the label before, of the label and of
    the one after. The fraction is floor(8 (a - c) / (max(a, c) - b) + 1/2) sixteenths, 0 where b
    is not the minimum, where all are equal, and at the first and last label.

    :param data_cost: uint8 [y][x][label] of a partition, before path aggregation.
    :param row: of what the partition keeps, from ``top`` on, its columns from ``left`` to
        ``right``; first_x, first_y: where the partition begins.
    :param label: int16 H x W of the image, -1 = none.
    :param fraction: int8 H x W, filled.
    """
    _, columns, label_bytes = data_cost.shape
    side = 2 * FRACTION_RADIUS + 1
    costs, y, of_columns = address(data_cost), top + row, np.empty(side, np.int64)
    last = -1
    for x in range(left, right):
        found = np.int64(label[y, x])
        fraction[y, x] = 0
        if not 0 < found < level.labels - 1:
            last = -1
            continue
        # Of neighbours with one label all columns but the last are known.
        for i in range(side - 1):
            of_columns[i] = of_columns[i + 1]
        for i in range(side - 1 if found == last else 0, side):
            of_columns[i] = _column_sums(costs, columns, label_bytes, level,
                                         x - first_x + i - FRACTION_RADIUS, y - first_y,
                                         found)
        sums, last = np.int64(0), found
        for i in range(side):
            sums += of_columns[i]
        fraction[y, x] = two_lines(sums & 0xffff, sums >> 32, sums >> 16 & 0xffff)


@kernel
def _column_sums(costs: Any, columns: int, label_bytes: int, level: Level, x: int, y: int,
                 label: int) -> int:
    """Costs of a column of the window: of the label before, of that after, of the label itself.

    16 bits each, the first ones lowest. ``x`` and ``y`` of the partition; windows are replicated
    beyond it.
    """
    total, column = np.int64(0), min(max(x, 0), level.width - 1)
    for row in range(y - FRACTION_RADIUS, y + FRACTION_RADIUS + 1):
        place = (min(max(row, 0), level.height - 1) * columns + column) * label_bytes + label
        total += (np.int64(costs[place - 1]) + (np.int64(costs[place]) << 32)
                  + (np.int64(costs[place + 1]) << 16))
    return total


@kernel
def two_lines(before: int, least: int, after: int) -> int:
    """Sixteenths from a label to where two lines of one slope through three costs meet."""
    rise = np.int32(max(before, after) - least)
    is_least = (rise > 0) & (least <= before) & (least <= after)
    # No such quotient of numbers below 2^23 is rounded up to a whole number.
    quotient = np.float32(np.int32(16 * (before - after) + rise)) / np.float32(
        np.int32(2 * rise) if is_least else np.int32(1))
    return np.int32(np.floor(quotient)) if is_least else np.int32(0)
