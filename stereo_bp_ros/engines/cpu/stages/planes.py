"""Part of stage ``refine``: planes for pixels that have no value, or one that is not trusted.

Maps are int16 H x W in sixteenths of a pixel, below 0 = no value. A window is x_begin, x_end,
y_begin, y_end. ``docs/explanation/algorithms.md`` defines every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel

#: Side of a cell, which has one plane; samples lie STEP pixels apart, REACH of them to each side.
CELL, STEP, REACH = 8, 7, 8
SAMPLES = (2 * REACH + 1) ** 2
MIN_SAMPLES = 12

#: Largest residuals of the rounds of weighted least squares, sixteenths.
RESIDUALS = (128, 64, 40, 32)

#: Added to the variances of the places of samples, in steps squared.
RIDGE = 0.04

_FALL = 144 + np.arange(256) ** 2

#: 64 / (1 + (k / 12)^2) by the difference k to the grey value of the cell, rounded.
LIKENESS = (2 * 64 * 144 + _FALL) // (2 * _FALL)

#: Bounds of slopes and of the constant, in 4096ths of a sixteenth.
SLOPE, CONSTANT = float(2**19), float(2**26)

#: In place of a value: the pixel keeps its own; it has none to be compared with.
KEPT, NONE = -2, -1


@parallel_kernel
def fill(cell_y: int, valid: Any, confidence: Any, grey: Any, x_begin: int, x_end: int,
         y_begin: int, y_end: int, threshold: float, most: int, out: Any) -> None:
    """Replace what is not trusted in the window of ``out`` by planes through what is trusted.

    :param cell_y: row of cells.
    :param valid: the map before it was filled.
    :param confidence: float32 H x W; a valid pixel is trusted from ``threshold`` on.
    :param grey: float32 H x W, the reference image.
    :param most: sixteenths of the maximum disparity.
    :param out: the filled map.
    """
    height, width = valid.shape
    top = cell_y * CELL
    rows = min(CELL, height - top)
    between = np.empty((CELL, width), np.int16)
    samples = np.empty((4, SAMPLES), np.int32)
    for i in range(rows):
        between[i] = KEPT
        if y_begin <= top + i < y_end:
            _interpolate(valid[top + i, x_begin:x_end], confidence[top + i, x_begin:x_end],
                         threshold, between[i, x_begin:x_end])
    for left in range(0, width, CELL):
        cell = between[:rows, left:left + CELL]
        if _is_kept(cell):
            continue
        x, y = left + CELL // 2, top + CELL // 2
        count = _sample(valid, confidence, grey, x, y, threshold, samples)
        if count >= MIN_SAMPLES:
            is_found, a, b, c, inliers, weight = _plane(
                samples[0, :count], samples[1, :count], samples[2, :count],
                samples[3, :count])
            if is_found and 2 * inliers >= weight:
                _apply(cell, a, b, c, 10 * inliers >= 8 * weight, most,
                       out[top:top + rows, left:left + CELL])


@kernel
def _interpolate(valid: Any, confidence: Any, threshold: float, out: Any) -> None:
    """What lies between the nearest trusted values of a row, where a pixel is not trusted.

    Where these are far apart it is the smaller one.
    """
    width, last = valid.shape[0], -1
    for x in range(width + 1):
        if x < width and not _is_trusted(valid[x], confidence[x], threshold):
            continue
        n = x - last
        left = valid[last] if last >= 0 else NONE
        right = valid[x] if x < width else NONE
        for k in range(1, n):
            value = min(left, right)
            if left < 0 or right < 0:
                value = max(left, right)
            elif abs(left - right) <= 32 + 2 * n:
                value = (left * (n - k) + right * k + n // 2) // n
            out[last + k] = max(value, NONE)
        last = x


@kernel
def _is_trusted(value: Any, confidence: Any, threshold: float) -> Any:
    return value >= 0 and np.float64(confidence) >= threshold


@kernel
def _is_kept(cell: Any) -> bool:
    for i in range(cell.shape[0]):
        for j in range(cell.shape[1]):
            if cell[i, j] != KEPT:
                return False
    return True


@kernel
def _sample(valid: Any, confidence: Any, grey: Any, x: int, y: int, threshold: float, out: Any
            ) -> int:
    """Write columns and rows in steps, values and weights of what is trusted around a pixel."""
    height, width = valid.shape
    own = _mean(grey, x, y)
    count = 0
    for j in range(-REACH, REACH + 1):
        row = y + STEP * j
        if row < 0 or row >= height:
            continue
        for i in range(-REACH, REACH + 1):
            column = x + STEP * i
            if column < 0 or column >= width or not _is_trusted(
                    valid[row, column], confidence[row, column], threshold):
                continue
            difference = abs(own - np.int32(grey[row, column] + np.float32(0.5)))
            out[0, count] = i
            out[1, count] = j
            out[2, count] = valid[row, column]
            out[3, count] = LIKENESS[min(difference, 255)] * _quality(confidence[row, column],
                                                                  threshold) >> 8
            count += 1
    return count


@kernel
def _quality(confidence: Any, threshold: float) -> int:
    """Weight of a sample by its confidence, 1 to 255."""
    if threshold <= 0:
        return 255
    return int(min(max(24.0 * (np.float64(confidence) / threshold) - 12.0, 1.0), 255.0))


@kernel
def _mean(grey: Any, x: int, y: int) -> int:
    """Of the 5 x 5 pixels around one, borders replicated, rounded."""
    height, width = grey.shape
    total = 0
    for j in range(y - 2, y + 3):
        for i in range(x - 2, x + 3):
            total += np.int32(grey[min(max(j, 0), height - 1), min(max(i, 0), width - 1)]
                              + np.float32(0.5))
    return (2 * total + 25) // 50


@kernel
def _plane(columns: Any, rows: Any, values: Any, weights: Any
           ) -> tuple[bool, int, int, int, int, int]:
    """Slopes and constant of a plane, and the weights of its inliers and of all samples."""
    a, b = 0, 0
    median, weight = _lower_median(values, weights)
    c = median << 12
    inliers = 0
    for residual in RESIDUALS:
        n, si, sj, sii, sij, sjj, sv, siv, sjv = _sums(
            columns, rows, values, weights, np.int32(a), np.int32(b), np.int32(c),
            np.int32(residual << 12))
        inliers = n
        if n == 0:
            return False, 0, 0, 0, 0, 0
        # Sums less means are exact in float64.
        ridge = RIDGE * np.float64(n * n)
        ii = np.float64(n * sii - si * si) + ridge
        jj = np.float64(n * sjj - sj * sj) + ridge
        ij = np.float64(n * sij - si * sj)
        iv, jv = np.float64(n * siv - si * sv), np.float64(n * sjv - sj * sv)
        whole = ii * jj - ij * ij
        a = _rounded(4096.0 * ((iv * jj - jv * ij) / whole), SLOPE)
        b = _rounded(4096.0 * ((jv * ii - iv * ij) / whole), SLOPE)
        c = _rounded(np.float64((sv << 12) - a * si - b * sj) / np.float64(n), CONSTANT)
    return True, a, b, c, inliers, weight


@kernel
def _sums(columns: Any, rows: Any, values: Any, weights: Any, a: Any, b: Any, c: Any, most: Any
          ) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Of the samples near a plane, weighted: 1, places, their products, values by place.

    32 bits hold them all, with which and without branches LLVM makes vectors of the loop.
    """
    zero = np.int32(0)
    n = si = sj = sii = sij = sjj = sv = siv = sjv = zero
    for k in range(weights.shape[0]):
        i, j, v = columns[k], rows[k], values[k]
        on_plane = np.int32(np.int32(a * i) + np.int32(np.int32(b * j) + c))
        is_near = np.int32(abs(np.int32(np.int32(v << 12) - on_plane))) < most
        w = weights[k] if is_near else zero
        wi, wj, wv = np.int32(w * i), np.int32(w * j), np.int32(w * v)
        n = np.int32(n + w)
        si, sj = np.int32(si + wi), np.int32(sj + wj)
        sii, sij = np.int32(sii + np.int32(wi * i)), np.int32(sij + np.int32(wi * j))
        sjj, sv = np.int32(sjj + np.int32(wj * j)), np.int32(sv + wv)
        siv, sjv = np.int32(siv + np.int32(wv * i)), np.int32(sjv + np.int32(wv * j))
    return (np.int64(n), np.int64(si), np.int64(sj), np.int64(sii), np.int64(sij),
            np.int64(sjj), np.int64(sv), np.int64(siv), np.int64(sjv))


@kernel
def _rounded(value: float, most: float) -> int:
    return int(min(max(np.floor(value + 0.5), -most), most))


@kernel
def _lower_median(values: Any, weights: Any) -> tuple[int, int]:
    """The weighted one, by bisection, and the sum of the weights."""
    total = np.int64(_sum_to(values, weights, np.int32(2**15)))
    least, most = 0, 2**15 - 1
    while least < most:
        middle = (least + most) // 2
        below = np.int64(_sum_to(values, weights, np.int32(middle)))
        if 2 * below >= total:
            most = middle
        else:
            least = middle + 1
    return least, total


@kernel
def _sum_to(values: Any, weights: Any, most: Any) -> Any:
    total = np.int32(0)
    for k in range(values.shape[0]):
        total = np.int32(total + (weights[k] if values[k] <= most else np.int32(0)))
    return total


@kernel
def _apply(between: Any, a: int, b: int, c: int, is_supported: bool, most: int, out: Any
           ) -> None:
    """Write a plane where it has support, or is near what lies between values of the row."""
    for j in range(out.shape[0]):
        for i in range(out.shape[1]):
            near = np.int32(between[j, i])
            if near == KEPT:
                continue
            slant = a * (i - CELL // 2) + b * (j - CELL // 2)
            value = min(max((slant // STEP + c + 2048) >> 12, 0), most)
            if is_supported or (near >= 0 and abs(near - value) <= 32):
                out[j, i] = value
