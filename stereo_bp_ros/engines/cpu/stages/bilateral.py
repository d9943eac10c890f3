"""Part of stage ``refine``: a separable bilateral filter in whole numbers.

Tomasi, Manduchi, "Bilateral filtering for gray and color images", ICCV 1998. The weight over
disparities is Tukey's biweight, as Durand and Dorsey have it ("Fast bilateral filtering for the
display of high-dynamic-range images", SIGGRAPH 2002), over pixels a Gaussian.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel

#: Weights of the pixels -7 to 7: 64 exp(-k^2 / 128), rounded half up.
SPACE = (44, 48, 53, 56, 60, 62, 64, 64, 64, 62, 60, 56, 53, 48, 44)
RADIUS = 7


@parallel_kernel
def along_rows(values: Any, factor: Any, weights: Any, sums: Any, out: Any) -> None:
    """Filter along x; the arguments as for ``along_columns``."""
    height, width = values.shape
    for y in numba.prange(height):
        row, weight, total = values[y], weights[y], sums[y]
        weight[:] = 0
        total[:] = 0
        for k in range(-RADIUS, RADIUS + 1):
            begin, end = min(max(0, -k), width), max(min(width, width - k), 0)
            tap = np.int32(SPACE[k + RADIUS])
            for x in range(begin):                  # borders are replicated
                _add(row[x:x + 1], row[:1], factor, tap, weight[x:x + 1], total[x:x + 1])
            if begin < end:
                _add(row[begin:end], row[begin + k:end + k], factor, tap, weight[begin:end],
                     total[begin:end])
            for x in range(max(end, begin), width):
                _add(row[x:x + 1], row[width - 1:], factor, tap, weight[x:x + 1],
                     total[x:x + 1])
        _divide(row, weight, total, out[y])


@parallel_kernel
def along_columns(values: Any, factor: Any, weights: Any, sums: Any, out: Any) -> None:
    """Filter along y.

    :param values: int16 H x W, sixteenths, below 0 = no value; such pixels take no part.
    :param factor: int32, from differences to 65536ths of that from which on the weight is 0.
    :param weights, sums: scratch, int32 H x W.
    :param out: int16 H x W, other than ``values``.
    """
    height = values.shape[0]
    for y in numba.prange(height):
        weight, total = weights[y], sums[y]
        weight[:] = 0
        total[:] = 0
        for k in range(-RADIUS, RADIUS + 1):
            other = values[min(max(y + k, 0), height - 1)]
            _add(values[y], other, factor, np.int32(SPACE[k + RADIUS]), weight, total)
        _divide(values[y], weight, total, out[y])


@kernel
def _add(row: Any, others: Any, factor: Any, tap: Any, weights: Any, sums: Any) -> None:
    shift, whole = np.int32(8), np.int32(256)
    for x in range(row.shape[0]):
        other = np.int32(others[x])
        difference = np.int32(abs(np.int32(other - np.int32(row[x]))))
        distance = min(np.int32(np.int32(difference * factor) >> shift), whole)
        fall = np.int32(whole - np.int32(np.int32(distance * distance) >> shift))
        weight = np.int32(tap * np.int32(np.int32(fall * fall) >> shift))
        weight = np.int32(0) if other < 0 else weight
        weights[x] = np.int32(weights[x] + weight)
        sums[x] = np.int32(sums[x] + np.int32(weight * other))


@kernel
def _divide(row: Any, weights: Any, sums: Any, out: Any) -> None:
    # A quotient of such numbers in float64 is never rounded up to a whole number.
    for x in range(out.shape[0]):
        half = np.int32(weights[x] >> np.int32(1))
        mean = np.int16(np.float64(np.int32(sums[x] + half)) / np.float64(weights[x]))
        out[x] = mean if row[x] >= 0 else row[x]
