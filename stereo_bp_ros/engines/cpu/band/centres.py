"""The centres of the windows of each pixel, from the map of the first pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cpu.band.layout import NEAR, WINDOW
from stereo_bp_ros.engines.cpu.costs.features import join_planes
from stereo_bp_ros.engines.cpu.outputs import enlarge_disparities
from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import address

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
    first, second = centres = arrays['centres']
    enlarge_disparities(len(first), found, 2, first)
    first += 8          # labels in place of sixteenths of a pixel
    first >>= 4
    first += 2 * coarse.min_disparity - config.min_disparity
    cv2.dilate(first, _NEIGHBOURS, dst=second)
    # Windows hold labels of the search alone.
    np.clip(centres, config.band_radius, config.disparity_range - 1 - config.band_radius,
            out=centres)
    _fill_shifts(len(first), centres,
                 arrays['shifts'].reshape(len(first), -1).view(np.uint64))


def _replicate(values: np.ndarray[Any, Any], left: int, right: int, top: int, bottom: int
               ) -> None:
    """Continue what is inside a window to the border."""
    inside = values[top:bottom]
    inside[:, :left], inside[:, right:] = inside[:, left:left + 1], inside[:, right - 1:right]
    values[:top], values[bottom:] = inside[0], inside[-1]


@parallel_kernel
def _fill_shifts(y: int, centres: Any, shifts: Any) -> None:
    """:param shifts: uint64 H x W: those of a pixel as one word."""
    _, height, width = centres.shape
    last, stride = width - 1, (width + VECTOR_BYTES - 1) // VECTOR_BYTES * VECTOR_BYTES
    below = min(y + 1, height - 1)
    planes, words = np.empty((8, stride), np.uint8), np.empty(VECTOR_BYTES, np.uint64)
    first, second = centres[0, y], centres[1, y]
    # Slices of a row are contiguous to Numba, those of two rows are not.
    _subtract(first, second, first[1:], second[1:], planes, 0)
    _subtract(first[last:], second[last:], first[last:], second[last:], planes, last)
    _subtract(first, second, centres[0, below], centres[1, below], planes[4:], 0)
    to = shifts[y]
    for x in range(0, width, VECTOR_BYTES):
        join_planes(address(planes), x, stride, address(words.view(np.uint8)))
        for i in range(min(VECTOR_BYTES, width - x)):
            to[x + i] = words[i]


@kernel
def _subtract(first: Any, second: Any, other_first: Any, other_second: Any, planes: Any,
              start: int) -> None:
    """The four differences of ``BandLevel.shifts``, as far as there are others."""
    a, b, c, d = planes[0, start:], planes[1, start:], planes[2, start:], planes[3, start:]
    for x in range(other_first.shape[0]):
        a[x] = _difference(first[x], other_first[x])
        b[x] = _difference(second[x], other_second[x])
        c[x] = _difference(first[x], other_second[x])
        d[x] = _difference(second[x], other_first[x])


@kernel
def _difference(own: Any, other: Any) -> Any:
    return np.uint8(min(max(np.int16(own - other), np.int16(-WINDOW)), np.int16(WINDOW)))
