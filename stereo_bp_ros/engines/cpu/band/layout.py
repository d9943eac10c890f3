"""How the labels of a band lie in memory, and its arrays. No Numba here.

A pixel has two windows of 2 ``band_radius`` + 1 labels around its two centres. What belongs to
its labels takes 32 bytes, 16 for each window: label r of a window, from 0 on, is in lane
``FIRST`` + r. A message goes on in ``BAND_REACH`` lanes at both ends. Costs have 255 in lanes
without a label, messages have 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cpu import memory
from stereo_bp_ros.engines.cpu.costs import layout
from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.engines.partitions import Partitioning

#: Bytes of a window, and of a pixel's two, and the lane of a window's first label: those of
#: ``simd.groups``.
WINDOW, PIXEL, FIRST = 16, 32, quantisation.BAND_REACH

#: The second centre of a pixel is the largest estimate this near, in pixels to each side.
NEAR = 8


class BandLevel(NamedTuple):
    """The images of a band search, or a partition, as they lie in memory.

    ``cost`` is [y][x][lane], ``messages`` [slot][x][direction][lane]. A message is kept at its
    sender, under the direction it goes; ``memory.row_slots`` says which slot a row has. It is
    its truncation less its value: 0 is what nobody has sent, and what is beyond its lanes.

    width, height:  pixels.
    radius:         of the windows.
    centres:        int16 [window][y][x], of the whole image.
    shifts:         int8, as uint8, [y][x][neighbour][4], of the whole image: centres of a pixel
                    minus those of its right, and of its lower neighbour, cut to +-16: first minus
                    first, second minus second, first minus second, second minus first.
    x, y:           where the partition begins.
    """

    width: int
    height: int
    radius: int
    centres: np.ndarray[Any, Any]
    shifts: np.ndarray[Any, Any]
    x: int
    y: int


def arrays(config: ResolvedConfig, width: int, height: int, parts: Partitioning) -> Wanted:
    """Everything between the features and the labels."""
    count, reach = memory.threads(config), 2 * VECTOR_BYTES
    slots = int(memory.row_slots(config, 0, parts.height).max()) + 1
    columns = (parts.width + 1) // 2
    wanted: Wanted = [
        ('centres', (2, height, width), 'int16'),
        ('shifts', (height, width, 2, 4), 'uint8'),
        *layout.feature_arrays(config, width, height, count),
        ('data_cost', (parts.height, parts.width, PIXEL), 'uint8'),
        ('cost_0', (parts.height, parts.width, PIXEL), 'uint8'),
        ('path_up', (2, parts.width, PIXEL), 'uint8'),
        ('path_across', (layout.path_rows(count), 2, parts.width, PIXEL), 'uint8'),
        ('messages_0', (slots, parts.width, 4, PIXEL), 'uint8'),
        ('grey_sums_0', (parts.height, parts.width), 'int32'),
        ('truncations_0', (parts.height, 2, columns, 4, 1), 'uint8'),
        ('message_vectors', (count, reach), 'uint8'),
        ('belief_rows', (count, 2, PIXEL), 'uint16'),
        ('selected_rows', (count, 1), 'uint16'),
        ('right_rows', (count, 2, width + config.disparity_range + 2 * PIXEL), 'uint16')]
    if len(parts.columns.starts) > 1:       # these offer labels to the same pixels
        wanted.append(('right_least', (height, width), 'uint16'))
    return wanted
