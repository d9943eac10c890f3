"""Disparity and depth in their types: a number for each pixel from its own disparity."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.outputs.finished import Finished
from stereo_bp_ros.engines.cpu.simd.runtime import parallel_kernel
from stereo_bp_ros.engines.cpu.stages.refine import INVALID


def disparity(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """Pixels, min_disparity - shift - 1 where invalid.

    :param out: float32 H x W, filled.
    """
    _disparity(finished.disparity, float(finished.min_disparity),
               finished.published_shift, out)


def depth(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """Metres along the optical axis, NaN where invalid or not in front of the camera.

    :param out: float32 H x W, filled.
    """
    _depth(finished.disparity, float(finished.min_disparity), finished.shift,
           finished.focal_baseline, out)


def depth_mm(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """Millimetres, 0 where there is no depth or one beyond 65535.

    :param out: uint16 H x W, filled.
    """
    _depth_mm(finished.disparity, float(finished.min_disparity), finished.shift,
              1000.0 * finished.focal_baseline, out)


def fixed_disparity(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """Sixteenths without the shift, 16 (min_disparity - 1) where invalid.

    :param out: int16 H x W, filled.
    """
    _fixed_disparity(finished.disparity, np.int16(16 * finished.min_disparity), out)


@parallel_kernel
def _disparity(sixteenths: Any, first: float, shift: float, out: Any) -> None:
    # One rounding after the sum in float64, which is monotonic: no valid value falls below
    # float32(min_disparity - shift), the least value that is published.
    invalid = np.float32(first - shift - 1.0)
    for y in numba.prange(out.shape[0]):
        row, values = sixteenths[y], out[y]
        for x in range(values.shape[0]):
            value = np.float32(first + row[x] * 0.0625 - shift)
            values[x] = invalid if row[x] < 0 else value


@parallel_kernel
def _depth(sixteenths: Any, first: float, shift: float, focal_baseline: float, out: Any) -> None:
    for y in numba.prange(out.shape[0]):
        row, values = sixteenths[y], out[y]
        for x in range(values.shape[0]):
            disparity = first + row[x] * 0.0625 - shift
            in_front = row[x] >= 0 and disparity > 0
            values[x] = np.float32(focal_baseline / disparity if in_front else math.nan)


@parallel_kernel
def _depth_mm(sixteenths: Any, first: float, shift: float, factor: float, out: Any) -> None:
    for y in numba.prange(out.shape[0]):
        row, values = sixteenths[y], out[y]
        for x in range(values.shape[0]):
            disparity = first + row[x] * 0.0625 - shift
            in_front = row[x] >= 0 and disparity > 0
            rounded = factor / disparity + 0.5 if in_front else 0.0
            values[x] = np.uint16(rounded if rounded < 65536.0 else 0.0)


@parallel_kernel
def _fixed_disparity(sixteenths: Any, first: Any, out: Any) -> None:
    for y in numba.prange(out.shape[0]):
        row, values = sixteenths[y], out[y]
        for x in range(values.shape[0]):
            value = np.int16(row[x] + first)
            values[x] = np.int16(first + np.int16(INVALID)) if row[x] < 0 else value
