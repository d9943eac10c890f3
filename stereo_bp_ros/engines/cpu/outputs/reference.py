"""The reference image that outputs take colors of, where it is no image that came."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.simd.runtime import parallel_kernel


def levels(grey: np.ndarray[Any, Any], factor: int, is_mirrored: bool,
           out: np.ndarray[Any, Any]) -> None:
    """The grey values that are matched, as large as the images.

    :param grey: float32 h x w, in the frame of matching.
    :param factor: pixels of the image for each of ``grey``.
    :param out: uint8 H x W, filled: rounded half up, at most 255.
    """
    _levels(grey, factor, is_mirrored, out)


@parallel_kernel
def _levels(grey: Any, factor: int, is_mirrored: bool, out: Any) -> None:
    height, width = grey.shape
    for index in numba.prange(out.shape[0]):
        row = grey[min(np.int64(index) // factor, height - 1)]
        for x in range(out.shape[1]):
            column = min(x // factor, width - 1)
            value = row[width - 1 - column if is_mirrored else column]
            out[index, x] = np.uint8(np.int32(min(value, np.float32(255)) + np.float32(0.5)))
