"""How far a pixel is to be trusted: the lead of its label, averaged over a window.

A lead says little by itself: a wrong plane of a surface without texture leads everywhere. What
predicts an error is that matching fails around it, too (``docs/explanation/accuracy.md``).
"""

from __future__ import annotations

from typing import Any

import cv2
import numba
import numpy as np

from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel
from stereo_bp_ros.quantisation import NO_SECOND


def average(valid: np.ndarray[Any, Any], best: np.ndarray[Any, Any],
            second: np.ndarray[Any, Any], is_sad: bool, largest_cost: float, side: int,
            out: np.ndarray[Any, Any], steps: np.ndarray[Any, Any],
            sums: np.ndarray[Any, Any]) -> None:
    """The mean confidence of the pixels of a window, cut at the border of the image.

    :param valid: int16 H x W, invalid below 0; such pixels count as 0.
    :param best, second: as ``refine.refine`` has them.
    :param side: of the window, odd; 1 = each pixel's own confidence, not rounded.
    :param out: float32 H x W, filled with 0 to 1.
    :param steps: uint8 H x W, scratch: confidences in steps of 1 / 255.
    :param sums: int32 H x W, scratch.
    """
    _own(valid, best, second, is_sad, largest_cost, out, steps)
    if side > 1:
        cv2.boxFilter(steps, cv2.CV_32S, (side, side), dst=sums, normalize=False,
                      borderType=cv2.BORDER_CONSTANT)
        _mean(sums, side // 2, out)


@kernel
def of_lead(best: Any, second: Any, is_sad: bool, largest_cost: float) -> Any:
    """Confidence of a pixel in float64: the lead over the second label by the largest cost."""
    ahead = np.float64(second)
    scale = max(ahead, 1.0) if is_sad else largest_cost
    value = (ahead - np.float64(best)) / scale
    return 1.0 if ahead >= NO_SECOND or value > 1.0 else max(value, 0.0)


@parallel_kernel
def _own(valid: Any, best: Any, second: Any, is_sad: bool, largest_cost: float, out: Any,
         steps: Any) -> None:
    for y in numba.prange(valid.shape[0]):
        for x in range(valid.shape[1]):
            value = 0.0
            if valid[y, x] >= 0:
                value = of_lead(best[y, x], second[y, x], is_sad, largest_cost)
            out[y, x] = np.float32(value)
            steps[y, x] = np.uint8(np.int32(255.0 * value + 0.5))


@parallel_kernel
def _mean(sums: Any, radius: int, out: Any) -> None:
    height, width = sums.shape
    for y in numba.prange(height):
        rows = min(y + radius, height - 1) - max(y - radius, 0) + 1
        for x in range(width):
            columns = min(x + radius, width - 1) - max(x - radius, 0) + 1
            out[y, x] = np.float32(sums[y, x] / (255.0 * rows * columns))
