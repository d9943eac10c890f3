"""Points in space, pixel by pixel as ``docs/explanation/algorithms.md`` defines them."""

from __future__ import annotations

import math

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.stages import convert
from stereo_bp_ros.images.raw_images import RawImage


def points(sixteenths: np.ndarray, raw: RawImage, config: MatcherConfig, calibration: Calibration
           ) -> np.ndarray:
    """float32 H x W x 4 of every ``points_decimation``-th row and column.

    :param sixteenths: H x W, from ``config.min_disparity`` on, below 0 where invalid.
    """
    step = config.points_decimation
    cx = calibration.cx_left if config.reference_image == 'left' else calibration.cx_right
    colours = packed_colours(raw, config)
    found = np.full((*sixteenths[::step, ::step].shape, 4), np.nan, np.float32)
    for i, y in enumerate(range(0, raw.height, step)):
        for j, x in enumerate(range(0, raw.width, step)):
            found[i, j, 3:] = colours[y, x:x + 1].view(np.float32)
            disparity = config.min_disparity + sixteenths[y, x] / 16 - calibration.shift
            if sixteenths[y, x] < 0 or disparity <= 0:
                continue
            z = calibration.focal_px * calibration.baseline_m / disparity
            if config.points_min_depth <= z <= (config.points_max_depth or math.inf):
                found[i, j, :3] = ((x - cx) * (1 / calibration.focal_px) * z,
                                   (y - calibration.cy) * (1 / calibration.focal_y_px) * z, z)
    return found


def packed_colours(raw: RawImage, config: MatcherConfig) -> np.ndarray:
    """uint32 H x W: red, green and blue, or three times the grey value that is matched."""
    if raw.encoding in ('rgb8', 'rgba8', 'bgr8', 'bgra8', '8UC3'):
        order = (0, 1, 2) if raw.encoding.startswith('rgb') else (2, 1, 0)
        red, green, blue = (raw.pixels[:, :, i].astype(np.uint32) for i in order)
    else:
        arrays = {name: np.empty(shape, dtype)
                  for name, shape, dtype in scratch.convert(raw.width, raw.height)}
        grey = np.empty((raw.height, raw.width), np.float32)
        convert.to_grey(raw, grey, config.mono16_scale, arrays)
        rounded = np.minimum(grey, np.float32(255)) + np.float32(0.5)
        red = green = blue = rounded.astype(np.uint32)
    return np.ascontiguousarray(red << 16 | green << 8 | blue)
