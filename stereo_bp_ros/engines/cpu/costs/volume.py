"""The data cost of level 0: combined costs, with or without path sums.

The costs themselves are ``data_cost``, [y][x][label], of which fractions are taken, too. Results
lie as ``memory.Level`` says.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numba
import numpy as np

from stereo_bp_ros.config import ResolvedConfig
from stereo_bp_ros.engines.cpu.costs import layout
from stereo_bp_ros.engines.cpu.costs.combined import clear_pixel, costs_of_pixel, fill_tiles
from stereo_bp_ros.engines.cpu.costs.paths import begin_path, extend_path, settle_pixel
from stereo_bp_ros.engines.cpu.memory import Level
from stereo_bp_ros.engines.cpu.simd.bytes import SQUARE
from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel
from stereo_bp_ros.engines.cpu.simd.vectors import address

#: What is done for some rows one after the other, each on all threads at once.
ACROSS, UP = range(2)

#: Pixels of a row that two tiles have, one of each colour.
STRIP = 2 * SQUARE


def fill(config: ResolvedConfig, width: int, x: int, y: int, level: Level, cost: Any,
         arrays: Mapping[str, np.ndarray[Any, Any]], threads: int) -> None:
    """Data costs 0..255 of an image or of a part of it.

    Costs see the whole images, paths the part.

    :param width: of the images, pixels.
    :param x, y: the pixel of the left image where the level begins.
    :param cost: uint8, 1-D, filled.
    :param arrays: features, and those of ``layout.cost_arrays``.
    """
    step, jump = np.uint8(config.path_step_penalty), np.uint8(config.path_jump_penalty)
    volume = arrays['data_cost']
    # Parallel loops take tuples of numbers, not of tuples.
    terms = tuple(itertools.chain(*layout.terms(config, width)))
    _fill(terms, arrays['left_features'], arrays['right_features'], width, x, y, level,
          config.min_disparity, config.outside_cost, volume, cost,
          arrays.get('path_down', volume), step, jump, config.path_sums, threads)
    if config.path_sums:
        _sum_paths(level, volume, cost, arrays['path_down'], arrays['path_up'],
                   arrays['path_across'], arrays['path_total'], step, jump)


@parallel_kernel
def _fill(terms: Any, left: Any, right: Any, image_width: int, first_x: int, first_y: int,
          level: Level, min_disparity: int, outside: int, volume: Any, cost: Any, down: Any,
          step: Any, jump: Any, has_paths: bool, parts: int) -> None:
    """Costs, and with ``has_paths`` the paths down; without them the finished tiles."""
    label_bytes = volume.shape[2]
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
                _fill_strip(terms, address(left), (first_y + y) * left_bytes, address(right),
                            (first_y + y) * right_bytes, image_width, first_x, level, y, tile,
                            min_disparity, outside, address(volume), label_bytes)
                if has_paths:
                    _paths_down(level, y, tile, address(volume), label_bytes, address(down), step,
                                jump)
                else:
                    fill_tiles(address(volume), y * 2 * level.tiles * SQUARE * label_bytes,
                               label_bytes, level, y, tile, address(cost))


@kernel
def _fill_strip(terms: Any, left: Any, left_row: int, right: Any, right_row: int,
                image_width: int, first_x: int, level: Level, y: int, tile: int,
                min_disparity: int, outside: int, volume: Any, label_bytes: int) -> None:
    """The costs of the pixels of one tile of each colour."""
    for x in range(tile * STRIP, (tile + 1) * STRIP):
        place = (y * level.tiles * STRIP + x) * label_bytes
        if x < level.width:
            costs_of_pixel(terms, left, left_row, right, right_row, image_width, first_x + x,
                           level.labels, label_bytes, min_disparity, outside, volume, place)
        else:
            clear_pixel(label_bytes, volume, place)


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


@parallel_kernel
def _sum_paths(level: Level, volume: Any, cost: Any, down: Any, up: Any, across: Any,
               totals: Any, step: Any, jump: Any) -> None:
    """Paths to both sides, paths up and the finished tiles, from the last row to the first."""
    parts, label_bytes = totals.shape
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
                        _paths_across(level, y, address(volume), label_bytes,
                                      address(across[y - top]), step, jump)
                    continue
                for tile in range(part * level.tiles // parts, (part + 1) * level.tiles // parts):
                    for back in range(bottom - top):
                        y = bottom - 1 - back
                        _finish_strip(level, y, tile, address(volume), address(cost),
                                      address(down), address(up), address(across[y - top]),
                                      address(totals[part]), label_bytes, step, jump)


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
            clear_pixel(label_bytes, across, column)
            continue
        place = y * row + column
        own, before = y % 2 * row + column, (y + 1) % 2 * row + column
        if y == level.height - 1:
            begin_path(volume, place, up, own, label_bytes)
        else:
            extend_path(up, before, volume, place, up, own, label_bytes, step, jump)
        settle_pixel(across, column, row + column, down, place, up, own, total, label_bytes)
    fill_tiles(across, 0, label_bytes, level, y, tile, cost)
