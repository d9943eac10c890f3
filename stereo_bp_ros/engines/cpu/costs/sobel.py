"""The Sobel x derivative, scaled and clipped."""

from __future__ import annotations

import functools
import math
from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.costs import grey as grey_values
from stereo_bp_ros.engines.cpu.costs.bordered import Bordered, Target
from stereo_bp_ros.engines.cpu.simd.runtime import parallel_kernel

#: The largest derivative of bytes.
LARGEST = 4 * 255

distance = grey_values.distance


def feature(grey: Bordered, config: Any, target: Target, scratch: Any) -> None:
    """The derivative times ``sobel_scale``, clipped to +-``prefilter_cap``, plus 128; uint8."""
    _sobel(*grey, _values(config.sobel_scale, config.prefilter_cap), *target)


@functools.lru_cache(maxsize=8)
def _values(scale: float, cap: float) -> np.ndarray[Any, Any]:
    """The feature of every derivative, - ``LARGEST`` first."""
    bound = np.float32(cap or math.inf)
    scaled = np.arange(-LARGEST, LARGEST + 1, dtype=np.float32) * np.float32(scale)
    # In float64: 0.49999997 + 0.5 is 1 in float32.
    rounded = np.floor(np.clip(scaled, -bound, bound).astype(np.float64) + 128.5)
    return np.clip(rounded, 0, 255).astype(np.uint8)


@parallel_kernel
def _sobel(grey: Any, reach: int, values: Any, out: Any, first: int, step: int, begin: int,
           end: int) -> None:
    for y in numba.prange(out.shape[0]):
        above, own, below = grey[y + reach - 1], grey[y + reach], grey[y + reach + 1]
        for x in range(begin, end):
            left, right = x + reach - 1, x + reach + 1
            derivative = (np.int64(above[right]) - np.int64(above[left])
                          + 2 * (np.int64(own[right]) - np.int64(own[left]))
                          + np.int64(below[right]) - np.int64(below[left]))
            out[y, first + step * x] = values[derivative + LARGEST]
