"""The disparity as a picture: a color for each pixel."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines import colors
from stereo_bp_ros.engines.cpu.outputs.finished import Finished
from stereo_bp_ros.engines.cpu.simd.runtime import parallel_kernel


def disparity_color(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """Colors of ``color_map``, black where invalid.

    :param out: uint8 H x W x 3, filled with blue, green and red.
    """
    config = finished.config
    _color(finished.disparity, 16 * config.colored_range, colors.table(config.color_map), out)


@parallel_kernel
def _color(sixteenths: Any, last: int, table: Any, out: Any) -> None:
    for y in numba.prange(out.shape[0]):
        row, values = sixteenths[y], out[y]
        for x in range(values.shape[0]):
            value = int(row[x])
            place = min((255 * value + last // 2) // last, 255)
            for channel in range(3):
                values[x, channel] = table[place, channel] if value >= 0 else np.uint8(0)
