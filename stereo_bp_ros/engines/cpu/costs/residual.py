"""What is left of the grey value without the mean of a box around it."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.costs import grey as grey_values
from stereo_bp_ros.engines.cpu.costs.bordered import Bordered, Target
from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel

distance = grey_values.distance


def feature(grey: Bordered, config: Any, target: Target, scratch: Any) -> None:
    """Grey value minus mean, rounded half up, plus 128; uint8."""
    _residual(*grey, config.residual_window_size, *target)


@parallel_kernel
def _residual(grey: Any, reach: int, side: int, out: Any, first: int, step: int, begin: int,
              end: int) -> None:
    count = side * side
    for y in numba.prange(out.shape[0]):
        top, left = y + reach - side // 2, begin + reach - side // 2
        total = np.int64(0)
        for x in range(left, left + side - 1):
            total += _column(grey, top, side, x)
        for x in range(begin, end):
            column = x + reach - side // 2
            total += _column(grey, top, side, column + side - 1)
            doubled = 2 * (count * np.int64(grey[y + reach, x + reach]) - total) + count
            value = doubled // (2 * count) + 128
            out[y, first + step * x] = np.uint8(min(max(value, 0), 255))
            total -= _column(grey, top, side, column)


@kernel
def _column(grey: Any, top: int, side: int, x: int) -> int:
    total = np.int64(0)
    for y in range(top, top + side):
        total += grey[y, x]
    return total
