"""From messages to labels: the last step of belief propagation, row by row.

The belief of a label is its data cost plus the four messages that arrive; the lowest one wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines.cpu.hierarchical.formats import arriving, next_values, start_values
from stereo_bp_ros.engines.cpu.memory import Level, Matches
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import lanes, load, minimum, splat, store, where_less
from stereo_bp_ros.engines.partitions import Partition

# Rows of ``selected``; before and after: of the labels beside the best.
_BEST, _LABEL, _SECOND, _BEFORE, _AFTER = range(5)


class Selection(NamedTuple):
    """What a row of labels is selected with. Kernels take it as it is.

    x, y: the pixel of the image where level 0 begins; left to bottom: the pixels of level 0 that
    are kept.
    needs_all_partners: only pixels that have a partner for every d count in ``right_label``.
    huge: the largest belief.
    label to with_right: as ``Matches`` has them, with -1 and 0 on the border of the image.
    right_least: H x W beliefs, those of ``right_label``, which partitions side by side compare;
        of no rows where there are none.
    beliefs: scratch, parts x 2 x labels x columns, uint16 or float32.
    selected: scratch, parts x 5 x columns; right: parts x 2 x 2 x columns of the image.
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
    best: np.ndarray
    second: np.ndarray
    right_label: np.ndarray
    with_costs: bool
    with_right: bool
    right_least: np.ndarray
    beliefs: np.ndarray
    selected: np.ndarray
    right: np.ndarray


def selection(config: ResolvedConfig, part: Partition, out: Matches,
              arrays: Mapping[str, np.ndarray]) -> Selection:
    """Where the label of minimum belief of every interior pixel of a partition goes."""
    beliefs = arrays['belief_rows']
    dtype = beliefs.dtype.type
    huge = np.inf if dtype is np.float32 else np.iinfo(dtype).max
    left, top, right_end, bottom = part.kept
    return Selection(
        part.x, part.y, left - part.x, top - part.y, right_end - part.x, bottom - part.y,
        config.min_disparity, not config.has_combined_cost, dtype(huge), *out,
        arrays.get('right_least', np.empty((0, 0), dtype)), beliefs, arrays['selected_rows'],
        arrays['right_rows'])


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
def select_row(cost: Any, messages: Any, y: int, slots: tuple[int, int, int], level: Level,
               found: Any, part: int) -> None:
    """Fill an interior row of ``found``, a ``Selection``, when all messages to it are final.

    :param cost, messages: level 0, 1-D views as ``memory.Level`` says.
    :param slots: where the messages of rows y - 1, y and y + 1 lie.
    :param part: of the scratch.
    """
    if y < found.top or y >= found.bottom:
        return
    clear_row(found, y)
    first, end = max(1, found.left), min(level.width - 1, found.right_end)
    row_of_image = y + found.y
    for odd in range(2):
        _beliefs_of_row(cost, messages, y, slots, odd, level, found.huge,
                        found.with_costs or found.with_right, found.with_costs,
                        found.beliefs[part, odd], found.selected[part])
        _write_row(found.selected[part], level.labels, odd, first, end, found.with_costs,
                   found.label[row_of_image, found.x:], found.fraction[row_of_image, found.x:],
                   found.best[row_of_image, found.x:], found.second[row_of_image, found.x:])
    if found.with_right:
        _right_row(found.beliefs[part], found.x, first, end, found.min_disparity,
                   found.needs_all_partners, found.huge, found.right[part],
                   found.right_label[row_of_image], found.right_least, row_of_image)


@kernel
def _write_row(selected: Any, labels: int, odd: int, first: int, end: int, with_costs: bool,
               label: Any, fraction: Any, best: Any, second: Any) -> None:
    """The pixels x = 2 column + odd of one row with first <= x < end."""
    for column in range((first - odd + 1) // 2, (end - odd + 1) // 2):
        x = 2 * column + odd
        found = int(selected[_LABEL, column])
        label[x] = found
        if 0 < found < labels - 1:
            fraction[x] = sixteenths(selected[_BEFORE, column], selected[_BEST, column],
                                     selected[_AFTER, column])
        if with_costs:
            best[x] = selected[_BEST, column]
            is_any = found > 1 or found < labels - 2
            second[x] = selected[_SECOND, column] if is_any else NO_SECOND


@kernel
def _beliefs_of_row(cost: Any, messages: Any, y: int, slots: tuple[int, int, int], odd: int,
                    level: Level, huge: Any, with_row: bool, with_second: bool, row: Any,
                    selected: Any) -> None:
    """What is least in the beliefs of the nodes x = 2 column + odd.

    ``with_row`` leaves these in ``row`` as [label][column], which ``with_second`` needs.
    """
    labels = level.labels
    at_once = lanes(messages)
    stride = level.tiles * at_once
    scalar = row.dtype.type
    data = (2 * y + (y + odd) % 2) * level.tiles * level.cost_planes * at_once
    one = splat(scalar(1))
    for column in range(0, (level.width - odd) // 2, at_once):
        tile = column // at_once
        at = arriving(messages, level, slots, y, odd, tile)
        values = start_values(messages, at)
        least = belief = before = after = splat(huge)
        number = found = splat(scalar(0))
        for label in range(labels):
            values = next_values(messages, at, label, values)
            below, above, right, left = values
            last = belief
            belief = (((below + above) + right) + left) + load(
                cost, data + (tile * level.cost_planes + label) * at_once)
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
    """``floor(16 (before - after) / (2 (before - 2 lowest + after)) + 0.5)``, or 0.

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
