"""Stage ``cost`` of SAD block matching: sliding column sums, all disparities of a pixel at once.

Pudpai, Kim & Liu's data streaming carried to a CPU's vectors. For one row of windows, the
column sums of every (x, d) are kept; going down a row adds one absolute difference to each and
takes one away. Going right, the window's sum gains a column and loses one. Both are sums of
vectors over d, so the time does not depend on the window's size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines.cpu.memory import Matches
from stereo_bp_ros.engines.cpu.scratch import SAD_PIXELS
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import (
    address,
    lanes,
    least_lane,
    load,
    maximum,
    minimum,
    splat,
    spread,
    store,
    where_lane,
    where_less,
)

# A key is a SAD (at most 51 * 51 * 255 < 2^23) above a label (at most 511 < 2^9): the minimum key
# is the minimum SAD, and of equal ones the lowest label.
_LABEL_BITS = 9
_LABEL_MASK = np.uint32(2**_LABEL_BITS - 1)
_SHIFT = np.uint32(_LABEL_BITS)
_NO_KEY = np.uint32(2**32 - 1)
_THREE = np.uint32(3)


class Search(NamedTuple):
    """What is compared: windows in the columns from ``x_begin`` on, with ``labels`` disparities.

    Disparities run backwards, so that position j of a pixel's vectors belongs to label
    ``labels`` - 1 - j and to pixel ``right_begin`` + j of the right image.

    stride: values from one pixel's disparities to the next one's.
    """

    window: int
    labels: int
    x_begin: int
    columns: int
    right_begin: int
    stride: int


class Scratch(NamedTuple):
    """The arrays of ``scratch.sad``; their first dimension is that of the bands of rows."""

    rows: np.ndarray[Any, Any]
    column_sums: np.ndarray[Any, Any]
    window_columns: np.ndarray[Any, Any]
    keys: np.ndarray[Any, Any]
    least: np.ndarray[Any, Any]
    right_keys: np.ndarray[Any, Any]


def match(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], config: ResolvedConfig,
          out: Matches, scratch: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Match every pixel of the left image by the minimum sum of absolute differences.

    Pixel (x, y) of ``left`` is compared with (x - d, y) of ``right``. For the right image as
    reference, pass both mirrored and swapped. Integers throughout: the result does not depend on
    the number of threads.

    :param left, right: uint8 H x W.
    :param out: filled. There is no label where window or range leaves the image, that is outside
        ``geometry.valid_window`` of the left reference. The fraction leads to where two lines of
        one slope through the minimum SAD and its two neighbours meet, rounded half up. The right
        image's pixels are compared with labelled pixels of the left one.
    :param scratch: the arrays of ``scratch.sad``, one for each band of rows.
    """
    first, labels = config.min_disparity, config.disparity_range
    window = config.correlation_window_size
    x_begin = max(0, first + labels - 1)
    arrays = Scratch(*(scratch[f'sad_{name}'] for name in Scratch._fields))
    _match(len(arrays.column_sums), left, right, Search(
        window, labels, x_begin, left.shape[1] + min(0, first) - x_begin,
        x_begin - first - labels + 1, arrays.window_columns.shape[1] // window), out, arrays)


@parallel_kernel
def _match(band: int, left: Any, right: Any, search: Any, out: Any, scratch: Any) -> None:
    height = left.shape[0]
    top, bottom = search.window // 2, height - search.window // 2
    bands = scratch.column_sums.shape[0]
    if search.columns < search.window or bottom <= top:
        bottom = top = 0
    for y in range(height if band == 0 else 0):
        if y < top or y >= bottom:
            _clear_row(y, out)
    y_begin = top + (bottom - top) * band // bands
    y_end = top + (bottom - top) * (band + 1) // bands
    if y_begin < y_end:
        _match_band(left, right, search, y_begin, y_end, out, scratch.rows[band],
                    scratch.column_sums[band], scratch.window_columns[band],
                    scratch.keys[band], scratch.least[band], scratch.right_keys[band])


@kernel
def _clear_row(y: int, out: Any) -> None:
    out.label[y, :] = -1
    out.fraction[y, :] = 0
    if out.with_costs:
        out.best[y, :] = 0
        out.second[y, :] = 0
    if out.with_right:
        out.right_label[y, :] = -1


@kernel
def _match_band(left: Any, right: Any, search: Any, y_begin: int, y_end: int, out: Any, rows: Any,
                column_sums: Any, window_columns: Any, keys: Any, least: Any, right_keys: Any
                ) -> None:
    half = search.window // 2
    column_sums[:] = 0
    for y in range(y_begin - half, y_begin + half + 1):
        _add_row(left[y], right[y], search, column_sums)
    for y in range(y_begin, y_end):
        _clear_row(y, out)
        entering = y + half
        # The first row's sums are complete: a row that enters and leaves changes nothing.
        leaving = entering if y == y_begin else y - half - 1
        _match_row(left[entering], right[entering], left[leaving], right[leaving], y, search, out,
                   rows, column_sums, window_columns, keys, least, right_keys)


@kernel
def _add_row(left: Any, right: Any, search: Any, column_sums: Any) -> None:
    # Unsigned indices again, which here let the loop vectorise.
    x_first, right_first = np.uint64(search.x_begin), np.uint64(search.right_begin)
    labels, step = np.uint64(search.labels), np.uint64(search.stride)
    for i in range(np.uint64(search.columns)):
        value = np.int16(left[x_first + i])
        at, right_at = i * step, right_first + i
        for j in range(labels):
            difference = np.int16(abs(np.int16(np.int16(right[right_at + j]) - value)))
            column_sums[at + j] = np.uint16(column_sums[at + j] + np.uint16(difference))


@kernel
def _match_row(left: Any, right: Any, left_old: Any, right_old: Any, y: int, search: Any,
               out: Any, rows: Any, column_sums: Any, window_columns: Any, keys: Any, least: Any,
               right_keys: Any) -> None:
    window, labels, x_begin, columns, right_begin, stride = search
    label, fraction, best, second, right_label, with_costs, with_right = out
    # Unsigned indices keep Numba's handling of negative ones out.
    row, one = np.uint64(y), np.uint64(1)
    last = labels - 1
    reach = columns + last
    now, old = address(rows), address(rows[1])
    _widen(address(right), right_begin, reach, now)
    _widen(address(right_old), right_begin, reach, old)
    padded = keys.size // SAD_PIXELS
    # What the first pixel adds to: no sum, and the labels.
    for j in range(labels):
        keys[keys.size - padded + j] = last - j
    if with_right:
        right_keys[:] = _NO_KEY
    # The columns inside the window, in a ring.
    window_columns[:] = 0
    sums, ring, sads = address(column_sums), address(window_columns), address(keys)
    slot, before = 0, keys.size - padded
    # Selecting a label is a long chain of dependent instructions: several pixels' chains side by
    # side keep the processor busier than one between two pixels' sums.
    for start in range(0, columns, SAD_PIXELS):
        end = min(start + SAD_PIXELS, columns)
        for i in range(start, end):
            place = (i - start) * padded
            least[i - start] = _slide(
                now, old, i, left[x_begin + i], left_old[x_begin + i], sums, i * stride, ring,
                slot, sads, before, place, labels)
            before = place
            slot += stride
            if slot == window * stride:
                slot = 0
        for i in range(max(start, window - 1), end):
            x = np.uint64(x_begin + i - window // 2)
            place, key = (i - start) * padded, least[i - start]
            best_label = key & _LABEL_MASK
            label[row, x] = best_label
            j = np.uint64(last) - np.uint64(best_label)
            if one <= j < np.uint64(last):
                at = np.uint64(place) + j
                fraction[row, x] = _fraction(np.int64(keys[at + one] >> _SHIFT),
                                             np.int64(key >> _SHIFT),
                                             np.int64(keys[at - one] >> _SHIFT))
            if with_costs:
                best[row, x] = key >> _SHIFT
                second[row, x] = _second(sads, place, labels, best_label)
            if with_right:
                _keep_less(sads, place, labels, address(right_keys),
                           right_begin + i - window // 2)
    if with_right:
        for x in range(right_label.shape[1]):
            key = right_keys[x]
            right_label[y, x] = np.int16(-1) if key == _NO_KEY else np.int16(key & _LABEL_MASK)


@kernel
def _widen(row: Any, first: int, count: int, words: Any) -> None:
    for i in range(count):
        words[i] = row[first + i]


@kernel(inline='always')            # calls with so many arguments took a quarter of the time
def _slide(now: Any, old: Any, right_at: int, value: int, value_old: int, column_sums: Any,
           at: int, window_columns: Any, slot: int, keys: Any, before: int, place: int,
           labels: int) -> Any:
    """Move column sums a row down and the window a column right; returns the minimum key.

    :param before, place: where the keys of the pixel before and of this one are.
    """
    entering_value, leaving_value = splat(np.uint16(value)), splat(np.uint16(value_old))
    shift, none = splat(_SHIFT), splat(_NO_KEY)
    width = lanes(now)
    half = width // 2
    least = none
    for j in range(0, labels, width):
        entering, leaving = load(now, right_at + j), load(old, right_at + j)
        entering = maximum(entering, entering_value) - minimum(entering, entering_value)
        leaving = maximum(leaving, leaving_value) - minimum(leaving, leaving_value)
        column = load(column_sums, at + j) + (entering - leaving)
        store(column_sums, at + j, column)
        low, high = spread(column - load(window_columns, slot + j))
        store(window_columns, slot + j, column)
        low = load(keys, before + j) + (low << shift)
        high = load(keys, before + j + half) + (high << shift)
        store(keys, place + j, low)
        store(keys, place + j + half, high)
        if j + width > labels:
            low = where_lane(0, labels - j, low, none)
            high = where_lane(0, labels - j - half, high, none)
        least = minimum(least, minimum(low, high))
    return least_lane(least)


@kernel
def _fraction(before: int, least: int, after: int) -> Any:
    # floor(16 (before - after) / (2 rise) + 1/2), lifted by 8 to divide no negatives. Of equal
    # SADs the lowest label wins: ``before`` is more than the least, and the rise is above 0.
    rise = max(before, after) - least
    return np.int8((16 * (before - after) + 17 * rise) // (2 * rise) - 8)


@kernel(inline='always')
def _second(keys: Any, place: int, labels: int, best_label: Any) -> int:
    # Labels best - 1, best and best + 1 become 0, 1 and 2, all others more (modulo 2^32).
    nearest, mask, three = splat(np.uint32(best_label - 1)), splat(_LABEL_MASK), splat(_THREE)
    none = splat(_NO_KEY)
    width = lanes(keys)
    least = none
    for j in range(0, labels, width):
        key = load(keys, place + j)
        key = where_less((key & mask) - nearest, three, none, key)
        if j + width > labels:
            key = where_lane(0, labels - j, key, none)
        least = minimum(least, key)
    key = least_lane(least)
    return NO_SECOND if key == _NO_KEY else np.int64(key >> _SHIFT)


@kernel
def _keep_less(keys: Any, place: int, labels: int, right_keys: Any, at: int) -> None:
    """A left pixel's keys, for the right pixels that it is compared with."""
    width = lanes(keys)
    for j in range(0, labels, width):
        known = load(right_keys, at + j)
        key = minimum(load(keys, place + j), known)
        if j + width > labels:
            key = where_lane(0, labels - j, key, known)
        store(right_keys, at + j, key)
