"""Fractions of a label from the data cost: where two lines of one slope meet."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.memory import Level
from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel
from stereo_bp_ros.engines.cpu.simd.vectors import address
from stereo_bp_ros.partitions import Partition

#: Pixels of the window on each side of its centre.
RADIUS = 2


def take(data_cost: np.ndarray, level: Level, part: Partition, label: np.ndarray,
         fraction: np.ndarray) -> None:
    """Of the pixels that a partition keeps.

    a, b and c are sums over 5 x 5 pixels of the costs of the label before, of the label and of
    the one after. The fraction is floor(8 (a - c) / (max(a, c) - b) + 1/2) sixteenths, 0 where b
    is not the least, where all are equal, and at the first and last label.

    :param data_cost: uint8 [y][x][label] of the partition, before path sums.
    :param label: int16 H x W of the image, -1 = none.
    :param fraction: int8 H x W, filled.
    """
    _take(data_cost, level.width, level.height, level.labels, part.x, part.y, *part.kept, label,
          fraction)


@parallel_kernel
def _take(data_cost: Any, width: int, height: int, labels: int, first_x: int, first_y: int,
          left: int, top: int, right: int, bottom: int, label: Any, fraction: Any) -> None:
    _, columns, label_bytes = data_cost.shape
    for index in numba.prange(bottom - top):
        y = top + np.int64(index)
        for x in range(left, right):
            found = np.int64(label[y, x])
            fraction[y, x] = 0
            if 0 < found < labels - 1:
                fraction[y, x] = _of_pixel(address(data_cost), columns, label_bytes, width,
                                           height, x - first_x, y - first_y, found)


@kernel
def _of_pixel(costs: Any, columns: int, label_bytes: int, width: int, height: int, x: int, y: int,
              label: int) -> int:
    """``x`` and ``y`` of the partition; windows are replicated beyond it."""
    before = least = after = 0
    for row in range(y - RADIUS, y + RADIUS + 1):
        start = min(max(row, 0), height - 1) * columns
        for column in range(x - RADIUS, x + RADIUS + 1):
            place = (start + min(max(column, 0), width - 1)) * label_bytes + label
            before += np.int64(costs[place - 1])
            least += np.int64(costs[place])
            after += np.int64(costs[place + 1])
    rise = max(before, after) - least
    if least > before or least > after or rise == 0:
        return 0
    return (16 * (before - after) + rise) // (2 * rise)
