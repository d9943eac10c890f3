"""How far a pixel is to be trusted: the lead of its label, less near jumps and bends of the map.

A lead says little by itself: a wrong plane of a surface without texture leads everywhere. What
predicts an error is that matching fails around it, that the disparity jumps or ends nearby, and
that it bends there (``docs/explanation/accuracy.md``). A plane does not bend.
"""

from __future__ import annotations

from typing import Any

import cv2
import numba
import numpy as np

from stereo_bp_ros.config.quantisation import JUMP, NO_SECOND
from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel

#: Radii of the windows of leads and jumps, of bends and of holes: pixels.
RADIUS, BEND_RADIUS, HOLE_RADIUS = 5, 10, 25

#: A bend is the second difference over pixels so far apart, and at most so many sixteenths.
BEND_STEP, MAX_BEND = 8, 128

#: A mean bend of so many sixteenths halves the confidence.
HALVING_BEND = 8


def judge(valid: np.ndarray[Any, Any], filled: np.ndarray[Any, Any],
          best: np.ndarray[Any, Any], second: np.ndarray[Any, Any], is_sad: bool,
          largest_cost: float, out: np.ndarray[Any, Any], scratch: np.ndarray[Any, Any]) -> None:
    """The mean lead around a pixel, by the distance from a jump, the mean bend and the holes.

    Windows are cut at the border of the image.

    :param valid: int16 H x W, sixteenths, invalid below 0; such pixels lead by 0.
    :param filled: the same with its holes filled, which is what bends.
    :param best, second: as ``refine.refine`` has them.
    :param out: float32 H x W, filled with 0 to 1.
    :param scratch: uint8, at least 13 bytes a pixel.
    """
    height, width = valid.shape
    size = height * width
    sums, bends, matched = (scratch.reshape(-1)[4 * i * size:4 * (i + 1) * size].view(
        np.int32).reshape(height, width) for i in range(3))
    steps = scratch.reshape(-1)[12 * size:13 * size].reshape(height, width)
    np.greater_equal(valid, 0, out=steps.view(np.bool_))
    _add_windows(steps, HOLE_RADIUS, matched)
    _find_bends(filled, steps)
    _add_windows(steps, BEND_RADIUS, bends)
    _find_leads(valid, best, second, is_sad, largest_cost, steps)
    _add_windows(steps, RADIUS, sums)
    _find_jumps(valid, steps)
    cv2.distanceTransform(steps, cv2.DIST_C, cv2.DIST_MASK_3, dst=out)
    _weigh(sums, bends, matched, out)


def _add_windows(values: np.ndarray[Any, Any], radius: int, out: np.ndarray[Any, Any]) -> None:
    side = 2 * radius + 1
    cv2.boxFilter(values, cv2.CV_32S, (side, side), dst=out, normalize=False,
                  borderType=cv2.BORDER_CONSTANT)


@parallel_kernel
def _find_bends(filled: Any, out: Any) -> None:
    """The smaller of those along x and along y, borders replicated."""
    height, width = filled.shape
    for y in numba.prange(height):
        above, row = filled[max(y - BEND_STEP, 0)], filled[y]
        below, to = filled[min(y + BEND_STEP, height - 1)], out[y]
        for x in range(min(BEND_STEP, width)):
            to[x] = _bend(row[x], row[0], row[min(x + BEND_STEP, width - 1)], above[x], below[x])
        for x in range(BEND_STEP, width - BEND_STEP):
            to[x] = _bend(row[x], row[x - BEND_STEP], row[x + BEND_STEP], above[x], below[x])
        for x in range(max(BEND_STEP, width - BEND_STEP), width):
            to[x] = _bend(row[x], row[x - BEND_STEP], row[width - 1], above[x], below[x])


@kernel
def _bend(own: Any, left: Any, right: Any, above: Any, below: Any) -> Any:
    twice = np.int32(np.int32(2) * np.int32(own))
    across = abs(np.int32(twice - np.int32(np.int32(left) + np.int32(right))))
    along = abs(np.int32(twice - np.int32(np.int32(above) + np.int32(below))))
    return np.uint8(min(min(across, along), np.int32(MAX_BEND)))


@parallel_kernel
def _find_leads(valid: Any, best: Any, second: Any, is_sad: bool, largest_cost: float,
                out: Any) -> None:
    """Over the second label by the largest cost, in steps of 1 / 255."""
    for y in numba.prange(valid.shape[0]):
        for x in range(valid.shape[1]):
            lead = 0.0
            if valid[y, x] >= 0:
                ahead = np.float64(second[y, x])
                lead = (ahead - np.float64(best[y, x])) / (max(ahead, 1.0) if is_sad
                                                           else largest_cost)
                lead = 1.0 if ahead >= NO_SECOND or lead > 1.0 else max(lead, 0.0)
            out[y, x] = np.uint8(np.int32(255.0 * lead + 0.5))


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
def _weigh(sums: Any, bends: Any, matched: Any, out: Any) -> None:
    """From the distance to a jump to the confidence."""
    height, width = sums.shape
    for y in numba.prange(height):
        rows, bend_rows = _cut(y, height, RADIUS), _cut(y, height, BEND_RADIUS)
        hole_rows = _cut(y, height, HOLE_RADIUS)
        for x in range(width):
            pixels = rows * _cut(x, width, RADIUS)
            halving = HALVING_BEND * bend_rows * _cut(x, width, BEND_RADIUS)
            twice = 2 * (min(np.int64(out[y, x]), RADIUS) + 1)
            share = np.float64(matched[y, x]) / (hole_rows * _cut(x, width, HOLE_RADIUS))
            found = np.float64(sums[y, x] * twice * halving) / np.float64(
                255 * pixels * (twice + 1) * (halving + bends[y, x]))
            out[y, x] = np.float32(found * (share * share))


@kernel
def _cut(at: int, end: int, radius: int) -> int:
    """Pixels of a window around one that are inside the image, along one axis."""
    return min(at + radius, end - 1) - max(at - radius, 0) + 1
