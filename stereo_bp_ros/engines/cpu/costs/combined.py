"""The weighted sum of costs of a pixel, and tiles of pixels.

A pixel has its labels side by side, padded with 255 to whole vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from stereo_bp_ros.engines.cpu.costs import layout
from stereo_bp_ros.engines.cpu.costs.features import MODULES
from stereo_bp_ros.engines.cpu.memory import Level
from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.cpu.simd.bytes import (
    SQUARE,
    saturating_sum,
    scaled,
    store_bytes,
    transpose,
)
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import minimum, splat

#: Cost of the labels that a vector has beyond the last one.
BEYOND = 255


def added_costs(terms: Any, total: Any, left: Any, left_row: int, right: Any, right_row: int,
                own: int, others: int) -> Any:
    """``total`` plus the costs of 64 labels of a pixel.

    :param terms: the last ones of ``layout.terms``, their four numbers one after the other.
    :param left_row, right_row: where a row's features start, bytes.
    :param own, others: pixels from there.
    """
    raise TypeError('for kernels only')


@overload(added_costs)
def _added_costs(terms: Any, total: Any, left: Any, left_row: Any, right: Any, right_row: Any,
                 own: Any, others: Any) -> Any:
    def nothing(terms: Any, total: Any, left: Any, left_row: Any, right: Any, right_row: Any,
                own: Any, others: Any) -> Any:
        return total

    if len(terms) == 0:
        return nothing
    place = -len(terms) // len(layout.Term._fields)
    distance, size = MODULES[place].distance, list(layout.COSTS.values())[place]

    def first_and_others(terms: Any, total: Any, left: Any, left_row: Any, right: Any,
                         right_row: Any, own: Any, others: Any) -> Any:
        of_left, of_right, weight, bound = terms[:4]
        if weight:
            value = distance(left, left_row + of_left + size * own,
                             right, right_row + of_right + size * others)
            value = minimum(value, splat(np.uint8(bound)))
            total = saturating_sum(total, scaled(value, np.uint16(weight)))
        return added_costs(terms[4:], total, left, left_row, right, right_row, own, others)
    return first_and_others


@kernel
def costs_of_pixel(terms: Any, left: Any, left_row: int, right: Any, right_row: int,
                   image_width: int, x: int, labels: int, label_bytes: int, min_disparity: int,
                   outside: int, costs: Any, place: int) -> None:
    """All labels of the pixel ``x`` of the left image, from ``costs[place]`` on."""
    for label in range(0, labels, VECTOR_BYTES):
        total = added_costs(terms, splat(np.uint8(0)), left, left_row, right, right_row, x,
                            image_width - 1 - x + label)
        store_bytes(costs, place + label, total)
    # Labels [first, end) have a partner.
    first = min(labels, x - min_disparity - image_width + 1)
    end = max(0, x - min_disparity + 1)
    for label in range(first):
        costs[place + label] = np.uint8(outside)
    for label in range(end, labels):
        costs[place + label] = np.uint8(outside)
    for label in range(labels, label_bytes):
        costs[place + label] = np.uint8(BEYOND)


@kernel
def fill_tiles(pixels: Any, row: int, label_bytes: int, level: Level, y: int, tile: int,
               cost: Any) -> None:
    """A tile [plane][lane] of each colour from its pixels' labels.

    :param row: where the labels of the row's first pixel start, bytes.
    """
    for odd in range(2):
        start = row + (2 * tile * SQUARE + odd) * label_bytes
        place = (((2 * y + (y + odd) % 2) * level.tiles + tile) * level.cost_planes) * SQUARE
        for label in range(0, label_bytes, SQUARE):
            transpose(pixels, start + label, 2 * label_bytes, cost, place + label * SQUARE)


@kernel
def clear_pixel(label_bytes: int, pixels: Any, place: int) -> None:
    """Zeros where a tile has columns beyond the image."""
    for label in range(0, label_bytes, VECTOR_BYTES):
        store_bytes(pixels, place + label, splat(np.uint8(0)))
