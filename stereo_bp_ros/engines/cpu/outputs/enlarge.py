"""From reduced images back to the size of the images."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel
from stereo_bp_ros.engines.cpu.stages.refine import INVALID

#: Sixteenths of a reduced pixel by which neighbours on one surface may differ.
ONE_SURFACE = 16


def disparities(reduced: np.ndarray[Any, Any], factor: int, out: np.ndarray[Any, Any]) -> None:
    """Bilinear within a surface, the nearest across its borders, in sixteenths of a pixel.

    A pixel is valid where the nearest reduced pixel is. Of the four around it, those that are
    invalid or differ from the nearest by more than a reduced pixel count as the nearest.

    :param reduced: int16 h x w, sixteenths of a reduced pixel from the least disparity on.
    :param factor: pixels of the image for each reduced one.
    :param out: int16 H x W, filled: ``factor`` times as much, rounded half up.
    """
    _enlarge(reduced, factor, out)


def confidences(reduced: np.ndarray[Any, Any], factor: int, out: np.ndarray[Any, Any]) -> None:
    """Of the nearest reduced pixel.

    :param reduced: float32 h x w; ``out``: float32 H x W, filled.
    """
    _repeat(reduced, factor, out)


@parallel_kernel
def _enlarge(reduced: Any, factor: int, out: Any) -> None:
    height, width = reduced.shape
    for index in numba.prange(out.shape[0]):
        y = np.int64(index)
        # The centre of a pixel lies between those of two reduced ones, in parts of 2 factor.
        place = 2 * y + 1 - factor
        upper = place // (2 * factor)
        lower_weight = place - 2 * factor * upper
        own = reduced[min(y // factor, height - 1)]
        above = reduced[min(max(upper, 0), height - 1)]
        below = reduced[min(upper + 1, height - 1)]
        for i in range(factor):
            place = 2 * i + 1 - factor
            before = -1 if place < 0 else 0
            right_weight = place - 2 * factor * before
            for x in range(width):
                if x * factor + i < out.shape[1]:
                    left = max(x + before, 0)
                    right = min(x + before + 1, width - 1)
                    out[y, x * factor + i] = _between(
                        own[x], above[left], above[right], below[left], below[right],
                        right_weight, lower_weight, factor)
        for x in range(width * factor, out.shape[1]):
            out[y, x] = _between(own[width - 1], above[width - 1], above[width - 1],
                                 below[width - 1], below[width - 1], 0, lower_weight, factor)


@kernel
def _between(own: Any, above_left: Any, above_right: Any, below_left: Any, below_right: Any,
             right_weight: int, lower_weight: int, factor: int) -> Any:
    all_weights = 2 * factor
    upper = ((all_weights - right_weight) * _same_surface(above_left, own)
             + right_weight * _same_surface(above_right, own))
    lower = ((all_weights - right_weight) * _same_surface(below_left, own)
             + right_weight * _same_surface(below_right, own))
    total = (all_weights - lower_weight) * upper + lower_weight * lower
    value = np.int16((total + all_weights) // (2 * all_weights))
    return np.int16(INVALID) if own < 0 else value


@kernel
def _same_surface(value: Any, own: Any) -> Any:
    is_other = value < 0 or abs(value - own) > ONE_SURFACE
    return np.int32(own if is_other else value)


@parallel_kernel
def _repeat(reduced: Any, factor: int, out: Any) -> None:
    height, width = reduced.shape
    for index in numba.prange(out.shape[0]):
        row, values = reduced[min(np.int64(index) // factor, height - 1)], out[index]
        for x in range(values.shape[0]):
            values[x] = row[min(x // factor, width - 1)]
