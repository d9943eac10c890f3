"""Message passing and labels of a band search, row by row, on two pixels at once.

A message is its truncation less its value, see ``BandLevel``. Costs have 0 at one label of each
pixel at least, so a sum that 8 bits cut can win nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines.cpu.band.costs import none
from stereo_bp_ros.engines.cpu.band.layout import FIRST, PIXEL, BandLevel
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
from stereo_bp_ros.engines.cpu.hierarchical.labels import clear_row
from stereo_bp_ros.engines.cpu.memory import DOWN, LEFT, RIGHT, UP
from stereo_bp_ros.engines.cpu.simd.groups import (
    first_window,
    least_of_pixels,
    load_pixels,
    numbers_of_windows,
    spread_bytes,
    store_pixels,
    windows_swapped,
)
from stereo_bp_ros.engines.cpu.simd.runtime import by_types, kernel
from stereo_bp_ros.engines.cpu.simd.vectors import (
    address,
    halves,
    least_lane,
    load,
    maximum,
    minimum,
    saturating_difference,
    saturating_sum,
    splat,
    store,
    where_less,
)

#: Above every belief of a label.
_UNSEARCHED = 0xff00


@kernel
def start_row(messages: Any, level: BandLevel, slot: int) -> None:
    """Nothing is sent at the start."""
    row = 4 * PIXEL * level.width
    for place in range(slot * row, (slot + 1) * row):
        messages[place] = 0


@kernel
def _message(windows: Any, slot: int, x: int, direction: int) -> int:
    """Where a message lies."""
    return PIXEL * (4 * (slot * windows.width + x) + direction)


@kernel
def _truncations(windows: Any, x: int, y: int) -> int:
    """Where the truncations of the four messages of a pixel lie."""
    return 4 * ((2 * y + (x + y) % 2) * ((windows.width + 1) // 2) + x // 2)


@kernel
def _arriving(messages: Any, slots: tuple[int, int, int], windows: Any, x: int, beside: int,
              y: int, truncations: Any) -> Any:
    """The values of the messages that two pixels get: from above, below, the left and the right.

    A neighbour that has sent none leaves its truncation at all labels.
    """
    above, own, below = slots
    shifts = windows.shifts
    bounds, next_bounds = _truncations(windows, x, y), _truncations(windows, beside, y)
    up = from_previous(load_pixels(messages, _message(windows, above, x, DOWN),
                                   _message(windows, above, beside, DOWN)), shifts,
                       shifts_at(windows, x, y - 1, BELOW),
                       shifts_at(windows, beside, y - 1, BELOW))
    down = from_next(load_pixels(messages, _message(windows, below, x, UP),
                                 _message(windows, below, beside, UP)), shifts,
                     shifts_at(windows, x, y, BELOW), shifts_at(windows, beside, y, BELOW))
    left = from_previous(load_pixels(messages, _message(windows, own, x - 1, RIGHT),
                                     _message(windows, own, beside - 1, RIGHT)), shifts,
                         shifts_at(windows, x - 1, y, RIGHT_OF),
                         shifts_at(windows, beside - 1, y, RIGHT_OF))
    right = from_next(load_pixels(messages, _message(windows, own, x + 1, LEFT),
                                  _message(windows, own, beside + 1, LEFT)), shifts,
                      shifts_at(windows, x, y, RIGHT_OF), shifts_at(windows, beside, y, RIGHT_OF))
    return (spread_bytes(truncations, bounds + UP, next_bounds + UP) - up,
            spread_bytes(truncations, bounds + DOWN, next_bounds + DOWN) - down,
            spread_bytes(truncations, bounds + LEFT, next_bounds + LEFT) - left,
            spread_bytes(truncations, bounds + RIGHT, next_bounds + RIGHT) - right)


@kernel
def update_row(cost: Any, messages: Any, y: int, slots: tuple[int, int, int], iteration: int,
               level: BandLevel, slope: Any, first_step: Any, truncations: Any) -> None:
    """See ``hierarchical.rows``."""
    windows, own, colour = windows_of(level), slots[1], (iteration + 1) % 2
    for x in range(1 if (1 + y) % 2 == colour else 2, windows.width - 1, 4):
        beside = x + 2 if x + 2 < windows.width - 1 else x
        above, below, left, right = _arriving(messages, slots, windows, x, beside, y, truncations)
        row = y * windows.width
        data = load_pixels(cost, PIXEL * (row + x), PIXEL * (row + beside))
        across = saturating_sum(data, left + right)
        down = saturating_sum(data, above + below)
        bounds, next_bounds = _truncations(windows, x, y), _truncations(windows, beside, y)
        place, beside_place = _message(windows, own, x, 0), _message(windows, own, beside, 0)
        for direction, sums in ((UP, saturating_sum(across, below)),
                                (DOWN, saturating_sum(across, above)),
                                (LEFT, saturating_sum(down, right)),
                                (RIGHT, saturating_sum(down, left))):
            most = spread_bytes(truncations, bounds + direction, next_bounds + direction)
            store_pixels(messages, place + PIXEL * direction, beside_place + PIXEL * direction,
                         _sent(sums, most, slope, first_step))


@kernel
def _sent(sums: Any, truncation: Any, slope: Any, first_step: Any) -> Any:
    """Messages from the sums of costs and what arrives.

    A label ``BAND_REACH`` + 1 away costs the truncation.
    """
    own = saturating_difference(least_of_pixels(sums) + truncation, sums)
    one = saturating_difference(own, splat(_nearest(slope, first_step)))
    two = saturating_difference(one, splat(slope))
    three = saturating_difference(two, splat(slope))
    sent = maximum(own, maximum(moved(one, 1), moved(one, -1)))
    sent = maximum(sent, maximum(moved(two, 2), moved(two, -2)))
    return maximum(sent, maximum(moved(three, 3), moved(three, -3)))


@by_types
def _nearest(slope: Any, first_step: Any) -> Any:
    """What a step of one label costs."""
    if getattr(first_step, 'bitwidth', None) is None:
        return lambda slope, first_step: slope
    return lambda slope, first_step: first_step


@kernel
def select_row(cost: Any, messages: Any, y: int, slots: tuple[int, int, int], level: BandLevel,
               found: Any, truncations: Any, part: int) -> None:
    """See ``hierarchical.rows``."""
    if y < found.top or y >= found.bottom:
        return
    clear_row(found, y)
    first, end = max(1, found.left), min(level.width - 1, found.right_end)
    windows, row = windows_of(level), y * level.width
    unsearched = halves(none(windows.radius))[0] << splat(np.uint16(8))
    offers, offers_width = address(found.right[part]), found.right.shape[2]
    found.right[part, 0] = found.huge
    for x in range(first, end, 2):
        beside = min(x + 1, end - 1)
        above, below, left, right = _arriving(messages, slots, windows, x, beside, y, truncations)
        data, next_data = halves(load_pixels(cost, PIXEL * (row + x), PIXEL * (row + beside)))
        rest, next_rest = halves((above + below) + (left + right))
        for pixel, sums in ((x, data + rest), (beside, next_data + next_rest)):
            column, line = pixel + found.x, y + found.y
            beliefs = maximum(sums, unsearched)
            label, least, second = _select(beliefs, windows, pixel, y, found.with_costs)
            found.label[line, column] = label
            if found.with_costs:
                found.best[line, column] = least
                found.second[line, column] = second
            if found.with_right:
                _offer_both(beliefs, windows, pixel, y,
                            _offers_at(found.label.shape[1], column), offers, offers_width)
    if found.with_right:
        _take_offers(offers, y + found.y, found)


@kernel
def _numbers(windows: Any, x: int, y: int) -> Any:
    """The labels of both windows of a pixel, uint16."""
    return numbers_of_windows(centre(windows, x, y, 0), centre(windows, x, y, 1),
                              windows.radius + FIRST)


@kernel
def _select(beliefs: Any, windows: Any, x: int, y: int, with_second: bool) -> Any:
    """The label of minimum belief of a pixel, its belief, and that of the second one.

    :param beliefs: uint16, of both windows.
    """
    numbers, huge = _numbers(windows, x, y), splat(np.uint16(0xffff))
    least = least_lane(beliefs)
    label = least_lane(where_less(splat(least), beliefs, huge, numbers))
    second = np.int64(NO_SECOND)
    if with_second:
        # label - 1 <= number <= label + 1 is one comparison of numbers that wrap.
        distance = numbers - splat(np.uint16(label - 1))
        other = least_lane(where_less(splat(np.uint16(2)), distance, beliefs, huge))
        second = np.int64(other) if other < _UNSEARCHED else second
    return label, least, second


@kernel
def _offer_both(beliefs: Any, windows: Any, x: int, y: int, place: int, offers: Any, width: int
                ) -> None:
    """What a pixel offers to the other image's.

    These lie from right to left, so that labels lie side by side.
    """
    numbers, huge = _numbers(windows, x, y), splat(np.uint16(0xffff))
    start = place - windows.radius - FIRST
    _offer(offers, start + centre(windows, x, y, 0), width, first_window(beliefs, huge), numbers)
    _offer(offers, start + centre(windows, x, y, 1), width,
           first_window(windows_swapped(beliefs), huge), windows_swapped(numbers))


@kernel
def _offer(offers: Any, place: int, width: int, beliefs: Any, numbers: Any) -> None:
    """A pixel further right offers a higher label to the same pixel, which the lower one keeps."""
    least = load(offers, place)
    store(offers, width + place, where_less(beliefs, least, numbers, load(offers, width + place)))
    store(offers, place, minimum(beliefs, least))


@kernel
def _offers_at(image_width: int, x: int) -> int:
    """Where the offers for the partner of label 0 of a pixel of the image lie."""
    return PIXEL + image_width - 1 - x


@kernel
def _take_offers(offers: Any, y: int, found: Any) -> None:
    """The labels of a row of the other image, where partitions to the left had no better ones."""
    is_shared, count = found.right_least.shape[0] > 0, found.right.shape[2]
    for x in range(found.label.shape[1]):
        place = _offers_at(found.label.shape[1], x + found.min_disparity)
        if place < 0 or place >= count:
            continue
        belief = offers[place]
        if belief < _UNSEARCHED and not (is_shared and belief >= found.right_least[y, x]):
            found.right_label[y, x] = offers[count + place]
            if is_shared:
                found.right_least[y, x] = belief
