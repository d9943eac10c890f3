"""From messages to labels: the last step of belief propagation, row by row.

The belief of a label is its data cost plus the four messages that arrive; the least one wins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines.cpu.hierarchical.formats import (
    advance,
    beyond_tile,
    lead,
    load_beside,
    start,
)
from stereo_bp_ros.engines.cpu.memory import DOWN, LEFT, RIGHT, UP, Level
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import lanes, load, minimum, splat, store, where_less
from stereo_bp_ros.partitions import Partition

# Rows of ``selected``; before and after: of the labels beside the best.
_BEST, _LABEL, _SECOND, _BEFORE, _AFTER = range(5)


class Selection(NamedTuple):
    """What a row of labels is selected with; see ``selection``. Kernels take it as it is.

    x, y: the pixel of the image where level 0 begins; left to bottom: the pixels of level 0 that
    are kept.
    """

    x: int
    y: int
    left: int
    top: int
    right_end: int
    bottom: int
    min_disparity: int
    needs_all_partners: bool
    huge: Any
    label: np.ndarray
    fraction: np.ndarray
    with_costs: bool
    best: np.ndarray
    second: np.ndarray
    with_right: bool
    right_label: np.ndarray
    right_least: np.ndarray
    beliefs: np.ndarray
    selected: np.ndarray
    right: np.ndarray


def selection(part: Partition, min_disparity: int, label: np.ndarray, fraction: np.ndarray,
              best: np.ndarray | None, second: np.ndarray | None,
              right_label: np.ndarray | None, right_least: np.ndarray, beliefs: np.ndarray,
              selected: np.ndarray, right: np.ndarray, needs_all_partners: bool = True
              ) -> Selection:
    """Where the label of least belief of every interior pixel goes, lowest label on ties.

    H x W are those of the image.

    :param part: where level 0 lies in the image, and what of it is kept.
    :param label: int16 H x W; d - min_disparity, -1 on the border of the image.
    :param fraction: int8 H x W: sixteenths, in [-8, 8], from the least belief to the minimum
        of the parabola through it and its two neighbours, rounded half up; 0 at the first and
        last label, on a flat parabola and where there is no label.
    :param best, second: int32 (integer messages) or float32 H x W, or both None: the least
        belief, and the least of the labels further than 1 from it, ``NO_SECOND`` where there
        is none. 0 where there is no label.
    :param right_label: int16 H x W, or None: for pixel (x, y) of the other image the label of
        the least belief among the pixels (x + d, y) of this one, lowest label on ties; -1 = none.
    :param right_least: H x W of the type of beliefs: those of ``right_label``, which partitions
        side by side compare; of no rows where there are none.
    :param beliefs: scratch, parts x 2 x labels x columns, uint16 or float32.
    :param selected: scratch, parts x 5 x columns; ``right``: parts x 2 x 2 x columns of the image.
    :param needs_all_partners: only pixels that have a partner for every d count in
        ``right_label``.
    """
    dtype = beliefs.dtype.type
    no_cost = _NO_COST[np.dtype(np.float32 if dtype is np.float32 else np.int32)]
    huge = np.inf if dtype is np.float32 else np.iinfo(dtype).max
    left, top, right_end, bottom = part.kept
    return Selection(
        part.x, part.y, left - part.x, top - part.y, right_end - part.x, bottom - part.y,
        min_disparity, needs_all_partners, dtype(huge), label, fraction,
        best is not None and second is not None, no_cost if best is None else best,
        no_cost if second is None else second,
        right_label is not None, _NO_LABEL if right_label is None else right_label,
        right_least, beliefs, selected, right)


# Stand for arrays that were not asked for, so that a kernel has one signature.
_NO_COST = {np.dtype(kind): np.zeros((1, 1), kind) for kind in ('int32', 'float32')}
_NO_LABEL = np.zeros((1, 1), np.int16)


@kernel
def clear_row(found: Any, y: int) -> None:
    """A row of no labels: all that the first and the last row of an image have."""
    if y < found.top or y >= found.bottom:
        return
    first, end, row = found.left + found.x, found.right_end + found.x, y + found.y
    found.label[row, first:end] = -1
    found.fraction[row, first:end] = 0
    if found.with_costs:
        found.best[row, first:end] = 0
        found.second[row, first:end] = 0
    if found.with_right and first == 0:
        found.right_label[row] = -1
        if found.right_least.shape[0] > 0:
            found.right_least[row] = found.huge


@kernel
def select_row(cost: Any, messages: Any, y: int, above: int, slot: int, below: int, level: Level,
               found: Any, part: int) -> None:
    """Fill an interior row of ``found``, a ``Selection``, when all messages to it are final.

    :param cost, messages: level 0, 1-D views as ``memory.Level`` says.
    :param above, slot, below: where the messages of rows y - 1, y and y + 1 lie.
    :param part: of the scratch.
    """
    if y < found.top or y >= found.bottom:
        return
    clear_row(found, y)
    first, end = max(1, found.left), min(level.width - 1, found.right_end)
    row_of_image = y + found.y
    for odd in range(2):
        row, selected = found.beliefs[part, odd], found.selected[part]
        _beliefs_of_row(cost, messages, y, above, slot, below, odd, level, found.huge,
                        found.with_costs or found.with_right, found.with_costs, row, selected)
        _write_labels(selected, level.labels, odd, first, end,
                      found.label[row_of_image, found.x:],
                      found.fraction[row_of_image, found.x:])
        if found.with_costs:
            _write_costs(selected, level.labels, odd, first, end,
                         found.best[row_of_image, found.x:], found.second[row_of_image, found.x:])
    if found.with_right:
        _right_row(found.beliefs[part], found.x, first, end, found.min_disparity,
                   found.needs_all_partners, found.huge, found.right[part],
                   found.right_label[row_of_image], found.right_least, row_of_image)


@kernel
def _write_labels(selected: Any, labels: int, odd: int, first: int, end: int, label: Any,
                  fraction: Any) -> None:
    """The pixels x = 2 column + odd of one row with first <= x < end."""
    for column in range((first - odd + 1) // 2, (end - odd + 1) // 2):
        x = 2 * column + odd
        found = int(selected[_LABEL, column])
        label[x] = found
        if 0 < found < labels - 1:
            fraction[x] = sixteenths(selected[_BEFORE, column], selected[_BEST, column],
                                     selected[_AFTER, column])


@kernel
def _write_costs(selected: Any, labels: int, odd: int, first: int, end: int, best: Any,
                 second: Any) -> None:
    """As ``_write_labels``."""
    for column in range((first - odd + 1) // 2, (end - odd + 1) // 2):
        x = 2 * column + odd
        found = int(selected[_LABEL, column])
        best[x] = selected[_BEST, column]
        is_any = found > 1 or found < labels - 2
        second[x] = selected[_SECOND, column] if is_any else NO_SECOND


@kernel
def _beliefs_of_row(cost: Any, messages: Any, y: int, above: int, slot: int, below: int, odd: int,
                    level: Level, huge: Any, with_row: bool, with_second: bool, row: Any,
                    selected: Any) -> None:
    """What is least in the beliefs of the nodes x = 2 column + odd.

    ``with_row`` leaves these in ``row`` as [label][column], which ``with_second`` needs.
    """
    width, _, labels, tiles, cost_planes, planes = level
    at_once = lanes(messages)
    stride = tiles * at_once
    scalar = row.dtype.type
    colour = (y + odd) % 2
    sent = planes * at_once
    from_below = (2 * below + 1 - colour) * tiles * 4 * sent + UP * sent
    from_above = (2 * above + 1 - colour) * tiles * 4 * sent + DOWN * sent
    beside = (2 * slot + 1 - colour) * tiles * 4 * sent
    data = (2 * y + colour) * tiles * cost_planes * at_once
    one = splat(scalar(1))
    for column in range(0, (width - odd) // 2, at_once):
        tile = column // at_once
        block = tile * 4 * sent
        from_right, from_left = beside + LEFT * sent + block, beside + RIGHT * sent + block
        beyond = beyond_tile(from_right, from_left, odd, tile, tiles, 4 * sent)
        vertical_1 = start(messages, load(messages, from_below + block))
        vertical_2 = start(messages, load(messages, from_above + block))
        right_plane, left_plane = load_beside(messages, from_right, from_left, beyond, odd)
        right, left = start(messages, right_plane), start(messages, left_plane)
        least = belief = before = after = splat(huge)
        number = found = splat(scalar(0))
        for label in range(labels):
            plane = (lead(messages) + label) * at_once
            vertical_1 = advance(messages, vertical_1, load(messages, from_below + block + plane))
            vertical_2 = advance(messages, vertical_2, load(messages, from_above + block + plane))
            right_plane, left_plane = load_beside(messages, from_right + plane,
                                                  from_left + plane, beyond + plane, odd)
            right = advance(messages, right, right_plane)
            left = advance(messages, left, left_plane)
            last = belief
            belief = (((vertical_1 + vertical_2) + right) + left) + load(
                cost, data + (tile * cost_planes + label) * at_once)
            if with_row:
                store(row, label * stride + column, belief)
            after = where_less(found + one, number, after, belief)
            before = where_less(belief, least, last, before)
            found = where_less(belief, least, number, found)
            least = minimum(belief, least)
            number = number + one
        store(selected, _BEST * stride + column, least)
        store(selected, _LABEL * stride + column, found)
        store(selected, _BEFORE * stride + column, before)
        store(selected, _AFTER * stride + column, after)
        if with_second:
            next_best = splat(huge)
            # Labels are compared as label + 1 < found or found + 1 < label.
            number = splat(scalar(0))
            for label in range(labels):
                belief = load(row, label * stride + column)
                candidate = where_less(found + one, number, belief, splat(huge))
                candidate = where_less(number + one, found, belief, candidate)
                next_best = minimum(candidate, next_best)
                number = number + one
            store(selected, _SECOND * stride + column, next_best)


@kernel
def sixteenths(before: Any, least: Any, after: Any) -> int:
    """``floor(16 (before - after) / (2 (before - 2 least + after)) + 0.5)``, or 0.

    float64 is exact here for integer beliefs: what lies below half a sixteenth does so by
    more than its rounding.
    """
    curvature = np.float64(before) - 2 * np.float64(least) + np.float64(after)
    if curvature <= 0:
        return 0
    return int(np.floor(8 * (np.float64(before) - np.float64(after)) / curvature + 0.5))


@kernel
def _right_row(beliefs: Any, x: int, first: int, end: int, min_disparity: int,
               needs_all_partners: bool, huge: Any, right: Any, labels_out: Any, least_out: Any,
               y: int) -> None:
    """Labels of one row of the other image; its pixels too are split in even and odd ones.

    From the pixels [first, end) of a row of level 0, which begins at x, an even column of the
    image. A pixel's lower labels come from partitions further left, which have been before.
    """
    width = labels_out.size
    labels = beliefs.shape[1]
    least, found = right[0], right[1]
    least[:] = huge
    for label in range(labels):
        d = min_disparity + label
        least_d = min_disparity if needs_all_partners else d
        most_d = min_disparity + labels - 1 if needs_all_partners else d
        first_x, end_x = max(first, most_d - x), min(end, width + least_d - x)
        for odd in range(2):
            # Pixels x + 2 column + odd with x + odd - d = 2 offset + side.
            side, offset = (odd - d) % 2, (x + odd - d) // 2
            start_at, stop = (first_x - odd + 1) // 2, (end_x - odd + 1) // 2
            if start_at < stop:
                _keep_less(beliefs[odd, label, start_at:stop], label,
                           least[side, start_at + offset:stop + offset],
                           found[side, start_at + offset:stop + offset])
    is_shared = least_out.shape[0] > 0
    for other_x in range(width):
        belief = least[other_x % 2, other_x // 2]
        if belief < (least_out[y, other_x] if is_shared else huge):
            labels_out[other_x] = int(found[other_x % 2, other_x // 2])
            if is_shared:
                least_out[y, other_x] = belief


@kernel
def _keep_less(beliefs: Any, label: int, least: Any, found: Any) -> None:
    number = found.dtype.type(label)
    for i in range(beliefs.size):
        is_less = beliefs[i] < least[i]
        least[i] = beliefs[i] if is_less else least[i]
        found[i] = number if is_less else found[i]
