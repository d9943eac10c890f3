"""OpenCV's color maps as tables."""

from __future__ import annotations

import functools

import cv2
import numpy as np


@functools.cache
def table(name: str) -> np.ndarray:
    """The colors of a map, from the minimum to the maximum.

    :param name: one of ``config.matcher_settings.COLOR_MAPS``.
    :returns: uint8 256 x 3, blue, green and red; read-only.
    """
    steps = np.arange(256, dtype=np.uint8)
    colors = cv2.applyColorMap(steps, getattr(cv2, f'COLORMAP_{name.upper()}')).reshape(256, 3)
    colors.flags.writeable = False
    return colors
