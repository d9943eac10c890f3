"""The data cost of a band search: features of each pixel's labels, and path aggregation.

Both are as in ``costs.volume`` and ``costs.paths``. A path is in the terms of ``from_next``: how
much less than a jump to it a label costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cpu.band.layout import FIRST, PIXEL, WINDOW, BandLevel
from stereo_bp_ros.engines.cpu.band.shifted import (
    BELOW,
    RIGHT_OF,
    centre,
    from_next,
    from_previous,
    moved,
    shifts_at,
    windows_of,
)
from stereo_bp_ros.engines.cpu.costs import layout
from stereo_bp_ros.engines.cpu.costs.volume import added_costs, two_lines
from stereo_bp_ros.engines.cpu.memory import DOWN, LEFT, RIGHT, UP
from stereo_bp_ros.engines.cpu.plan import Plan
from stereo_bp_ros.engines.cpu.simd.groups import (
    lane_numbers,
    least_of_pixels,
    load_four,
    load_pixels,
    store_pixels,
)
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import (
    address,
    halves,
    joined,
    least_lane,
    maximum,
    saturating_difference,
    saturating_sum,
    splat,
    where_less,
)

#: Pixels of a row that a thread goes down, or up, at once.
STRIP = 32


def fill(plan: Plan, config: ResolvedConfig, level: BandLevel,
         arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Fill ``data_cost`` and, with the paths added up, ``cost_0`` of a partition.

    Costs see the whole images, paths the partition.
    """
    step, jump = np.uint8(config.path_step_penalty), np.uint8(config.path_jump_penalty)
    _fill(_strips(level), layout.terms(config, plan.width), arrays['left_features'],
          arrays['right_features'], level, config.min_disparity, config.outside_cost,
          arrays['data_cost'], arrays['cost_0'], step, jump)
    _sum_paths(level, arrays['data_cost'], arrays['cost_0'], arrays['path_up'],
               arrays['path_across'], step, jump)


@kernel
def leave_border_out(truncations: Any, width: int) -> None:
    """Make the messages worth 0 that pixels on the border would send, but do not.

    :param truncations: ``truncations_0``.
    """
    height = truncations.shape[0]
    for x in range(1, width - 1):
        for y, direction in ((1, UP), (height - 2, DOWN)):
            if 0 < y < height - 1:
                truncations[y, (x + y) % 2, x // 2, direction] = 0
    for y in range(1, height - 1):
        for x, direction in ((1, LEFT), (width - 2, RIGHT)):
            if 0 < x < width - 1:
                truncations[y, (x + y) % 2, x // 2, direction] = 0


@kernel
def none(radius: int) -> Any:
    """255 in the lanes without a label, else 0."""
    zero = splat(np.uint8(0))
    return where_less(lane_numbers() - splat(np.uint8(FIRST)),
                      splat(np.uint8(2 * radius + 1)), zero, splat(np.uint8(255)))


@kernel
def _extended(before: Any, cost: Any, from_the_next: bool, shifts: Any, first: int, second: int,
              unsearched: Any, step: Any, jump: Any) -> Any:
    """The paths of two pixels from those of the ones before them.

    :param unsearched: ``none``. A sum that 8 bits have cut is not as far as these.
    :param shifts, first, second: as for ``from_next``, if so, or for ``from_previous``.
    """
    further = maximum(before - least_of_pixels(before), unsearched)
    gain = saturating_difference(splat(jump), further)
    beside = saturating_difference(gain, splat(step))
    gain = maximum(gain, maximum(moved(beside, 1), moved(beside, -1)))
    if from_the_next:
        reached = from_next(gain, shifts, first, second)
    else:
        reached = from_previous(gain, shifts, first, second)
    return saturating_sum(cost, splat(jump) - reached)


@parallel_kernel
def _fill(strip: int, terms: Any, left: Any, right: Any, level: BandLevel, min_disparity: int,
          outside: int, volume: Any, down: Any, step: Any, jump: Any) -> None:
    """Costs, and the paths down."""
    width = level.width
    row = PIXEL * width
    left_bytes, right_bytes = left.shape[1], right.shape[1]
    windows = windows_of(level)
    own, other, costs, paths = address(left), address(right), address(volume), address(down)
    begin, unsearched = strip * STRIP, none(level.radius)
    for y in range(level.height):
        for x in range(begin, min(begin + STRIP, width), 2):
            beside = min(x + 1, width - 1)
            first, second = y * row + PIXEL * x, y * row + PIXEL * beside
            cost = _costs_of_pair(terms, own, (windows.y + y) * left_bytes, other,
                                  (windows.y + y) * right_bytes, windows, x, beside, y)
            store_pixels(costs, first, second, cost)
            is_whole = (_has_partners(windows, x, y, min_disparity)
                        and _has_partners(windows, beside, y, min_disparity))
            if not is_whole:
                _costs_outside(windows, x, y, min_disparity, outside, costs, first)
                _costs_outside(windows, beside, y, min_disparity, outside, costs, second)
                cost = load_pixels(costs, first, second)
            if y > 0:
                cost = _extended(load_pixels(paths, first - row, second - row), cost, False,
                                 windows.shifts, shifts_at(windows, x, y - 1, BELOW),
                                 shifts_at(windows, beside, y - 1, BELOW),
                                 unsearched, step, jump)
            store_pixels(paths, first, second, cost)


@kernel
def _costs_of_pair(terms: Any, left: Any, left_row: int, right: Any, right_row: int,
                   windows: Any, x: int, beside: int, y: int) -> Any:
    """Of the pixels ``x`` and ``beside`` of a row of a partition."""
    # The pixel that label 0 of the image's last one meets is the first.
    own, other = windows.x + x, windows.x + beside
    start = windows.image_width - 1 - own - windows.radius - FIRST
    next_start = windows.image_width - 1 - other - windows.radius - FIRST
    places = (start + centre(windows, x, y, 0), start + centre(windows, x, y, 1),
              next_start + centre(windows, beside, y, 0),
              next_start + centre(windows, beside, y, 1))
    total = added_costs(terms, splat(np.uint8(0)), left, left_row, right, right_row, (own, other),
                        places)
    return maximum(total, none(windows.radius))


@kernel
def _has_partners(windows: Any, x: int, y: int, min_disparity: int) -> bool:
    """Whether all labels of a pixel meet one of the other image."""
    first, second = centre(windows, x, y, 0), centre(windows, x, y, 1)
    nearest = windows.x + x - min_disparity - max(first, second) - windows.radius
    furthest = windows.x + x - min_disparity - min(first, second) + windows.radius
    return nearest >= 0 and furthest < windows.image_width


@kernel
def _costs_outside(windows: Any, x: int, y: int, min_disparity: int, outside: int, costs: Any,
                   place: int) -> None:
    """Give the labels of one pixel that have no partner in the other image their cost."""
    for window in range(2):
        partner = windows.x + x - min_disparity - centre(windows, x, y, window) + windows.radius
        for i in range(2 * windows.radius + 1):
            if partner - i < 0 or partner - i >= windows.image_width:
                costs[place + window * WINDOW + FIRST + i] = np.uint8(outside)


def _sum_paths(level: BandLevel, volume: Any, down: Any, up: Any, across: Any, step: Any,
               jump: Any) -> None:
    """Paths to both sides and up, and the sums in place of the paths down, last row first."""
    count = len(across)
    for bottom in range(level.height, 0, -count):
        top = max(0, bottom - count)
        _sum_across((bottom - top + 1) // 2, level, top, bottom, volume, across, step, jump)
        _finish_strip(_strips(level), level, top, bottom, volume, down, up, across, step, jump)


def _strips(level: BandLevel) -> int:
    return (level.width + STRIP - 1) // STRIP


@parallel_kernel
def _sum_across(pair: int, level: BandLevel, top: int, bottom: int, volume: Any, across: Any,
                step: Any, jump: Any) -> None:
    y = top + 2 * pair
    _paths_across(windows_of(level), y, min(y + 1, bottom - 1), top, address(volume),
                  address(across), step, jump)


@parallel_kernel
def _finish_strip(strip: int, level: BandLevel, top: int, bottom: int, volume: Any, down: Any,
                  up: Any, across: Any, step: Any, jump: Any) -> None:
    windows = windows_of(level)
    for back in range(bottom - top):
        y = bottom - 1 - back
        _finish_row(windows, y, strip * STRIP, min((strip + 1) * STRIP, level.width),
                    address(volume), address(down), address(up), address(across),
                    2 * PIXEL * level.width * (y - top), step, jump)


@kernel
def _paths_across(windows: Any, y: int, beside: int, top: int, volume: Any, across: Any,
                  step: Any, jump: Any) -> None:
    """The paths to the right and to the left of two rows."""
    row = PIXEL * windows.width
    last, own, other = row - PIXEL, y * row, beside * row
    out, next_out = 2 * row * (y - top), 2 * row * (beside - top)
    unsearched = none(windows.radius)
    # Side by side: neither has to wait for the other.
    right = load_pixels(volume, own, other)
    left = load_pixels(volume, own + last, other + last)
    for x in range(windows.width):
        column, back = PIXEL * x, last - PIXEL * x
        if x > 0:
            behind = windows.width - 1 - x
            right = _extended(right, load_pixels(volume, own + column, other + column), False,
                              windows.shifts, shifts_at(windows, x - 1, y, RIGHT_OF),
                              shifts_at(windows, x - 1, beside, RIGHT_OF), unsearched, step, jump)
            left = _extended(left, load_pixels(volume, own + back, other + back), True,
                             windows.shifts, shifts_at(windows, behind, y, RIGHT_OF),
                             shifts_at(windows, behind, beside, RIGHT_OF), unsearched, step, jump)
        store_pixels(across, out + column, next_out + column, right)
        store_pixels(across, out + row + back, next_out + row + back, left)


@kernel
def _finish_row(windows: Any, y: int, begin: int, end: int, volume: Any, down: Any, up: Any,
                across: Any, across_row: int, step: Any, jump: Any) -> None:
    """The paths up of one strip's row, and a quarter of the sums, less their least, half up."""
    row = PIXEL * windows.width
    own, before = y % 2 * row, (y + 1) % 2 * row
    unsearched = none(windows.radius)
    for x in range(begin, end, 2):
        other = min(x + 1, windows.width - 1)
        column, beside = PIXEL * x, PIXEL * other
        path = load_pixels(volume, y * row + column, y * row + beside)
        if y < windows.height - 1:
            path = _extended(load_pixels(up, before + column, before + beside), path, True,
                             windows.shifts, shifts_at(windows, x, y, BELOW),
                             shifts_at(windows, other, y, BELOW), unsearched, step, jump)
        store_pixels(up, own + column, own + beside, path)
        a, b = halves(path)
        c, d = halves(load_pixels(down, y * row + column, y * row + beside))
        e, f = halves(load_pixels(across, across_row + column, across_row + beside))
        g, h = halves(load_pixels(across, across_row + row + column, across_row + row + beside))
        total = joined(_quarter((a + c) + (e + g)), _quarter((b + d) + (f + h)))
        store_pixels(down, y * row + column, y * row + beside, maximum(total, unsearched))


@kernel
def _quarter(sums: Any) -> Any:
    """Of one pixel, at most 255."""
    return (sums - (splat(least_lane(sums)) - splat(np.uint16(2)))) >> splat(np.uint16(2))


@parallel_kernel
def fill_fractions(index: int, data_cost: Any, level: BandLevel, left: int, top: int, right: int,
                   label: Any, fraction: Any) -> None:
    """As ``volume.fill_fractions``, over those of 3 x 3 pixels that have all three labels.

    They count where one of their windows holds all three. A label that is the first or last one
    of the pixel's own window has no fraction.

    :param index: row of what the partition keeps, from ``top`` on, its columns from ``left`` to
        ``right``.
    """
    count, first = right - left, left - level.x
    y = top + index
    labels, out = label[y, left:right], fraction[y, left:right]
    own, beside = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
    lanes, found = np.empty(count, np.int16), np.empty(count, np.uint32)
    # The pixel's own row and column come last, whose ``lanes`` are needed.
    for near in (-1, 1, 0):
        row = min(max(y - level.y + near, 0), level.height - 1)
        firsts, seconds = (level.centres[0, level.y + row, level.x:],
                           level.centres[1, level.y + row, level.x:])
        place = PIXEL * row * level.width
        for to_right in (-1, 1, 0):
            # Columns are replicated beyond the partition: those of one pixel at most.
            begin = 1 if first + to_right < 0 else 0
            end = count - 1 if first + count + to_right > level.width else count
            for start, stop, column in ((begin, end, first + to_right + begin),
                                        (0, begin, 0), (end, count, level.width - 1)):
                if start < stop:
                    _add_costs(address(data_cost), firsts[column:], seconds[column:],
                               level.radius, place + PIXEL * column, labels[start:stop],
                               own[start:], beside[start:], lanes[start:],
                               found[start:])
    for x in range(count):
        value = two_lines(np.int32(beside[x] & np.uint32(0xffff)), np.int32(own[x]),
                          np.int32(beside[x] >> np.uint32(16)))
        out[x] = np.int8(value) if lanes[x] >= FIRST else np.int8(0)


@kernel
def _add_costs(costs: Any, firsts: Any, seconds: Any, radius: int, place: int, labels: Any,
               own: Any, beside: Any, lanes: Any, found: Any) -> None:
    """Add costs of one neighbour of each pixel, where it has the three labels.

    In three loops, of which the first and the last become vectors.

    :param firsts, seconds: centres of the neighbours, whose costs begin at ``place``.
    :param own, beside: uint32, of the label; of the one before, and 65536 of that after.
    :param lanes: int16, filled: of the labels, below ``FIRST`` = none; found: uint32, scratch.
    """
    inside, start = np.int16(2 * radius - 1), np.int16(radius)
    for x in range(labels.shape[0]):
        first = np.int16(np.int16(labels[x] - firsts[x]) + start)
        second = np.int16(np.int16(labels[x] - seconds[x]) + start)
        lane = np.int16(1)
        lane = np.int16(second + np.int16(WINDOW + FIRST)) if (
            (second > 0) & (second <= inside)) else lane
        lanes[x] = np.int16(first + np.int16(FIRST)) if (
            (first > 0) & (first <= inside)) else lane
    for x in range(labels.shape[0]):
        found[x] = load_four(costs, place + PIXEL * x + np.int64(lanes[x]) - 1)
    for x in range(labels.shape[0]):
        value = found[x] if lanes[x] >= FIRST else np.uint32(0)
        own[x] += value >> np.uint32(8) & np.uint32(0xff)
        beside[x] += value & np.uint32(0xff00ff)
