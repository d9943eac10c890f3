"""Part of stage ``refine``: values for pixels without one, from those beside them.

Maps are int16 H x W in sixteenths of a pixel, below 0 = no value. A window is x_begin, x_end,
y_begin, y_end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel


@parallel_kernel
def fill(y: int, values: Any, x_begin: int, x_end: int, y_begin: int, y_end: int, out: Any
         ) -> None:
    """Write ``values`` with its holes inside the window filled to ``out``.

    Each gets the smaller of the nearest values left and right of it in the window, or the only
    one.
    """
    row = out[y]
    row[:] = values[y]
    if y_begin <= y < y_end:
        _fill_background(row[x_begin:x_end])


@kernel
def _fill_background(row: Any) -> None:
    width = row.shape[0]
    x = 0
    while x < width:
        if row[x] >= 0:
            x += 1
            continue
        end = x
        while end < width and row[end] < 0:
            end += 1
        left = row[x - 1] if x > 0 else np.int16(-1)
        right = row[end] if end < width else np.int16(-1)
        value = max(left, right) if left < 0 or right < 0 else min(left, right)
        for i in range(x, end):
            row[i] = value if value >= 0 else row[i]
        x = end
