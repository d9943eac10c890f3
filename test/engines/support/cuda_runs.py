"""Frames of a CUDA engine with the parameters of the five sets, and their labels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import numpy as np

from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.engines.cuda import engine as cuda
from stereo_bp_ros.engines.cuda import plan
from stereo_bp_ros.engines.cuda.hierarchical import tilings as table
from stereo_bp_ros.engines.cuda.hierarchical.launch import Tiling
from test.engines.support import naive_bp
from test.engines.support.outputs import rubbish
from test.engines.support.pairs import CALIBRATION


@contextlib.contextmanager
def tiled_as(tilings: Mapping[int, Tiling]) -> Iterator[None]:
    """Context in which levels have these tilings, not those of the table."""
    chosen = table.choose

    def choose(config: Any, width: int, height: int, k: int, device: Any) -> Tiling:
        return tilings.get(k) or chosen(config, width, height, k, device)
    if not tilings:
        yield
        return
    plan.forget()
    try:
        with mock.patch.object(table, 'choose', choose):
            yield
    finally:
        plan.forget()


def run(config: MatcherConfig, left: np.ndarray, right: np.ndarray,
        names: tuple[str, ...] = ('disparity',), engine: Any = None,
        tilings: Mapping[int, Tiling] | None = None) -> dict[str, np.ndarray]:
    height, width = left.shape[:2]
    with tiled_as(tilings or {}):
        made = engine or cuda.CudaEngine.of(config, width, height)
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
