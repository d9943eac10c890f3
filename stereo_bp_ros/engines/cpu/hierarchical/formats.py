"""How messages are kept, see ``memory.Level``: as values, or in int8 as differences of labels.

Reading goes over rising labels, writing over falling ones:

    value = start(messages, load(messages, <first plane>))
    for every label: value = advance(messages, value, load(messages, <plane of the label>))

The arrays' type decides at compilation which of the two it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import following, load, preceding, splat


def lead(messages: Any) -> int:
    """How many planes come before that of label 0."""
    raise TypeError('for kernels only')


@overload(lead)
def _lead_of_types(messages: Any) -> Any:
    count = int(messages.dtype == types.int8)

    def known(messages: Any) -> int:
        return count
    return known


def start(messages: Any, first_plane: Any) -> Any:
    """What the values of label 0 are added to."""
    raise TypeError('for kernels only')


@overload(start)
def _start_of_types(messages: Any, first_plane: Any) -> Any:
    def upper_byte(messages: Any, first_plane: Any) -> Any:
        return first_plane << splat(np.uint16(8))

    def nothing(messages: Any, first_plane: Any) -> Any:
        return first_plane
    return upper_byte if messages.dtype == types.int8 else nothing


def advance(messages: Any, value: Any, plane: Any) -> Any:
    """The values of a label from those of the one before and what is kept of it."""
    raise TypeError('for kernels only')


@overload(advance)
def _advance_of_types(messages: Any, value: Any, plane: Any) -> Any:
    def add(messages: Any, value: Any, plane: Any) -> Any:
        return value + plane

    def replace(messages: Any, value: Any, plane: Any) -> Any:
        return plane
    return add if messages.dtype == types.int8 else replace


def kept(messages: Any, value: Any, before: Any) -> Any:
    """What is kept of the values of a label from 1 on; ``before``: of the label before."""
    raise TypeError('for kernels only')


@overload(kept)
def _kept_of_types(messages: Any, value: Any, before: Any) -> Any:
    def difference(messages: Any, value: Any, before: Any) -> Any:
        return value - before

    def itself(messages: Any, value: Any, before: Any) -> Any:
        return value
    return difference if messages.dtype == types.int8 else itself


def deferred(messages: Any, least: Any, zero: Any) -> Any:
    """What need not be subtracted from every label: no difference knows of it."""
    raise TypeError('for kernels only')


@overload(deferred)
def _deferred_of_types(messages: Any, least: Any, zero: Any) -> Any:
    def everything(messages: Any, least: Any, zero: Any) -> Any:
        return least

    def nothing(messages: Any, least: Any, zero: Any) -> Any:
        return zero
    return everything if messages.dtype == types.int8 else nothing


def upper(messages: Any, value: Any) -> Any:
    """What the first plane has, given the values of label 0.

    In int8 their lower byte, which follows, counts from -128 to 127.
    """
    raise TypeError('for kernels only')


@overload(upper)
def _upper_of_types(messages: Any, value: Any) -> Any:
    def upper_byte(messages: Any, value: Any) -> Any:
        return (value + splat(np.uint16(128))) >> splat(np.uint16(8))

    def itself(messages: Any, value: Any) -> Any:
        return value
    return upper_byte if messages.dtype == types.int8 else itself


@kernel
def load_beside(messages: Any, from_right: int, from_left: int, beyond: int, odd: int) -> Any:
    """What the right and the left neighbours of a tile's nodes have in one plane.

    The right neighbour of a node with odd x has the next column, the left one of a node with even
    x the one before; the lane that the tile lacks is in the tile ``beyond``.
    """
    right, left = load(messages, from_right), load(messages, from_left)
    missing = load(messages, beyond)
    if odd:
        right = following(right, missing)
    else:
        left = preceding(left, missing)
    return right, left


@kernel
def beyond_tile(from_right: int, from_left: int, odd: int, tile: int, tiles: int,
                block: int) -> int:
    """The argument ``beyond`` of ``load_beside``; nobody needs the lane beyond the image."""
    if odd:
        return from_right + block if tile + 1 < tiles else from_right
    return from_left - block if tile > 0 else from_left
