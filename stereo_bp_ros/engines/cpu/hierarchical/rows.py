"""What a sweep does with the rows of a level: they start, are updated, and get labels.

Levels of the pyramid, as ``memory.Level`` says, and the images of a band search have functions
of their own; the type of the level decides at compilation.
"""

from __future__ import annotations

from typing import Any

from stereo_bp_ros.engines.cpu.band import rows as band
from stereo_bp_ros.engines.cpu.band.layout import BandLevel
from stereo_bp_ros.engines.cpu.hierarchical import labels
from stereo_bp_ros.engines.cpu.hierarchical.envelope import send, send_exactly
from stereo_bp_ros.engines.cpu.hierarchical.formats import arriving
from stereo_bp_ros.engines.cpu.memory import Level
from stereo_bp_ros.engines.cpu.simd.runtime import by_types, kernel
from stereo_bp_ros.engines.cpu.simd.vectors import interleave, lanes, load_stored, store


def _is_band(level: Any) -> bool:
    return getattr(level, 'instance_class', None) is BandLevel


@by_types
def start_row(parents: Any, parent: Any, has_parents: bool, children: Any, level: Any, y: int,
              slot: int, is_updated: bool) -> Any:
    """Give each node of a row the messages that it begins with."""
    if _is_band(level):
        return lambda parents, parent, has_parents, children, level, y, slot, is_updated: (
            band.start_row(children, level, slot))
    return lambda parents, parent, has_parents, children, level, y, slot, is_updated: _start_row(
        parents, parent, has_parents, children, level, y, slot, is_updated)


@by_types
def update_row(cost: Any, messages: Any, scratch: Any, y: int, slots: tuple[int, int, int],
               iteration: int, level: Any, slope: Any, first_step: Any, truncations: Any,
               own_truncations: bool, unreached: Any, exact: bool | None) -> Any:
    """Send the messages of the interior nodes of one row that an iteration is about.

    :param slots: where the messages of rows y - 1, y and y + 1 lie.
    :param own_truncations: whether each message has one; else those of one vector are all's.
    """
    if _is_band(level):
        return lambda cost, messages, scratch, y, slots, iteration, level, slope, first_step, \
            truncations, own_truncations, unreached, exact: band.update_row(
                cost, messages, y, slots, iteration, level, slope, first_step, truncations)
    return lambda cost, messages, scratch, y, slots, iteration, level, slope, first_step, \
        truncations, own_truncations, unreached, exact: _update_row(
            cost, messages, scratch, y, slots, iteration, level, slope, first_step, truncations,
            own_truncations, unreached, exact)


@by_types
def select_row(cost: Any, messages: Any, y: int, slots: tuple[int, int, int], level: Any,
               found: Any, truncations: Any, part: int) -> Any:
    """Fill an interior row of ``found``, a ``Selection``, when all messages to it are final.

    :param part: of the scratch.
    """
    if _is_band(level):
        return lambda cost, messages, y, slots, level, found, truncations, part: band.select_row(
            cost, messages, y, slots, level, found, truncations, part)
    return lambda cost, messages, y, slots, level, found, truncations, part: labels.select_row(
        cost, messages, y, slots, level, found, part)


@kernel
def _start_row(parents: Any, parent: Level, has_parents: bool, children: Any, level: Level,
               y: int, slot: int, is_updated: bool) -> None:
    """Give each node of a row what its parent sends, or 0: (x, y) has the parent (x // 2, y // 2).

    Where an iteration follows it updates the interior nodes of colour 1 before anyone reads
    them, so those get nothing from parents.
    """
    at_once = lanes(children)
    block = 4 * level.planes * at_once
    if not has_parents:
        row = 2 * level.tiles * block
        for place in range(slot * row, (slot + 1) * row):
            children[place] = 0
        return
    upper = y // 2
    even = (2 * upper + upper % 2) * parent.tiles * block
    odd = (2 * upper + 1 - upper % 2) * parent.tiles * block
    for colour in range(2):
        target = (2 * slot + colour) * level.tiles * block
        if colour == 1 and is_updated and 0 < y < level.height - 1:
            _copy_ends(parents, even, odd, parent.width, children, target, block)
        else:
            for tile in range(parent.tiles):
                _copy_tile(parents, even + tile * block, odd + tile * block, children,
                           target + 2 * tile * block, 2 * tile + 1 < level.tiles, block)


@kernel
def _copy_tile(parents: Any, even: int, odd: int, children: Any, target: int, has_second: bool,
               block: int) -> None:
    """Two tiles of one colour: their column is the x of the parent, whose colours alternate."""
    for place in range(0, block, lanes(children)):
        first, second = interleave(load_stored(parents, even + place),
                                   load_stored(parents, odd + place))
        store(children, target + place, first)
        if has_second:
            store(children, target + block + place, second)


@kernel
def _copy_ends(parents: Any, even: int, odd: int, parent_width: int, children: Any, target: int,
               block: int) -> None:
    """Of a row of one colour the two columns that have the nodes on the border."""
    at_once = lanes(children)
    last = parent_width - 1
    source = (odd if last % 2 else even) + last // 2 // at_once * block + last // 2 % at_once
    end = target + last // at_once * block + last % at_once
    for place in range(0, block, at_once):
        children[target + place] = parents[even + place]
        children[end + place] = parents[source + place]


@kernel
def _update_row(cost: Any, messages: Any, scratch: Any, y: int, slots: tuple[int, int, int],
                iteration: int, level: Level, slope: Any, first_step: Any, truncations: Any,
                own_truncations: bool, unreached: Any, exact: bool | None) -> None:
    width, _, labels, tiles, cost_planes, planes = level
    colour = (iteration + 1) % 2
    odd = (y + colour) % 2              # x = 2 * column + odd
    end = (width - odd) // 2
    at_once = lanes(messages)
    for tile in range((end + at_once - 1) // at_once):
        at = arriving(messages, level, slots, y, odd, tile)
        own = ((2 * slots[1] + colour) * tiles + tile) * 4 * planes * at_once
        node = (2 * y + colour) * tiles + tile
        data = node * cost_planes * at_once
        bounds = node * 4 * at_once if own_truncations else 0
        column = tile * at_once
        first, last = 1 - odd - column, end - column
        if exact is None:
            send(cost, data, messages, at, own, scratch, labels, planes, slope, first_step,
                 truncations, bounds, unreached, first, last)
        else:
            send_exactly(cost, data, messages, at, own, scratch, labels, planes, slope,
                         truncations, bounds, unreached, first, last)
