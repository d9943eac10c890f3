"""The kernels of tiled belief propagation, run on the host, do what is defined."""

from __future__ import annotations

import ctypes
import dataclasses
import shutil
import types
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical import cost_formats
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.stages import refine
from stereo_bp_ros.engines.cuda.tiled import launch as tiled_launch
from stereo_bp_ros.engines.cuda.tiled import matching
from test.cases import slow
from test.engines.support import host_cuda, naive_bp, naive_tiled
from test.settings import five_sets, tiled

pytestmark = pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++')

#: Three multiprocessors.
SMALL = dataclasses.replace(TYPICAL, multiprocessors=3)

CASES: dict[str, tuple[int, int, Any, dict[str, Any]]] = {
    'speculative': (31, 8, dataclasses.replace(TYPICAL, multiprocessors=7),
                    {**tiled('speculative'), 'tile_size': 3}),
    'speculative, all in one block': (19, 4, SMALL, {
        **tiled('speculative'), 'tile_size': 3, 'outer_iterations': 2}),
    'speculative, outer iterations': (35, 8, SMALL, {
        **tiled('speculative'), 'tile_size': 3, 'outer_iterations': 3}),
    'speculative, more labels': (27, 9, SMALL, {
        **tiled('speculative'), 'disparity_range': 37, 'min_disparity': -20,
        'discontinuity_slope': 0.5, 'discontinuity_truncation': 3.0}),
    'rows': (24, 11, TYPICAL, {**tiled('rows'), 'outer_iterations': 2, 'inner_iterations': 2}),
    'cooperative, fast': (20, 7, TYPICAL, {
        **tiled('cooperative', computation='fast'), 'outer_iterations': 2}),
    'lock-free, all barriers': (20, 7, TYPICAL, tiled('lock_free', synchronisation='all')),
    'many labels': (40, 6, TYPICAL, {
        **tiled('launches'), 'disparity_range': 100, 'tile_size': 3}),
    'padded labels': (30, 7, TYPICAL, {
        **tiled('launches'), 'disparity_range': 21, 'min_disparity': -2, 'data_truncation': 15.3}),
}

#: One of each kind of kernel.
QUICK = ('speculative', 'rows', 'cooperative, fast')


@pytest.mark.parametrize('case', [
    *QUICK, *slow(*(case for case in CASES if case not in QUICK))])
def test_labels_costs_and_right_labels_equal_the_plain_implementation(
        case: str) -> None:
    width, height, device, changes = CASES[case]
    config = five_sets(**{'stereo_algorithm': 'tiled_bp', 'disparity_range': 16, 'tile_size': 5,
                          'disp12_max_diff': 1, **changes})
    left = cv2.GaussianBlur(np.random.default_rng(0).integers(
        0, 256, (height, width), dtype=np.uint8), (0, 0), 1.0)
    left = cv2.normalize(left, None, 0, 255, cv2.NORM_MINMAX)
    right = np.roll(left, -3, axis=1)
    # Two frames: none may depend on what the one before has left behind.
    found = run(config, device, left, right, frames=2)

    beliefs = naive_tiled.beliefs(left.astype(np.float32), right.astype(np.float32), config)
    expected = np.argmin(beliefs, axis=2)
    labels = np.arange(config.disparity_range)
    others = np.where(np.abs(labels - expected[..., np.newaxis]) > 1, beliefs, 2**31 - 1)
    assert np.array_equal(found['label'], expected)
    assert np.array_equal(found['best'], beliefs.min(axis=2))
    assert np.array_equal(found['second'], others.min(axis=2))
    assert np.array_equal(found['right_keys'], naive_bp.right_keys(beliefs, config.min_disparity))


def run(config: MatcherConfig, device: Any, left: np.ndarray, right: np.ndarray,
        frames: int) -> dict[str, np.ndarray]:
    """Everything that matching fills."""
    height, width = left.shape
    launch = tiled_launch.launch_of(config, width, height, device)
    library = host_cuda.build(*matching.kernel(config, launch, 'uint8', True))
    arrays = {name: np.zeros(shape, dtype) for name, shape, dtype in (
        *tiled_launch.arrays(config, width, height, device),
        *((name, left.shape, dtype) for name, dtype in (
            ('label', 'int16'), ('fraction', 'int8'), ('best', 'int32'), ('second', 'int32'),
            ('right_keys', 'uint64'))))}
    arrays['table'][:] = cost_formats.table(config)
    arena = types.SimpleNamespace(
        device={name: array.ctypes.data for name, array in arrays.items()},
        stamp=lambda stage: None)
    stage = matching.Tiled(Context(device, config, width, height, arena))
    arguments = stage._arguments(refine.steps(config, ('confidence',)))
    arguments.cost.left, arguments.cost.right = left.ctypes.data, right.ctypes.data
    steps = 2 * config.outer_iterations * launch.diagonals
    at_once = 1 if launch.schedule == 'launches' else steps
    for _ in range(frames):
        for name in ('label', 'best', 'second', 'right_keys'):
            arrays[name].view(np.uint8)[...] = 0xff
        for first in range(0, steps, at_once):
            library.run(ctypes.byref(arguments), launch.blocks, launch.threads,
                        launch.shared_bytes, first, first + at_once)
    return arrays
