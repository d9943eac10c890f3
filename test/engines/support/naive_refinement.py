"""Filling, the bilateral filter and the confidence, one definition after the other, in NumPy.

Maps are H x W, whole sixteenths of a pixel in the frame of matching; below 0: no value. A window
is a pair of slices, rows and columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

INVALID = -16
#: Weights over 0 to 7 pixels: 64 exp(-k^2 / 128), rounded half up.
SPACE = [math.floor(64 * math.exp(-k * k / 128) + 0.5) for k in range(8)]
#: Largest residuals of the rounds, sixteenths.
RESIDUALS = 128, 64, 40, 32


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


def between(row: Array, trusted: Array, columns: slice, x: int) -> int | None:
    """What lies between the nearest trusted values of a row: the smaller where they are far."""
    left = next((i for i in range(x - 1, columns.start - 1, -1) if trusted[i]), None)
    right = next((i for i in range(x + 1, columns.stop) if trusted[i]), None)
    if left is None or right is None:
        ends = [int(row[i]) for i in (left, right) if i is not None]
        return ends[0] if ends else None
    n, ends = right - left, [int(row[left]), int(row[right])]
    if abs(ends[0] - ends[1]) > 32 + 2 * n:
        return min(ends)
    return (ends[0] * (right - x) + ends[1] * (x - left) + n // 2) // n


def samples(values: Array, trusted: Array, sure: Array, grey: Array, x: int, y: int,
            threshold: float) -> list[tuple[int, int, int, int]]:
    """Columns and rows in steps of seven pixels, values and weights around a pixel."""
    height, width = values.shape
    whole = np.floor(grey + 0.5).astype(int)
    around = np.pad(whole, 8, 'edge')[y + 6:y + 11, x + 6:x + 11]
    own = (2 * int(around.sum()) + 25) // 50
    found = []
    for j in range(-8, 9):
        for i in range(-8, 9):
            row, column = y + 7 * j, x + 7 * i
            if 0 <= row < height and 0 <= column < width and trusted[row, column]:
                k = min(abs(own - int(whole[row, column])), 255)
                likeness = math.floor(Fraction(64 * 144, 144 + k * k) + Fraction(1, 2))
                quality = 255
                if threshold:
                    quality = int(min(max(24 * (float(sure[row, column]) / threshold) - 12, 1),
                                      255))
                found.append((i, j, int(values[row, column]), likeness * quality // 256))
    return found


def plane(points: list[tuple[int, int, int, int]]) -> tuple[int, int, int, Fraction] | None:
    """Slopes and constant in 4096ths by weighted least squares, and the share of the inliers."""
    weight = sum(w for *_, w in points)
    a, b, c = 0, 0, min(v for _, _, v, _ in points if 2 * sum(
        w for _, _, other, w in points if other <= v) >= weight) << 12
    for residual in RESIDUALS:
        inliers = [(i, j, v, w) for i, j, v, w in points
                   if abs((v << 12) - (a * i + b * j + c)) < residual << 12]
        n = sum(w for *_, w in inliers)
        if n == 0:
            return None

        def total(f: Callable[[int, int, int], int],
                  of: list[tuple[int, int, int, int]] = inliers) -> int:
            return sum(w * f(i, j, v) for i, j, v, w in of)

        si, sj, sv = (total(lambda *p, k=k: p[k]) for k in range(3))

        def spread(f: Callable[[int, int, int], int], one: int, other: int, n: int = n) -> float:
            return float(n * total(f) - one * other)

        ridge = 0.04 * float(n * n)
        ii = spread(lambda i, j, v: i * i, si, si) + ridge
        jj = spread(lambda i, j, v: j * j, sj, sj) + ridge
        ij = spread(lambda i, j, v: i * j, si, sj)
        iv, jv = spread(lambda i, j, v: i * v, si, sv), spread(lambda i, j, v: j * v, sj, sv)
        whole = ii * jj - ij * ij
        a = math.floor(4096 * ((iv * jj - jv * ij) / whole) + 0.5)
        b = math.floor(4096 * ((jv * ii - iv * ij) / whole) + 0.5)
        c = math.floor(float((sv << 12) - a * si - b * sj) / n + 0.5)
    return a, b, c, Fraction(n, weight)


def with_planes(values: Array, filled: Array, sure: Array, grey: Array,
                window: tuple[slice, slice], threshold: float, most: int) -> Array:
    """``filled`` with planes where values are missing or not sure; ``most``: the largest value."""
    rows, columns = window
    trusted = np.zeros(values.shape, bool)
    trusted[window] = ((values >= 0) & (sure >= threshold))[window]
    all_trusted = (values >= 0) & (sure >= threshold)
    out = filled.copy()
    for y in range(rows.start, rows.stop):
        for x in range(columns.start, columns.stop):
            if trusted[y, x]:
                continue
            centre = x // 8 * 8 + 4, y // 8 * 8 + 4
            points = samples(values, all_trusted, sure, grey, *centre, threshold)
            found = plane(points) if len(points) >= 12 else None
            if found is None:
                continue
            a, b, c, support = found
            slant = (a * (x - centre[0]) + b * (y - centre[1])) // 7
            value = min(max((slant + c + 2048) >> 12, 0), most)
            near = between(values[y], trusted[y], columns, x)
            if support >= Fraction(8, 10) or (
                    2 * support >= 1 and near is not None and abs(near - value) <= 32):
                out[y, x] = value
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


def is_at_jump(sixteenths: Array, y: int, x: int) -> bool:
    """Whether a neighbour is more than two pixels away in disparity, or one of both invalid."""
    height, width = sixteenths.shape
    own = int(sixteenths[y, x])
    others = [int(sixteenths[v, u]) for v, u in ((y, x - 1), (y, x + 1), (y - 1, x), (y + 1, x))
              if 0 <= v < height and 0 <= u < width]
    return any((own < 0) != (other < 0) or abs(own - other) > 32 for other in others)


def confidence(inputs: Mapping[str, Array], sixteenths: Array, window: tuple[slice, slice]
               ) -> Array:
    """That of belief propagation, whose largest cost is 30."""
    lead = (inputs['second'].astype(float) - inputs['best']) / 30.0
    return confidence_of(np.clip(lead, 0, 1), sixteenths, window)


def confidence_of(lead: Array, sixteenths: Array, window: tuple[slice, slice]) -> Array:
    """By definition: the mean lead by r / (r + 1/2), r the pixels to a jump, by 8 / (8 + B), B the
    mean bend of the filled map, and by the square of the share of pixels with a value."""
    steps = np.where(sixteenths >= 0, np.floor(255 * lead + 0.5), 0)
    height, width = steps.shape
    wide = np.pad(background(sixteenths, window).astype(int), 8, 'edge')
    middle, inside = 2 * wide[8:-8, 8:-8], slice(8, -8)
    bends = np.minimum(np.minimum(abs(middle - wide[inside, :-16] - wide[inside, 16:]),
                                  abs(middle - wide[:-16, inside] - wide[16:, inside])), 128)
    jumps = np.array([place for place in np.ndindex(height, width)
                      if is_at_jump(sixteenths, *place)]).reshape(-1, 2)
    found = np.zeros(steps.shape)

    def mean(values: Array, y: int, x: int, radius: int) -> float:
        return float(values[max(0, y - radius):y + radius + 1,
                            max(0, x - radius):x + radius + 1].mean())

    for y, x in np.ndindex(height, width):
        away = np.abs(jumps - (y, x)).max(axis=1).min(initial=5) + 1
        found[y, x] = (mean(steps, y, x, 5) / 255 * away / (away + 0.5)
                       * 8 / (8 + mean(bends, y, x, 10)) * mean(sixteenths >= 0, y, x, 25) ** 2)
    return found
