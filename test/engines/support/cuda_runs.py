"""Frames of a CUDA engine with the parameters of the five sets, and their labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.engines.cuda import engine as cuda
from test.engines.support import naive_bp
from test.engines.support.outputs import rubbish
from test.engines.support.pairs import CALIBRATION


def run(config: MatcherConfig, left: np.ndarray, right: np.ndarray,
        names: tuple[str, ...] = ('disparity',), engine: Any = None,
        tilings: Any = None) -> dict[str, np.ndarray]:
    height, width = left.shape[:2]
    made = engine or cuda.CudaEngine.of(config, width, height, tilings=tilings)
    outputs = rubbish(names, (height, width), config.points_decimation)
    made.compute(RawImage.from_array(left), RawImage.from_array(right), CALIBRATION, outputs)
    if engine is None:
        made.close()
    return outputs


def naive_labels(config: MatcherConfig, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    beliefs = naive_bp.belief_propagation(left.astype(np.float32), right.astype(np.float32),
                                          config)
    return naive_bp.labels(beliefs)


def labels(config: MatcherConfig, disparity: np.ndarray) -> np.ndarray:
    shift = CALIBRATION.shift if config.pre_adjust_disparity else 0.0
    return np.rint(disparity + shift - config.min_disparity).astype(int)
