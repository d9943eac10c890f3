"""Smaller images, for matching in a fraction of the time."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.simd.runtime import parallel_kernel


def to_means(grey: np.ndarray[Any, Any], factor: int, scale: float | None,
             out: np.ndarray[Any, Any]) -> None:
    """The mean of each block of ``factor`` x ``factor`` pixels; what is left over is not read.

    A block that is cut off by the end of an image smaller than itself has its last pixel again.

    :param grey: float32 H x W.
    :param scale: None: of whole numbers, rounded half up; else: the sum in float32, row by row,
        times the float32 next to ``scale / factor**2``.
    :param out: float32 max(1, H // factor) x max(1, W // factor), filled.
    """
    _reduce(grey, factor, scale is None, np.float32((scale or 0.0) / factor**2), out)


@parallel_kernel
def _reduce(grey: Any, factor: int, is_whole: bool, scale: Any, out: Any) -> None:
    height, width = grey.shape
    area = factor * factor
    for index in numba.prange(out.shape[0]):
        y = np.int64(index)
        for x in range(out.shape[1]):
            total = np.float32(0)
            for j in range(factor):
                row = grey[min(y * factor + j, height - 1)]
                for i in range(factor):
                    total += row[min(x * factor + i, width - 1)]
            if is_whole:
                out[y, x] = np.float32((np.int32(total) + area // 2) // area)
            else:
                out[y, x] = total * scale
