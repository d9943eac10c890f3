"""How far a pixel is to be trusted: the lead of its label over a window, less near jumps.

A lead says little by itself: a wrong plane of a surface without texture leads everywhere. What
predicts an error is that matching fails around it, too, and that the disparity jumps or ends
nearby (``docs/explanation/accuracy.md``).
"""

from __future__ import annotations

from typing import Any

import cv2
import numba
import numpy as np

from stereo_bp_ros.config.quantisation import JUMP, NO_SECOND
from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel


def average(valid: np.ndarray[Any, Any], best: np.ndarray[Any, Any],
            second: np.ndarray[Any, Any], is_sad: bool, largest_cost: float, side: int,
            out: np.ndarray[Any, Any], steps: np.ndarray[Any, Any],
            sums: np.ndarray[Any, Any]) -> None:
    """The mean lead of a window, cut at the border of the image, by the distance from a jump.

    :param valid: int16 H x W, sixteenths, invalid below 0; such pixels count as 0.
    :param best, second: as ``refine.refine`` has them.
    :param side: of the window, odd; 1 = each pixel's own lead, not rounded, wherever it lies.
    :param out: float32 H x W, filled with 0 to 1.
    :param steps: uint8 H x W, scratch: leads in steps of 1 / 255, then what is no jump.
    :param sums: int32 H x W, scratch.
    """
    _own(valid, best, second, is_sad, largest_cost, out, steps)
    if side > 1:
        cv2.boxFilter(steps, cv2.CV_32S, (side, side), dst=sums, normalize=False,
                      borderType=cv2.BORDER_CONSTANT)
        _find_jumps(valid, steps)
        cv2.distanceTransform(steps, cv2.DIST_C, cv2.DIST_MASK_3, dst=out)
        _weigh(sums, side // 2, out)


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
def _find_jumps(valid: Any, is_smooth: Any) -> None:
    """0 where the disparity jumps or ends between a pixel and one of its four neighbours."""
    height, width = valid.shape
    for y in numba.prange(height):
        above, row, below = valid[max(y - 1, 0)], valid[y], valid[min(y + 1, height - 1)]
        for x in range(width):
            left, right = row[max(x - 1, 0)], row[min(x + 1, width - 1)]
            is_smooth[y, x] = np.uint8(not (
                _is_jump(row[x], left) or _is_jump(row[x], right)
                or _is_jump(row[x], above[x]) or _is_jump(row[x], below[x])))


@kernel
def _is_jump(one: Any, other: Any) -> Any:
    return (one < 0) != (other < 0) or abs(np.int32(one) - np.int32(other)) > JUMP


@parallel_kernel
def _weigh(sums: Any, radius: int, out: Any) -> None:
    """From the distance to a jump to the confidence."""
    height, width = sums.shape
    for y in numba.prange(height):
        rows = min(y + radius, height - 1) - max(y - radius, 0) + 1
        for x in range(width):
            columns = min(x + radius, width - 1) - max(x - radius, 0) + 1
            twice = 2 * (min(np.int64(out[y, x]), radius) + 1)
            out[y, x] = np.float32(sums[y, x] * twice / (255.0 * rows * columns * (twice + 1)))
