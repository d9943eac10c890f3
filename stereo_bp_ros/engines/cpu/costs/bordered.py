"""The grey image in 8 bits that features are taken of, and where they go."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.engines.cpu.simd.runtime import kernel


class Bordered(NamedTuple):
    """``image`` uint8: H x W with ``reach`` replicated pixels around it, and some beyond."""

    image: np.ndarray[Any, Any]
    reach: int


class Target(NamedTuple):
    """Where the feature of pixel (x, y) with begin <= x < end goes: ``out[y, first + step x]``."""

    out: np.ndarray[Any, Any]
    first: int
    step: int
    begin: int
    end: int


@kernel
def rounded(grey: Any) -> Any:
    """A grey value half up to 0..255, int32."""
    # In float64: 0.49999997 + 0.5 is 1 in float32.
    value = np.float64(grey) + 0.5
    value = 0.0 if value < 0.0 else value
    return np.int32(255.0 if value > 255.0 else value)


@kernel
def fill_bordered(grey: Any, image: Any, reach: int) -> None:
    """Grey values float32 H x W rounded half up to 0..255, borders replicated."""
    height, width = grey.shape
    for row in range(height + 2 * reach):
        y = min(max(row - reach, 0), height - 1)
        for x in range(width):
            image[row, reach + x] = np.uint8(rounded(grey[y, x]))
        image[row, :reach] = image[row, reach]
        image[row, reach + width:] = image[row, reach + width - 1]
