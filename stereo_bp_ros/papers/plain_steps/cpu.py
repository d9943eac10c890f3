"""Belief propagation in the plain parallel steps of the GPU + CPU paper, to repeat its tables.

Grauer-Gray, "Optimizing Global Stereo Matching on NVIDIA GPUs and CPUs", section 7: each step of
the CUDA program as a parallel loop over rows, messages one pixel at a time or with vectors.
Sums and means have the order of the reference maps, so float32 gives them bit by bit. Arrays lie
as ``cpu_arrays.PlainLevel`` says; kernels get 1-D views, and ``is_pixel_major`` as True or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines.cpu.hierarchical.labels import sixteenths
from stereo_bp_ros.engines.cpu.memory import DOWN, LEFT, RIGHT, UP, Matches
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import (
    load,
    load_one,
    minimum,
    splat,
    store,
    store_one,
    where_lane,
)
from stereo_bp_ros.papers.plain_steps import cpu_arrays
from stereo_bp_ros.papers.plain_steps.cpu_arrays import LANES, PlainLevel


class Memory:
    """The costs and messages of one frame: the engine's, one block, or arrays for each level."""

    def __init__(self, config: ResolvedConfig, levels: list[PlainLevel],
                 arrays: Mapping[str, np.ndarray]) -> None:
        self._is_aligned = config.plain_steps.aligned_rows
        self._wanted = {array[0]: array for array in cpu_arrays.shapes(config, levels)}
        self._arrays: dict[str, np.ndarray] = {}
        if config.plain_steps.allocation == 'once':
            self._arrays = {name: arrays[name] for name in self._wanted}
        elif config.plain_steps.allocation == 'single':
            self._arrays = cpu_arrays.allocate(list(self._wanted.values()), self._is_aligned)

    def take(self, name: str) -> np.ndarray:
        """An array as 1-D view."""
        if name not in self._arrays:
            self._arrays.update(cpu_arrays.allocate([self._wanted[name]], self._is_aligned))
        return self._arrays[name].reshape(-1)

    def leave(self, name: str) -> None:
        """Be done with an array that nobody holds."""
        del self._arrays[name]


def data_cost(left: np.ndarray, right: np.ndarray, config: ResolvedConfig,
              levels: list[PlainLevel], memory: Memory) -> None:
    """Steps 1 and 2: costs of level 0 from float32 H x W images, and of those above.

    Numbers as those of ``cost.fill_costs``.
    """
    is_pixel_major = _flag(config)
    factor = np.float32(config.data_weight * quantisation.message_scale(config))
    _store_costs(levels[0].height, left, right, levels[0], config.min_disparity, factor,
                 np.float32(config.data_truncation), memory.take('cost_0'), is_pixel_major)
    for k in range(1, len(levels)):
        _store_parent_costs(levels[k].height, memory.take(f'cost_{k - 1}'), levels[k - 1],
                            memory.take(f'cost_{k}'), levels[k], is_pixel_major)


def pass_messages(config: ResolvedConfig, levels: list[PlainLevel], memory: Memory,
                  scratch: np.ndarray) -> None:
    """Step 3: messages, coarsest level first.

    :param scratch: threads x (labels x ``cpu_arrays.LANES``), float32.
    """
    is_pixel_major = _flag(config)
    slope, truncation = (np.float32(value) for value in quantisation.message_smoothness(config))
    uses_mean = config.message_type == 'float32'
    for k in reversed(range(len(levels))):
        sent = memory.take(f'sent_{k}')
        if k == len(levels) - 1:
            sent.fill(0)
        else:
            _copy_messages(levels[k + 1].height, memory.take(f'sent_{k + 1}'), levels[k + 1],
                           sent, levels[k], is_pixel_major)
            if config.plain_steps.allocation == 'separate':
                memory.leave(f'sent_{k + 1}')
                memory.leave(f'cost_{k + 1}')
        for iteration in range(config.iterations_of_levels[0]):
            _send_messages(len(scratch), memory.take(f'cost_{k}'), sent, levels[k],
                           (iteration + 1) % 2, slope, truncation, uses_mean,
                           config.plain_steps.aligned_rows, scratch, is_pixel_major,
                           True if config.plain_steps.vectorised else None)


def choose_labels(config: ResolvedConfig, levels: list[PlainLevel], memory: Memory, out: Matches,
                  arrays: Mapping[str, np.ndarray]) -> None:
    """Step 4; ``out`` is filled."""
    values = arrays['plain_values']
    _choose_labels(len(values), memory.take('cost_0'), memory.take('sent_0'), levels[0],
                   config.min_disparity, out, values, arrays['plain_right'], _flag(config))


def _flag(config: ResolvedConfig) -> bool | None:
    """The layout as a type, of which each has kernels of its own."""
    return True if config.plain_steps.layout == 'pixel_major' else None


@kernel
def _element(level: PlainLevel, y: int, column: int, is_pixel_major: bool | None) -> int:
    """Offset of label 0 of a node from the start of its colour's array."""
    if is_pixel_major is None:
        return y * level.labels * level.pitch + column
    return (y * level.pitch + column) * level.labels


@kernel
def _step(level: PlainLevel, is_pixel_major: bool | None) -> int:
    """Values from one label to the next."""
    if is_pixel_major is None:
        return level.pitch
    return 1


@kernel
def _values(level: PlainLevel) -> int:
    return level.height * level.labels * level.pitch


@parallel_kernel
def _store_costs(y: int, left: Any, right: Any, level: PlainLevel, min_disparity: int, factor: Any,
                 truncation: Any, cost: Any, is_pixel_major: bool | None) -> None:
    width, labels = level.width, level.labels
    step, values = _step(level, is_pixel_major), _values(level)
    for label in range(labels):
        for x in range(width):
            other_x = x - min_disparity
            value = np.float32(0)
            if other_x < width and other_x - (labels - 1) >= 0:
                value = factor * min(abs(left[y, x] - right[y, other_x - label]), truncation)
            place = _element(level, y, x >> 1, is_pixel_major) + label * step
            store_one(cost, ((x + y) & 1) * values + place, value)


@parallel_kernel
def _store_parent_costs(y: int, children: Any, child: PlainLevel, parents: Any, parent: PlainLevel,
                        is_pixel_major: bool | None) -> None:
    """``((c00 + c01) + c10) + c11`` as [row][x], of the children that there are."""
    step, child_step = _step(parent, is_pixel_major), _step(child, is_pixel_major)
    values, other = _values(parent), _values(child)
    has_lower = 2 * y + 1 < child.height
    for label in range(parent.labels):
        for x in range(parent.width):
            has_right = 2 * x + 1 < child.width
            upper = _element(child, 2 * y, x, is_pixel_major) + label * child_step
            value = load_one(children, upper)
            if has_right:
                value += load_one(children, other + upper)
            if has_lower:
                lower = _element(child, 2 * y + 1, x, is_pixel_major) + label * child_step
                value += load_one(children, other + lower)
                if has_right:
                    value += load_one(children, lower)
            place = _element(parent, y, x >> 1, is_pixel_major) + label * step
            store_one(parents, ((x + y) & 1) * values + place, value)


@parallel_kernel
def _copy_messages(y: int, parents: Any, parent: PlainLevel, children: Any, child: PlainLevel,
                   is_pixel_major: bool | None) -> None:
    """What each node sends becomes what its up to four children send.

    A parent's x is the column of all of them: of colour 0 the upper left and the lower right one.
    """
    step, parent_step = _step(child, is_pixel_major), _step(parent, is_pixel_major)
    along, parent_along = (_element(child, 0, 1, is_pixel_major),
                           _element(parent, 0, 1, is_pixel_major))
    values, parent_values = _values(child), _values(parent)
    has_lower = 2 * y + 1 < child.height
    for direction in range(4):
        for odd in range(2):
            source = ((y + odd & 1) * 4 + direction) * parent_values + _element(
                parent, y, 0, is_pixel_major)
            upper = direction * values + _element(child, 2 * y, odd, is_pixel_major)
            lower = direction * values + _element(child, 2 * y + 1, odd, is_pixel_major)
            right, other = child.width >> 1, 4 * values     # parents with right children
            for label in range(child.labels):
                for column in range((parent.width + 1 - odd) >> 1):
                    sent = parents[source + label * parent_step + column * parent_along]
                    at = label * step + 2 * column * along
                    children[upper + at] = sent
                    if 2 * column + odd < right:
                        children[other + upper + at] = sent
                        if has_lower:
                            children[lower + at] = sent
                    if has_lower:
                        children[other + lower + at] = sent


@parallel_kernel
def _send_messages(part: int, cost: Any, sent: Any, level: PlainLevel, colour: int, slope: Any,
                   truncation: Any, uses_mean: bool, is_aligned: bool, scratch: Any,
                   is_pixel_major: bool | None, is_vectorised: bool | None) -> None:
    """The four messages of the interior nodes of one colour."""
    parts, rows = scratch.shape[0], max(0, level.height - 2)
    for y in range(1 + part * rows // parts, 1 + (part + 1) * rows // parts):
        odd = (y + colour) & 1              # x = 2 * column + odd
        first, end = 1 - odd, (level.width - odd) // 2
        for direction in range(4):
            places = _places(level, y, colour, direction, is_pixel_major)
            column = first
            if is_vectorised is not None:
                column = _send_vectors(cost, sent, level, places, first, end, slope,
                                       truncation, uses_mean, is_aligned, scratch[part],
                                       is_pixel_major)
            for single in range(column, end):
                _send_one(cost, sent, level, places, single, slope, truncation, uses_mean,
                          scratch[part], is_pixel_major)


@kernel
def _places(level: PlainLevel, y: int, colour: int, direction: int,
            is_pixel_major: bool | None) -> Any:
    """Offsets at column 0 and label 0: three messages, in the order of their sum, the data cost,
    and where the message of a direction goes."""
    values = _values(level)
    own, other = 4 * colour, 4 * (1 - colour)
    odd = (y + colour) & 1
    below = (other + UP) * values + _element(level, y + 1, 0, is_pixel_major)
    above = (other + DOWN) * values + _element(level, y - 1, 0, is_pixel_major)
    beside_right = (other + LEFT) * values + _element(level, y, odd, is_pixel_major)
    beside_left = (other + RIGHT) * values + _element(level, y, odd - 1, is_pixel_major)
    here = _element(level, y, 0, is_pixel_major)
    data, target = colour * values + here, (own + direction) * values + here
    if direction == UP:
        return below, beside_right, beside_left, data, target
    if direction == DOWN:
        return above, beside_right, beside_left, data, target
    if direction == LEFT:
        return below, above, beside_right, data, target
    return below, above, beside_left, data, target


@kernel
def _send_one(cost: Any, sent: Any, level: PlainLevel, places: Any, column: int, slope: Any,
              truncation: Any, uses_mean: bool, kept: Any, is_pixel_major: bool | None) -> None:
    """One message of one node, in the steps of the LCPC 2010 paper's section 3."""
    labels, step = level.labels, _step(level, is_pixel_major)
    at = _element(level, 0, column, is_pixel_major)
    first, second, third, data, target = places
    least = np.float32(np.inf)
    for label in range(labels):
        place = at + label * step
        h = load_one(sent, first + place) + load_one(sent, second + place)
        h = (h + load_one(sent, third + place)) + load_one(cost, data + place)
        kept[label] = h
        least = min(least, h)
    message = kept[0]
    for label in range(1, labels):
        message = min(kept[label], message + slope)
        kept[label] = message
    for backwards in range(1, labels):
        label = labels - 1 - backwards
        message = min(kept[label], message + slope)
        kept[label] = message
    bound, total = least + truncation, np.float32(0)
    for label in range(labels):
        message = min(kept[label], bound)
        kept[label] = message
        total += message
    taken_away = total / np.float32(labels) if uses_mean else least
    for label in range(labels):
        store_one(sent, target + at + label * step, kept[label] - taken_away)


@kernel
def _send_vectors(cost: Any, sent: Any, level: PlainLevel, places: Any, first: int, end: int,
                  slope: Any, truncation: Any, uses_mean: bool, is_aligned: bool, kept: Any,
                  is_pixel_major: bool | None) -> int:
    """As ``_send_one`` for as many nodes as fill vectors; returns the column of the next one.

    Vectors of aligned rows start where rows do, and leave out the lanes on the border.
    """
    column = first
    if is_pixel_major is None and is_aligned:
        column = 0
    while column + LANES <= end or (is_pixel_major is None and is_aligned and column < end):
        least = _vector_sums(cost, sent, level, places, column, kept, is_pixel_major)
        step, bound = splat(slope), least + splat(truncation)
        message = load(kept, 0)
        for label in range(1, level.labels):
            message = minimum(load(kept, label * LANES), message + step)
            store(kept, label * LANES, message)
        for backwards in range(1, level.labels):
            place = (level.labels - 1 - backwards) * LANES
            message = minimum(load(kept, place), message + step)
            store(kept, place, message)
        total = splat(np.float32(0))
        for label in range(level.labels):
            message = minimum(load(kept, label * LANES), bound)
            store(kept, label * LANES, message)
            total = total + message
        taken_away = least
        if uses_mean:
            taken_away = total / splat(np.float32(level.labels))
        _store_vectors(sent, level, places[4], column, first, end, taken_away, kept,
                       is_pixel_major)
        column += LANES
    return min(column, end)


@kernel
def _vector_sums(cost: Any, sent: Any, level: PlainLevel, places: Any, column: int, kept: Any,
                 is_pixel_major: bool | None) -> Any:
    """h of a vector of nodes, [label][lane], and the minimum of each."""
    first, second, third, data, _ = places
    least = splat(np.float32(np.inf))
    if is_pixel_major is not None:
        for lane in range(LANES):
            at = (column + lane) * level.labels
            for label in range(level.labels):
                h = load_one(sent, first + at + label) + load_one(sent, second + at + label)
                h = (h + load_one(sent, third + at + label)) + load_one(cost, data + at + label)
                kept[label * LANES + lane] = h
        for label in range(level.labels):
            least = minimum(load(kept, label * LANES), least)
        return least
    for label in range(level.labels):
        place = column + label * level.pitch
        h = load(sent, first + place) + load(sent, second + place)
        h = (h + load(sent, third + place)) + load(cost, data + place)
        store(kept, label * LANES, h)
        least = minimum(h, least)
    return least


@kernel
def _store_vectors(sent: Any, level: PlainLevel, target: int, column: int, first: int, end: int,
                   taken_away: Any, kept: Any, is_pixel_major: bool | None) -> None:
    if is_pixel_major is not None:
        for label in range(level.labels):
            store(kept, label * LANES, load(kept, label * LANES) - taken_away)
        for lane in range(LANES):
            at = target + (column + lane) * level.labels
            for label in range(level.labels):
                store_one(sent, at + label, kept[label * LANES + lane])
        return
    is_whole = column >= first and column + LANES <= end
    for label in range(level.labels):
        place = target + column + label * level.pitch
        message = load(kept, label * LANES) - taken_away
        if not is_whole:
            message = where_lane(first - column, end - column, message, load(sent, place))
        store(sent, place, message)


@parallel_kernel
def _choose_labels(part: int, cost: Any, sent: Any, level: PlainLevel, min_disparity: int,
                   out: Any, scratch: Any, right: Any, is_pixel_major: bool | None) -> None:
    label, fraction, best, second, right_label, with_costs, with_right = out
    parts, height, width, labels = scratch.shape[0], level.height, level.width, level.labels
    beliefs, least, owner = scratch[part], right[part, 0], right[part, 1]
    for y in range(part * height // parts, (part + 1) * height // parts):
        label[y] = -1
        fraction[y] = 0
        if with_costs:
            best[y] = 0
            second[y] = 0
        least[:] = np.inf
        owner[:] = -1
        for x in range(1, width - 1 if 0 < y < height - 1 else 0):
            _beliefs(cost, sent, level, x, y, beliefs, is_pixel_major)
            found = np.argmin(beliefs[:labels])
            label[y, x] = found
            fraction[y, x] = _fraction(beliefs, found, labels)
            if with_costs:
                best[y, x] = beliefs[found]
                second[y, x] = _second_least(beliefs, found, labels)
            if with_right and max(1, min_disparity + labels - 1) <= x < width + min_disparity:
                _offer(beliefs, labels, x - min_disparity, least, owner)
        if with_right:
            for x in range(width):
                right_label[y, x] = int(owner[x])


@kernel
def _beliefs(cost: Any, sent: Any, level: PlainLevel, x: int, y: int, beliefs: Any,
             is_pixel_major: bool | None) -> None:
    """(((below + above) + right) + left) + cost of every label of an interior pixel."""
    values, step, colour = _values(level), _step(level, is_pixel_major), (x + y) & 1
    other = 4 * (1 - colour)
    below = (other + UP) * values + _element(level, y + 1, x >> 1, is_pixel_major)
    above = (other + DOWN) * values + _element(level, y - 1, x >> 1, is_pixel_major)
    beside_right = (other + LEFT) * values + _element(level, y, (x + 1) >> 1, is_pixel_major)
    beside_left = (other + RIGHT) * values + _element(level, y, (x - 1) >> 1, is_pixel_major)
    data = colour * values + _element(level, y, x >> 1, is_pixel_major)
    for label in range(level.labels):
        place = label * step
        vertical = load_one(sent, below + place) + load_one(sent, above + place)
        all_sent = ((vertical + load_one(sent, beside_right + place))
                    + load_one(sent, beside_left + place))
        beliefs[label] = all_sent + load_one(cost, data + place)


@kernel
def _fraction(beliefs: Any, found: int, labels: int) -> int:
    """Sixteenths from the minimum belief to the parabola's minimum; 0 at the first and last label.
    """
    if found == 0 or found == labels - 1:
        return 0
    return sixteenths(beliefs[found - 1], beliefs[found], beliefs[found + 1])


@kernel
def _second_least(beliefs: Any, found: int, labels: int) -> Any:
    """The minimum belief of the labels further than 1 away; ``NO_SECOND``: none."""
    least = np.float32(NO_SECOND)
    for label in range(labels):
        if abs(label - found) > 1:
            least = min(least, beliefs[label])
    return least


@kernel
def _offer(beliefs: Any, labels: int, x: int, least: Any, owner: Any) -> None:
    """Offer a pixel's beliefs to the pixels x - label of the other image."""
    for label in range(labels):
        value, at = beliefs[label], x - label
        if value < least[at] or (value == least[at] and label < owner[at]):
            least[at] = value
            owner[at] = label
