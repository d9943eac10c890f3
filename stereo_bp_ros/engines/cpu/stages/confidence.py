"""How far a pixel is to be trusted: the lead of its label, less near jumps and bends of the map.

A lead says little by itself: a wrong plane of a surface without texture leads everywhere. What
predicts an error is that matching fails around it, that the disparity jumps or ends nearby, and
that it bends there (``docs/explanation/accuracy.md``). A plane does not bend.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.config.quantisation import JUMP, NO_SECOND
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel

#: Radii of the windows of leads and jumps, of bends and of holes: pixels.
RADIUS, BEND_RADIUS, HOLE_RADIUS = 5, 10, 25

#: A bend is the second difference over pixels so far apart, and at most so many sixteenths.
BEND_STEP, MAX_BEND = 8, 128

_BESIDE = np.ones((3, 3), np.uint8)

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
    _find_bends(height, filled, steps)
    _add_windows(steps, BEND_RADIUS, bends)
    _find_leads(height, valid, best, second, is_sad, largest_cost,
                steps)
    _add_windows(steps, RADIUS, sums)
    _find_jumps(height, valid, steps)
    _add_distances(steps, out.reshape(-1).view(np.uint8)[:size].reshape(height, width))
    _weigh(height, sums, bends, matched, steps, _window_sides(height), _window_sides(width), out)


def _add_windows(values: np.ndarray[Any, Any], radius: int, out: np.ndarray[Any, Any]) -> None:
    side = 2 * radius + 1
    cv2.boxFilter(values, cv2.CV_32S, (side, side), dst=out, normalize=False,
                  borderType=cv2.BORDER_CONSTANT)


def _add_distances(is_smooth: np.ndarray[Any, Any], eroded: np.ndarray[Any, Any]) -> None:
    """In its place how far it is to the next 0, diagonals as one, at most ``RADIUS``."""
    source = is_smooth
    for _ in range(RADIUS - 1):
        cv2.erode(source, _BESIDE, dst=eroded)
        np.add(is_smooth, eroded, out=is_smooth)
        source = eroded


def _window_sides(length: int) -> np.ndarray[Any, Any]:
    """Pixels of the windows around each pixel that are inside an image, along one axis.

    :returns: float64 3 x ``length``: of leads, bends and holes.
    """
    at = np.arange(length)
    return np.array([np.minimum(at + radius, length - 1) - np.maximum(at - radius, 0) + 1
                     for radius in (RADIUS, BEND_RADIUS, HOLE_RADIUS)], np.float64)


@parallel_kernel
def _find_bends(y: int, filled: Any, out: Any) -> None:
    """The smaller of those along x and along y, borders replicated."""
    height, width = filled.shape
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
def _find_leads(y: int, valid: Any, best: Any, second: Any, is_sad: bool, largest_cost: float,
                out: Any) -> None:
    """Over the second label by the largest cost, in steps of 1 / 255."""
    for x in range(valid.shape[1]):
        lead = 0.0
        if valid[y, x] >= 0:
            ahead = np.float64(second[y, x])
            lead = (ahead - np.float64(best[y, x])) / (max(ahead, 1.0) if is_sad
                                                       else largest_cost)
            lead = 1.0 if ahead >= NO_SECOND or lead > 1.0 else max(lead, 0.0)
        out[y, x] = np.uint8(np.int32(255.0 * lead + 0.5))


@parallel_kernel
def _find_jumps(y: int, valid: Any, is_smooth: Any) -> None:
    """0 where the disparity jumps or ends between a pixel and one of its four neighbours."""
    height, width = valid.shape
    above, row, below = valid[max(y - 1, 0)], valid[y], valid[min(y + 1, height - 1)]
    to, last = is_smooth[y], width - 1
    for x in range(1, last):
        to[x] = _is_smooth(row[x], row[x - 1], row[x + 1], above[x], below[x])
    to[0] = _is_smooth(row[0], row[0], row[min(1, last)], above[0], below[0])
    to[last] = _is_smooth(row[last], row[max(last - 1, 0)], row[last], above[last],
                          below[last])


@kernel
def _is_smooth(own: Any, left: Any, right: Any, above: Any, below: Any) -> Any:
    # ``|``, not ``or``: without branches LLVM makes vectors of the loop.
    return np.uint8(1) - np.uint8(_is_jump(own, left) | _is_jump(own, right)
                                  | _is_jump(own, above) | _is_jump(own, below))


@kernel
def _is_jump(one: Any, other: Any) -> Any:
    difference = abs(np.int32(np.int32(one) - np.int32(other)))
    return ((one < 0) != (other < 0)) | (difference > JUMP)


@parallel_kernel
def _weigh(y: int, sums: Any, bends: Any, matched: Any, distances: Any, sides_y: Any,
           sides_x: Any, out: Any) -> None:
    # All are whole numbers, and so are their products, which float64 holds.
    rows, bend_rows, hole_rows = sides_y[0, y], HALVING_BEND * sides_y[1, y], sides_y[2, y]
    lead, bend, found, distance, to = sums[y], bends[y], matched[y], distances[y], out[y]
    pixels, bend_pixels, hole_pixels = sides_x[0], sides_x[1], sides_x[2]
    for x in range(lead.shape[0]):
        halving = bend_rows * bend_pixels[x]
        twice = 2.0 * (np.float64(distance[x]) + 1.0)
        share = np.float64(found[x]) / (hole_rows * hole_pixels[x])
        mean = np.float64(lead[x]) * twice * halving / (
            255.0 * rows * pixels[x] * (twice + 1.0) * (halving + np.float64(bend[x])))
        to[x] = np.float32(mean * (share * share))
