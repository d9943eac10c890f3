"""Which messages cross an edge of the image, and have a lower truncation.

Grey values are whole numbers of 8 bits, those of coarser levels sums of four: the same on every
back end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numba
import numpy as np

from stereo_bp_ros.config import ResolvedConfig, quantisation
from stereo_bp_ros.engines.cpu.costs.bordered import rounded
from stereo_bp_ros.engines.cpu.memory import DOWN, LEFT, RIGHT, UP, Level
from stereo_bp_ros.engines.cpu.simd.runtime import parallel_kernel
from stereo_bp_ros.partitions import Partition


def find(config: ResolvedConfig, grey: np.ndarray, part: Partition, levels: list[Level],
         arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Fill the truncations of the messages of every level of a partition.

    :param grey: float32 H x W, the left image after the Gaussian.
    :param arrays: ``grey_sums_k`` and ``truncations_k`` as ``memory`` has them.
    :returns: per level, the truncations as a 1-D view.
    """
    usual = np.uint16(quantisation.message_smoothness(config)[1])
    at_edges = np.uint16(quantisation.edge_truncation(config))
    found = []
    for k, level in enumerate(levels):
        sums = arrays[f'grey_sums_{k}']
        if k == 0:
            _round(grey, part.x, part.y, sums)
        else:
            _sum_children(arrays[f'grey_sums_{k - 1}'], sums)
        truncations = arrays[f'truncations_{k}']
        _compare(sums, quantisation.edge_threshold(config, k), usual, at_edges, level, truncations)
        found.append(truncations.reshape(-1))
    return found


@parallel_kernel
def _round(grey: Any, left: int, top: int, sums: Any) -> None:
    height, width = sums.shape
    for y in numba.prange(height):
        for x in range(width):
            sums[y, x] = rounded(grey[top + y, left + x])


@parallel_kernel
def _sum_children(children: Any, sums: Any) -> None:
    """The last row and the last column count twice where their number is odd."""
    height, width = sums.shape
    bottom, right = children.shape[0] - 1, children.shape[1] - 1
    for y in numba.prange(height):
        above, below = 2 * y, min(2 * y + 1, bottom)
        for x in range(width):
            first, second = 2 * x, min(2 * x + 1, right)
            sums[y, x] = (children[above, first] + children[above, second]
                          + children[below, first] + children[below, second])


@parallel_kernel
def _compare(sums: Any, threshold: int, usual: Any, at_edges: Any, level: Level,
             truncations: Any) -> None:
    """Of every node that sends: the truncations of its four messages."""
    height, width = sums.shape
    for row in numba.prange(height - 2):
        y = np.int64(row) + 1
        for x in range(1, width - 1):
            node = truncations[y, (x + y) % 2, x // 2 // truncations.shape[4]]
            lane = x // 2 % truncations.shape[4]
            up = down = left = right = np.int32(0)
            for beside in range(-1, 2):
                of_row, of_column = sums[y, x + beside], sums[y + beside, x]
                up += of_row - sums[y - 1, x + beside]
                down += of_row - sums[y + 1, x + beside]
                left += of_column - sums[y + beside, x - 1]
                right += of_column - sums[y + beside, x + 1]
            node[UP, lane] = at_edges if abs(up) >= threshold else usual
            node[DOWN, lane] = at_edges if abs(down) >= threshold else usual
            node[LEFT, lane] = at_edges if abs(left) >= threshold else usual
            node[RIGHT, lane] = at_edges if abs(right) >= threshold else usual
