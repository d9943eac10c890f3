"""The centres of the windows of each pixel, from the map of the first pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numba
import numpy as np

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cpu.band.layout import NEAR, WINDOW
from stereo_bp_ros.engines.cpu.outputs import enlarge_disparities
from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel

_NEIGHBOURS = np.ones((2 * NEAR + 1, 2 * NEAR + 1), np.uint8)


def fill(found: np.ndarray[Any, Any], coarse: ResolvedConfig, config: ResolvedConfig,
         arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Fill ``centres`` and ``shifts`` as ``BandLevel`` has them.

    The first centre of a pixel is its own estimate, the second one the largest near it: of the
    nearest surface, which an estimate of half the size may lack.

    :param found: ``final`` of the first pass; what lies outside its window is replaced.
    """
    height, width = found.shape
    window = geometry.matched_window(coarse, width, height)
    if window.width:
        _replicate(found, window.x_offset, window.x_offset + window.width, window.y_offset,
                   window.y_offset + window.height)
    estimates, largest = arrays['estimates'], arrays['largest']
    enlarge_disparities(found, 2, estimates)
    _round(estimates, 2 * coarse.min_disparity - config.min_disparity)
    cv2.dilate(estimates, _NEIGHBOURS, dst=largest)
    _cut(estimates, largest, config.band_radius, config.disparity_range - 1 - config.band_radius,
         arrays['centres'])
    _fill_shifts(arrays['centres'], arrays['shifts'])


@parallel_kernel
def _replicate(values: Any, left: int, right: int, top: int, bottom: int) -> None:
    height, width = values.shape
    for index in numba.prange(height):
        y = np.int64(index)
        row = values[min(max(y, top), bottom - 1)]
        for x in range(width):
            if y < top or y >= bottom or x < left or x >= right:
                values[y, x] = row[min(max(x, left), right - 1)]


@parallel_kernel
def _round(sixteenths: Any, offset: int) -> None:
    """Labels in place of sixteenths of a pixel."""
    for y in numba.prange(sixteenths.shape[0]):
        for x in range(sixteenths.shape[1]):
            sixteenths[y, x] = ((sixteenths[y, x] + 8) >> 4) + offset


@parallel_kernel
def _cut(estimates: Any, largest: Any, least: int, most: int, centres: Any) -> None:
    """Windows hold labels of the search alone."""
    for y in numba.prange(estimates.shape[0]):
        for x in range(estimates.shape[1]):
            centres[y, x, 0] = min(max(estimates[y, x], least), most)
            centres[y, x, 1] = min(max(largest[y, x], least), most)


@parallel_kernel
def _fill_shifts(centres: Any, shifts: Any) -> None:
    height, width = centres.shape[:2]
    for index in numba.prange(height):
        y = np.int64(index)
        for x in range(width):
            _shifts_of(centres[y, x], centres[y, min(x + 1, width - 1)], shifts[y, x, 0])
            _shifts_of(centres[y, x], centres[min(y + 1, height - 1), x], shifts[y, x, 1])


@kernel
def _shifts_of(own: Any, other: Any, out: Any) -> None:
    for place in range(4):
        window, of_other = place & 1, (place + (place >> 1)) & 1
        difference = np.int64(own[window]) - np.int64(other[of_other])
        out[place] = np.uint8(min(max(difference, -WINDOW), WINDOW))
