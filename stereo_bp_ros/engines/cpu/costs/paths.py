"""Costs along paths from four sides, as in semi-global matching, on vectors of labels.

No cost on a path exceeds 255, so saturating sums of bytes are exact.

Hirschmueller, Stereo Processing by Semiglobal Matching and Mutual Information, section 2.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import (
    following,
    halves,
    joined,
    least_lane,
    load,
    load_bytes,
    minimum,
    preceding,
    saturating_difference,
    saturating_sum,
    splat,
    store,
    store_bytes,
)


@kernel
def begin_path(costs: Any, place: int, path: Any, target: int, label_bytes: int) -> None:
    """The first pixel of a path has its data cost."""
    for label in range(0, label_bytes, VECTOR_BYTES):
        store_bytes(path, target + label, load_bytes(costs, place + label))


@kernel
def extend_path(before: Any, source: int, costs: Any, place: int, path: Any, target: int,
                label_bytes: int, step: Any, jump: Any) -> None:
    """One pixel of a path from the one before it; ``step``, ``jump``: uint8."""
    lanes = load_bytes(before, source)
    for label in range(VECTOR_BYTES, label_bytes, VECTOR_BYTES):
        lanes = minimum(lanes, load_bytes(before, source + label))
    least = splat(least_lane(lanes))
    bound, penalty = saturating_sum(least, splat(jump)), splat(step)
    edge = splat(np.uint8(255))
    lower, own = edge, load_bytes(before, source)
    for label in range(0, label_bytes, VECTOR_BYTES):
        upper = edge
        if label + VECTOR_BYTES < label_bytes:
            upper = load_bytes(before, source + label + VECTOR_BYTES)
        beside = minimum(preceding(own, lower), following(own, upper))
        reached = minimum(minimum(own, bound), saturating_sum(beside, penalty))
        cost = load_bytes(costs, place + label)
        store_bytes(path, target + label,
                    saturating_sum(cost, saturating_difference(reached, least)))
        lower, own = own, upper


@kernel
def settle_pixel(across: Any, right: int, left: int, down: Any, down_at: int, up: Any,
                 up_at: int, total: Any, label_bytes: int) -> None:
    """A quarter of the sum of four paths, less its minimum, rounded half up: at most 255.

    :param across: has the paths to the right, which the result replaces, and to the left.
    :param total: scratch of uint16, a pixel's labels.
    """
    half = VECTOR_BYTES // 2
    least = splat(np.uint16(65535))
    for label in range(0, label_bytes, VECTOR_BYTES):
        a, b = halves(load_bytes(across, right + label))
        c, d = halves(load_bytes(across, left + label))
        e, f = halves(load_bytes(down, down_at + label))
        g, h = halves(load_bytes(up, up_at + label))
        first, last = (a + c) + (e + g), (b + d) + (f + h)
        store(total, label, first)
        store(total, label + half, last)
        least = minimum(least, minimum(first, last))
    rest = splat(least_lane(least)) - splat(np.uint16(2))
    shift = splat(np.uint16(2))
    for label in range(0, label_bytes, VECTOR_BYTES):
        first = (load(total, label) - rest) >> shift
        last = (load(total, label + half) - rest) >> shift
        store_bytes(across, right + label, joined(first, last))
