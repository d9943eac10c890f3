"""How messages are kept, see ``memory.Level``: as values, or in int8 as differences of labels.

Reading goes over rising labels, writing over falling ones:

    values = start_values(messages, at)
    for every label: values = next_values(messages, at, label, values)

The arrays' type decides at compilation which of the two it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from stereo_bp_ros.engines.cpu.memory import DOWN, LEFT, RIGHT, UP, Level
from stereo_bp_ros.engines.cpu.simd.runtime import by_types, kernel
from stereo_bp_ros.engines.cpu.simd.vectors import following, lanes, load, preceding, splat


@by_types
def lead(messages: Any) -> Any:
    """How many planes come before that of label 0."""
    count = int(messages.dtype == types.int8)
    return lambda messages: count


@by_types
def _start(messages: Any, first_plane: Any) -> Any:
    """What the values of label 0 are added to."""
    if messages.dtype == types.int8:
        return lambda messages, first_plane: first_plane << splat(np.uint16(8))
    return lambda messages, first_plane: first_plane


@by_types
def _advance(messages: Any, value: Any, plane: Any) -> Any:
    """The values of a label from those of the one before and what is kept of it."""
    if messages.dtype == types.int8:
        return lambda messages, value, plane: value + plane
    return lambda messages, value, plane: plane


@by_types
def kept(messages: Any, value: Any, before: Any) -> Any:
    """What is kept of the values of a label from 1 on; ``before``: of the label before."""
    if messages.dtype == types.int8:
        return lambda messages, value, before: value - before
    return lambda messages, value, before: value


@by_types
def deferred(messages: Any, least: Any, zero: Any) -> Any:
    """What need not be subtracted from every label: no difference knows of it."""
    if messages.dtype == types.int8:
        return lambda messages, least, zero: least
    return lambda messages, least, zero: zero


@by_types
def upper(messages: Any, value: Any) -> Any:
    """What the first plane has, given the values of label 0.

    In int8 their lower byte, which follows, counts from -128 to 127.
    """
    if messages.dtype == types.int8:
        return lambda messages, value: (value + splat(np.uint16(128))) >> splat(np.uint16(8))
    return lambda messages, value: value


class Arriving(NamedTuple):
    """Offsets of the messages that reach a tile's nodes: of their first planes.

    beyond: of the tile that has the lane which the right neighbours of nodes with ``odd`` x, or
    the left ones of the others, lack; nobody needs the lane beyond the image.
    """

    below: int
    above: int
    right: int
    left: int
    beyond: int
    odd: int


@kernel
def arriving(messages: Any, level: Level, slots: tuple[int, int, int], y: int, odd: int,
             tile: int) -> Any:
    """What reaches the nodes x = 2 column + odd of a tile of row y.

    :param slots: where the messages of rows y - 1, y and y + 1 lie.
    """
    sent = level.planes * lanes(messages)
    block = 4 * sent
    row = level.tiles * block
    above, own, below = slots
    place = (1 - (y + odd) % 2) * row + tile * block
    beside = 2 * own * row + place
    right, left = beside + LEFT * sent, beside + RIGHT * sent
    if odd:
        beyond = right + block if tile + 1 < level.tiles else right
    else:
        beyond = left - block if tile > 0 else left
    return Arriving(2 * below * row + place + UP * sent, 2 * above * row + place + DOWN * sent,
                    right, left, beyond, odd)


@kernel
def load_planes(messages: Any, at: Any, plane: int) -> Any:
    """One plane of what arrives from below, above, right and left.

    The right neighbour of a node with odd x has the next column, the left one of a node with even
    x the one before.
    """
    right, left = load(messages, at.right + plane), load(messages, at.left + plane)
    missing = load(messages, at.beyond + plane)
    if at.odd:
        right = following(right, missing)
    else:
        left = preceding(left, missing)
    return load(messages, at.below + plane), load(messages, at.above + plane), right, left


@kernel
def start_values(messages: Any, at: Any) -> Any:
    """What the values of label 0 from below, above, right and left are added to."""
    below, above, right, left = load_planes(messages, at, 0)
    return (_start(messages, below), _start(messages, above), _start(messages, right),
            _start(messages, left))


@kernel
def next_values(messages: Any, at: Any, label: int, values: Any) -> Any:
    """The values of a label from those of the one before."""
    below, above, right, left = load_planes(messages, at,
                                            (lead(messages) + label) * lanes(messages))
    return (_advance(messages, values[0], below), _advance(messages, values[1], above),
            _advance(messages, values[2], right), _advance(messages, values[3], left))
