"""The data cost of level 0: combined costs, with or without path sums.

Results lie as ``memory.Level`` says. Path sums first keep a tile's costs in the tile's own place
as [lane][label], so that only one volume is needed beside them: that of the paths down.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numba
import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cpu.costs import layout
from stereo_bp_ros.engines.cpu.costs.combined import (
    clear_pixel,
    costs_of_pixel,
    fill_tile,
    tile_of,
)
from stereo_bp_ros.engines.cpu.costs.paths import begin_path, extend_path, settle_pixel
from stereo_bp_ros.engines.cpu.memory import Level
from stereo_bp_ros.engines.cpu.simd.bytes import SQUARE
from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel
from stereo_bp_ros.engines.cpu.simd.vectors import address

#: What is done for some rows one after the other, each on all threads at once.
ACROSS, UP = range(2)


def fill(config: MatcherConfig, width: int, x: int, y: int, level: Level, cost: Any,
         arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Data costs 0..255 of an image or of a part of it.

    Costs see the whole images, paths the part.

    :param width: of the images, pixels.
    :param x, y: the pixel of the left image where the level begins.
    :param cost: uint8, 1-D, filled.
    :param arrays: features, and those of ``layout.cost_arrays``.
    """
    step, jump = np.uint8(config.path_step_penalty), np.uint8(config.path_jump_penalty)
    strips, unused = arrays['strip_costs'], arrays['strip_costs']
    # Parallel loops take tuples of numbers, not of tuples.
    terms = tuple(itertools.chain(*layout.terms(config, width)))
    _fill(terms, arrays['left_features'], arrays['right_features'], width,
          x, y, level, config.min_disparity, config.outside_cost, cost, strips,
          arrays.get('path_down', unused), step, jump, config.path_sums)
    if config.path_sums:
        _sum_paths(level, cost, strips, arrays['path_down'], arrays['path_up'],
                   arrays['path_across'], arrays['path_total'], step, jump)


@parallel_kernel
def _fill(terms: Any, left: Any, right: Any, image_width: int, first_x: int, first_y: int,
          level: Level, min_disparity: int, outside: int, cost: Any, strips: Any, down: Any,
          step: Any, jump: Any, has_paths: bool) -> None:
    """Costs, and with ``has_paths`` the paths down; without them the finished tiles."""
    parts, _, label_bytes = strips.shape
    left_bytes, right_bytes = left.shape[1], right.shape[1]
    for index in numba.prange(parts):
        part = np.int64(index)
        top, bottom, begin, end = 0, level.height, 0, level.tiles
        if has_paths:
            begin, end = part * end // parts, (part + 1) * end // parts
        else:
            top, bottom = part * bottom // parts, (part + 1) * bottom // parts
        for tile in range(begin, end):
            for y in range(top, bottom):
                for odd in range(2):
                    place = tile_of(level, y, tile, odd)
                    costs, start = address(strips[part]), odd * SQUARE * label_bytes
                    if has_paths:
                        costs, start = address(cost), place
                    _strip_row(terms, address(left), (first_y + y) * left_bytes, address(right),
                               (first_y + y) * right_bytes, image_width, first_x, level, y, tile,
                               odd, min_disparity, outside, costs, start, label_bytes,
                               address(down), step, jump, has_paths)
                    if not has_paths:
                        fill_tile(costs, start, label_bytes, address(cost), place)


@kernel
def _strip_row(terms: Any, left: Any, left_row: int, right: Any, right_row: int,
               image_width: int, first_x: int, level: Level, y: int, tile: int, odd: int,
               min_disparity: int, outside: int, costs: Any, start: int, label_bytes: int,
               down: Any, step: Any, jump: Any, has_paths: bool) -> None:
    """The pixels of one tile."""
    row = 2 * level.tiles * SQUARE * label_bytes
    for lane in range(SQUARE):
        x, place = 2 * (tile * SQUARE + lane) + odd, start + lane * label_bytes
        if x >= level.width:
            clear_pixel(label_bytes, costs, place)
            continue
        costs_of_pixel(terms, left, left_row, right, right_row, image_width, first_x + x,
                       level.labels, label_bytes, min_disparity, outside, costs, place)
    if not has_paths:
        return
    for lane in range(SQUARE):
        x, place = 2 * (tile * SQUARE + lane) + odd, start + lane * label_bytes
        target = y * row + x * label_bytes
        if x >= level.width:
            continue
        if y == 0:
            begin_path(costs, place, down, target, label_bytes)
        else:
            extend_path(down, target - row, costs, place, down, target, label_bytes, step, jump)


@parallel_kernel
def _sum_paths(level: Level, cost: Any, strips: Any, down: Any, up: Any, across: Any, totals: Any,
               step: Any, jump: Any) -> None:
    """Paths to both sides, paths up and the finished tiles, from the last row to the first."""
    parts, _, label_bytes = strips.shape
    count = across.shape[0]
    for block in range((level.height + count - 1) // count):
        bottom = level.height - block * count
        top = max(0, bottom - count)
        for phase in range(2):
            for index in numba.prange(parts):
                part = np.int64(index)
                if phase == ACROSS:
                    for y in range(top + part * (bottom - top) // parts,
                                   top + (part + 1) * (bottom - top) // parts):
                        _paths_across(level, y, address(cost), label_bytes,
                                      address(across[y - top]), step, jump)
                    continue
                for tile in range(part * level.tiles // parts, (part + 1) * level.tiles // parts):
                    for back in range(bottom - top):
                        y = bottom - 1 - back
                        _finish_tiles(level, y, tile, address(cost), address(strips[part]),
                                      address(down), address(up), address(across[y - top]),
                                      address(totals[part]), label_bytes, step, jump)


@kernel
def _paths_across(level: Level, y: int, cost: Any, label_bytes: int, across: Any, step: Any,
                  jump: Any) -> None:
    """The paths to the right and to the left of one row."""
    to_left = 2 * level.tiles * SQUARE * label_bytes
    for i in range(level.width):
        # Side by side: neither has to wait for the other.
        for backwards in range(2):
            x = level.width - 1 - i if backwards else i
            place = tile_of(level, y, x // 2 // SQUARE, x % 2) + x // 2 % SQUARE * label_bytes
            target = x * label_bytes + backwards * to_left
            if i == 0:
                begin_path(cost, place, across, target, label_bytes)
            else:
                source = target + label_bytes if backwards else target - label_bytes
                extend_path(across, source, cost, place, across, target, label_bytes, step, jump)


@kernel
def _finish_tiles(level: Level, y: int, tile: int, cost: Any, pixels: Any, down: Any, up: Any,
                  across: Any, total: Any, label_bytes: int, step: Any, jump: Any) -> None:
    """The paths up of one strip's row, the sums, and the tiles in place of their costs."""
    row = 2 * level.tiles * SQUARE * label_bytes
    for odd in range(2):
        start = tile_of(level, y, tile, odd)
        for lane in range(SQUARE):
            x, result = 2 * (tile * SQUARE + lane) + odd, lane * label_bytes
            if x >= level.width:
                clear_pixel(label_bytes, pixels, result)
                continue
            column, place = x * label_bytes, start + lane * label_bytes
            own, before = y % 2 * row + column, (y + 1) % 2 * row + column
            if y == level.height - 1:
                begin_path(cost, place, up, own, label_bytes)
            else:
                extend_path(up, before, cost, place, up, own, label_bytes, step, jump)
            settle_pixel(across, column, row + column, down, y * row + column, up, own, total,
                         label_bytes, pixels, result)
        fill_tile(pixels, 0, label_bytes, cost, start)
