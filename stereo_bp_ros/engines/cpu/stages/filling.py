"""Part of stage ``refine``: values for pixels without one, from those beside them.

Maps are int16 H x W in sixteenths of a pixel, below 0 = no value. A window is x_begin, x_end,
y_begin, y_end. ``docs/explanation/algorithms.md`` defines both ways.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel

#: Widest band that a plane fills, and the window that it is fitted in: rows above and below, and
#: columns.
BAND, ROWS, COLUMNS = 159, 10, 128

#: Largest residuals of the rounds of least squares, sixteenths.
RESIDUALS = (96, 48, 24, 24)
MIN_INLIERS = 60

#: Bounds of a plane's slopes along x and y and of its constant, in 4096ths of a sixteenth.
SLOPES_X, SLOPE_Y, CONSTANT = (-32768, 6554), 2**18, 2**26


@parallel_kernel
def fill(values: Any, x_begin: int, x_end: int, y_begin: int, y_end: int, with_planes: bool,
         most: int, out: Any) -> None:
    """Write ``values`` with its holes inside the window filled to ``out``.

    Each gets the smaller of the nearest values left and right of it in the window, or the only
    one. ``with_planes``: those left of the first value of a row get a plane through what lies
    beside them, from 0 to ``most``, where there is one.
    """
    for y in numba.prange(values.shape[0]):
        row = out[y]
        row[:] = values[y]
        if y_begin <= y < y_end:
            _fill_background(row[x_begin:x_end])
            if with_planes:
                _fill_band(values, x_begin, x_end, y_begin, y_end, y, most, row)


@kernel
def _fill_background(row: Any) -> None:
    width = row.shape[0]
    x = 0
    while x < width:
        if row[x] >= 0:
            x += 1
            continue
        end = x
        while end < width and row[end] < 0:
            end += 1
        left = row[x - 1] if x > 0 else np.int16(-1)
        right = row[end] if end < width else np.int16(-1)
        value = max(left, right) if left < 0 or right < 0 else min(left, right)
        for i in range(x, end):
            row[i] = value if value >= 0 else row[i]
        x = end


@kernel
def _fill_band(values: Any, x_begin: int, x_end: int, y_begin: int, y_end: int, y: int,
               most: int, out: Any) -> None:
    first = x_begin
    while first < x_end and values[y, first] < 0:
        first += 1
    if first == x_end or not 1 <= first - x_begin <= BAND:
        return
    end = min(x_end, first + COLUMNS)
    top, bottom = max(y_begin, y - ROWS), min(y_end, y + ROWS + 1)
    is_found, slope, constant = _plane(values, y, top, bottom, first, end)
    if is_found:
        for x in range(x_begin, first):
            value = (slope * (x - first) + constant + 2048) >> 12
            out[x] = min(max(value, 0), most)


@kernel
def _plane(values: Any, y: int, top: int, bottom: int, first: int, end: int
           ) -> tuple[bool, int, int]:
    """Whether a window has a plane, its slope along x, and its value at (first, y)."""
    a, b, c = 0, 0, _lower_median(values[y][first:end]) << 12
    points = inliers = 0
    for residual in RESIDUALS:
        points = n = u = t = uu = ut = tt = v = uv = tv = 0
        for row in range(top - y, bottom - y):
            valid, n_, u_, uu_, v_, uv_ = _row_sums(
                values[y + row][first:end], np.int32(a), np.int32(b * row + c),
                np.int32(residual << 12))
            points += valid
            n += n_
            u += u_
            uu += uu_
            v += v_
            uv += uv_
            t += row * n_
            tt += row * row * n_
            ut += row * u_
            tv += row * v_
        inliers = n
        # Cramer's rule; the largest determinant is 2^61.
        minor = tt * n - t * t
        whole = uu * minor - ut * (ut * n - t * u) + u * (ut * t - tt * u)
        if inliers < MIN_INLIERS or whole <= 0:
            return False, 0, 0
        with_v = tv * n - t * v
        a = _quotient(uv * minor - ut * with_v + u * (tv * t - tt * v), whole, *SLOPES_X)
        b = _quotient(uu * with_v - uv * (ut * n - t * u) + u * (ut * v - tv * u), whole,
                      -SLOPE_Y, SLOPE_Y)
        c = _quotient(uu * (tt * v - tv * t) - ut * (ut * v - tv * u) + uv * (ut * t - tt * u),
                      whole, -CONSTANT, CONSTANT)
    return 2 * inliers >= points, a, c


@kernel
def _row_sums(row: Any, slope: Any, constant: Any, residual: Any) -> tuple[Any, ...]:
    """Of the valid pixels their number, of the inliers n, sum u, u^2, v and u v."""
    valid = n = su = suu = sv = suv = np.int32(0)
    for i in range(row.shape[0]):
        u, v = np.int32(i), np.int32(row[i])
        error = abs(np.int32((v << np.int32(12)) - np.int32(np.int32(slope * u) + constant)))
        is_valid = np.int32(v >= 0)
        one = np.int32(is_valid & np.int32(error < residual))
        at = np.int32(one * u)
        value = np.int32(one * v)
        valid = np.int32(valid + is_valid)
        n = np.int32(n + one)
        su = np.int32(su + at)
        suu = np.int32(suu + np.int32(at * u))
        sv = np.int32(sv + value)
        suv = np.int32(suv + np.int32(at * v))
    return (np.int64(valid), np.int64(n), np.int64(su), np.int64(suu), np.int64(sv),
            np.int64(suv))


@kernel
def _quotient(part: int, whole: int, least: int, most: int) -> int:
    found = np.floor(4096.0 * (np.float64(part) / np.float64(whole)) + 0.5)
    return int(min(max(found, np.float64(least)), np.float64(most)))


@kernel
def _lower_median(row: Any) -> int:
    """Of the values of a row, by bisection."""
    count = 0
    for value in row:
        count += value >= 0
    least, most = 0, 2**15 - 1
    while least < most:
        middle = (least + most) // 2
        below = 0
        for value in row:
            below += 0 <= value <= middle
        if 2 * below >= count:
            most = middle
        else:
            least = middle + 1
    return least
