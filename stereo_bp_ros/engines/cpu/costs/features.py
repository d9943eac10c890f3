"""Features of both images for every cost that counts: part of the stage ``preprocess``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.config import ResolvedConfig
from stereo_bp_ros.engines.cpu.costs import layout
from stereo_bp_ros.engines.cpu.costs.bordered import Bordered, Target, fill_bordered

#: The costs' own modules, in the order of their list.
MODULES = tuple(importlib.import_module(f'{__package__}.{name}') for name in layout.COSTS)


def extract(smoothed: np.ndarray[Any, Any], side: str, config: ResolvedConfig,
            arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Fill the features of one image as ``layout.Term`` says.

    :param smoothed: float32 H x W, the image after the Gaussian.
    :param side: left or right.
    :param arrays: those of ``layout.feature_arrays``.
    """
    width = smoothed.shape[1]
    rows, grey = arrays[f'{side}_features'], Bordered(arrays['bordered_grey'],
                                                      layout.border(config))
    fill_bordered(smoothed, *grey)
    first, step, begin, end = 0, 1, 0, width
    pixels = layout.row_pixels(config, width)[side == 'right']
    if side == 'right':
        first, step = width - 1 - config.min_disparity, -1
        begin, end = max(0, first - pixels + 1), min(width, first + 1)
    for module, size, term in zip(MODULES, layout.COSTS.values(), layout.terms(config, width),
                                  strict=True):
        if term.weight and begin < end:
            start = getattr(term, side)
            out = rows[:, start:start + size * pixels].view(f'uint{8 * size}')
            module.feature(grey, config, Target(out, first, step, begin, end), arrays)
