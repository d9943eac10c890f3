"""Filling, the bilateral filter and the confidence, one definition after the other, in NumPy.

Maps are H x W, whole sixteenths of a pixel in the frame of matching; below 0: no value. A window
is a pair of slices, rows and columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

INVALID = -16
#: Weights over 0 to 7 pixels: 64 exp(-k^2 / 128), rounded half up.
SPACE = [math.floor(64 * math.exp(-k * k / 128) + 0.5) for k in range(8)]
#: Widest band; rows above and below, and columns, of the window that a plane is fitted in.
BAND, ROWS, COLUMNS = 159, 10, 128
#: Largest residuals of the rounds, sixteenths.
RESIDUALS = 96, 48, 24, 24
MIN_INLIERS = 60


def background(values: Array, window: tuple[slice, slice]) -> Array:
    """Holes of the window with the smaller of the nearest values left and right in it."""
    rows, columns = window
    out = values.copy()
    for y in range(rows.start, rows.stop):
        for x in range(columns.start, columns.stop):
            if values[y, x] < 0:
                left = [v for v in values[y, columns.start:x][::-1] if v >= 0][:1]
                right = [v for v in values[y, x + 1:columns.stop] if v >= 0][:1]
                out[y, x] = min(left + right, default=INVALID)
    return out


def plane(values: Array, window: tuple[slice, slice], y: int) -> tuple[int, int, int] | None:
    """First valid column of a row, slope and value there in 4096ths of a sixteenth; or None."""
    rows, columns = window
    valid = np.flatnonzero(values[y, columns] >= 0)
    if valid.size == 0 or not 1 <= valid[0] <= BAND:
        return None
    first = columns.start + int(valid[0])
    points = [(x - first, below - y, int(values[below, x]))
              for below in range(max(rows.start, y - ROWS), min(rows.stop, y + ROWS + 1))
              for x in range(first, min(columns.stop, first + COLUMNS)) if values[below, x] >= 0]
    own = sorted(v for _, t, v in points if t == 0)
    a, b, c = 0, 0, own[(len(own) - 1) // 2] << 12
    for residual in RESIDUALS:
        inliers = [(u, t, v) for u, t, v in points
                   if abs((v << 12) - (a * u + b * t + c)) < residual << 12]
        if len(inliers) < MIN_INLIERS:
            return None
        solved = least_squares(inliers)
        if solved is None:
            return None
        a, b, c = solved
    return (first, a, c) if 2 * len(inliers) >= len(points) else None


def least_squares(points: list[tuple[int, int, int]]) -> tuple[int, int, int] | None:
    """Slopes and constant of v = a u + b t + c by Cramer's rule, bounded, in 4096ths."""
    n = len(points)
    u, t, uu, ut, tt, v, uv, tv = (sum(f(*point) for point in points) for f in (
        lambda u, t, v: u, lambda u, t, v: t, lambda u, t, v: u * u, lambda u, t, v: u * t,
        lambda u, t, v: t * t, lambda u, t, v: v, lambda u, t, v: u * v, lambda u, t, v: t * v))

    def determinant(p: tuple[int, int, int], q: tuple[int, int, int],
                    r: tuple[int, int, int]) -> int:
        return (p[0] * (q[1] * r[2] - q[2] * r[1]) - q[0] * (p[1] * r[2] - p[2] * r[1])
                + r[0] * (p[1] * q[2] - p[2] * q[1]))

    of_u, of_t, of_1, of_v = (uu, ut, u), (ut, tt, t), (u, t, n), (uv, tv, v)
    whole = determinant(of_u, of_t, of_1)
    if whole <= 0:
        return None

    def quotient(part: int, least: int, most: int) -> int:
        # Both are rounded to float64 first, then their quotient.
        return min(max(math.floor(4096 * (float(part) / float(whole)) + 0.5), least), most)

    return (quotient(determinant(of_v, of_t, of_1), -32768, 6554),
            quotient(determinant(of_u, of_v, of_1), -2**18, 2**18),
            quotient(determinant(of_u, of_t, of_v), -2**26, 2**26))


def with_planes(values: Array, filled: Array, window: tuple[slice, slice], most: int) -> Array:
    """``filled`` with the planes of ``values`` in the band; ``most``: the largest value."""
    rows, columns = window
    out = filled.copy()
    for y in range(rows.start, rows.stop):
        found = plane(values, window, y)
        if found is not None:
            first, a, c = found
            for x in range(columns.start, first):
                out[y, x] = min(max((a * (x - first) + c + 2048) >> 12, 0), most)
    return out


def bilateral(values: Array, passes: int, sigma: float) -> Array:
    """The filter along x, then along y, ``passes`` times; what has no value takes no part."""
    factor = math.floor(65536 / (40 * sigma) + 0.5)
    for axis in (1, 0) * passes:
        values = _along(values.astype(np.int64), axis, factor)
    return values


def _along(values: Array, axis: int, factor: int) -> Array:
    size = values.shape[axis]
    weights, sums = np.zeros_like(values), np.zeros_like(values)
    for k in range(-7, 8):
        others = np.take(values, np.clip(np.arange(size) + k, 0, size - 1), axis)
        distance = np.minimum((np.abs(others - values) * factor) >> 8, 256)
        fall = 256 - ((distance * distance) >> 8)
        weight = np.where(others < 0, 0, SPACE[abs(k)] * ((fall * fall) >> 8))
        weights += weight
        sums += weight * others
    return np.where(values < 0, INVALID, (sums + weights // 2) // np.maximum(weights, 1))


def own_confidence(inputs: Mapping[str, Array], valid: Array, largest_cost: float = 30.0) -> Array:
    """Of each pixel in steps of 1 / 255, 0 where invalid."""
    lead = (inputs['second'].astype(float) - inputs['best']) / largest_cost
    return np.where(valid, np.floor(255 * np.clip(lead, 0, 1) + 0.5), 0)


def is_at_jump(sixteenths: Array, y: int, x: int) -> bool:
    """Whether a neighbour is more than two pixels away in disparity, or one of both invalid."""
    height, width = sixteenths.shape
    own = int(sixteenths[y, x])
    others = [int(sixteenths[v, u]) for v, u in ((y, x - 1), (y, x + 1), (y - 1, x), (y + 1, x))
              if 0 <= v < height and 0 <= u < width]
    return any((own < 0) != (other < 0) or abs(own - other) > 32 for other in others)


def confidence(inputs: Mapping[str, Array], sixteenths: Array, side: int) -> Array:
    """By definition: the mean lead of the window by r / (r + 1/2), r the pixels to a jump."""
    steps = own_confidence(inputs, sixteenths >= 0)
    height, width = steps.shape
    radius = side // 2
    jumps = np.array([place for place in np.ndindex(height, width)
                      if is_at_jump(sixteenths, *place)]).reshape(-1, 2)
    found = np.zeros(steps.shape)
    for y, x in np.argwhere(sixteenths >= 0):
        mean = steps[max(0, y - radius):y + radius + 1, max(0, x - radius):x + radius + 1].mean()
        away = np.abs(jumps - (y, x)).max(axis=1).min(initial=radius) + 1
        found[y, x] = mean / 255 * away / (away + 0.5)
    return found
