"""The kernels of the outputs, run on the host, leave the bits of the CPU engine."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from test.engines.support.host_arena import HostArena

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.outputs import (
    Finished,
    enlarge_confidences,
    enlarge_disparities,
    fill,
    fill_levels,
)
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.outputs import stage
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.stages import convert, refine
from stereo_bp_ros.frame.disparity_frame import DERIVED, OUTPUTS
from stereo_bp_ros.images.raw_images import ENCODINGS
from test.engines.host.test_convert_on_host import random_image
from test.engines.support.outputs import assert_same, rubbish
from test.engines.support.pairs import CALIBRATION

pytestmark = [pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++'),
              pytest.mark.usefixtures('host_kernels')]


def random_map(shape: tuple[int, int], disparities: int) -> np.ndarray:
    """Sixteenths of surfaces, with holes."""
    rng = np.random.default_rng(3)
    surfaces = np.where(np.arange(shape[1]) > shape[1] // 2, 8 * (disparities - 1), 20)
    values = surfaces + rng.integers(0, 20, shape)
    values[rng.random(shape) < 0.2] = -16
    return values.astype(np.int16)


def outputs_on_host(config: MatcherConfig, reference: RawImage, disparity: np.ndarray,
                    confidence: np.ndarray, names: tuple[str, ...],
                    out: dict[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """What the stage makes of a refined map, reduced where the configuration says so.

    :param out: arrays to fill in place of new ones.
    """
    width, height = reference.width, reference.height
    plan = plan_of(config, width, height)
    arena = HostArena(plan.memory)
    enlarges = config.downscale > 1
    arena.view('reduced_final' if enlarges else 'final')[...] = disparity
    if enlarges:
        arena.view('reduced_confidence')[...] = confidence
    rows = arena.view('left_raw')
    convert.stage(reference, rows)
    outputs = out or rubbish(names, (height, width), config.points_decimation)
    parameters = refine.Parameters.from_buffer(arena.view('parameters')[1].data)
    parameters.fill(plan.config, CALIBRATION)
    parameters.bind({'final': arena.device['final'],
                    **{name: array.ctypes.data for name, array in outputs.items()}})
    made = stage.Outputs(Context(TYPICAL, plan.config, plan.width, plan.height, arena),
                         (width, height), config.downscale)
    made.enqueue(0, refine.steps(plan.config, names),
                 stage.Reference('left_raw', convert.reading(reference)))
    return outputs


@pytest.mark.parametrize('factor', [1, 2, 3, 4])
@pytest.mark.parametrize(('size', 'changes'), [
    ((71, 22), {'color_map': 'jet'}), ((33, 9), {'disparity_range': 8})], ids=str)
def test_outputs_are_those_of_the_cpu_together_and_alone(
        size: tuple[int, int], changes: dict[str, Any], factor: int) -> None:
    """Of the finished disparity, and of reduced ones, which are enlarged."""
    config = MatcherConfig(**{'disparity_range': 40, 'min_disparity': -12, 'downscale': factor,
                              **changes})
    width, height = size
    plan = plan_of(config, width, height)
    reduced = random_map((plan.height, plan.width), plan.config.disparity_range)
    confidence = np.random.default_rng(4).random(reduced.shape, np.float32)
    reference = RawImage.from_array(
        np.random.default_rng(5).integers(0, 256, (height, width, 3), np.uint8))
    enlarged = reduced
    if factor > 1:
        enlarged = np.empty((height, width), np.int16)
        enlarge_disparities(len(enlarged), reduced, factor, enlarged)
    every_name = tuple(OUTPUTS) if factor > 1 else DERIVED      # refinement leaves the others
    for names in (every_name, *((name,) for name in every_name)):
        found = outputs_on_host(config, reference, reduced, confidence, names)
        expected = rubbish(names, (height, width))
        if 'confidence' in names:
            enlarge_confidences(height, confidence, factor, expected['confidence'])
        fill(Finished(enlarged, -12, reference, plan.config, CALIBRATION, {}), expected,
             dict.fromkeys(('refine', *OUTPUTS), 0.0))
        assert_same(found, expected)


@pytest.mark.parametrize(('encoding', 'changes'), [
    *(('bgra8', {'reference_image': reference, **live}) for reference in ('left', 'right')
      for live in ({}, {'points_decimation': 3}, {
          'points_min_depth': 6.0, 'points_max_depth': 6.4, 'points_decimation': 2})),
    *((encoding, {}) for encoding in ENCODINGS)], ids=str)
def test_points_have_the_bits_and_the_colours_of_the_cpu(encoding: str, changes: dict[str, Any]
                                                         ) -> None:
    config = MatcherConfig(disparity_range=40, min_disparity=-12, mono16_scale=1 / 200, **changes)
    reference = random_image(encoding, 70, 22, big_endian=len(encoding) % 2 == 0)
    image = reference.height, reference.width
    disparity = random_map(image, config.disparity_range)
    found = outputs_on_host(config, reference, disparity, disparity, ('points',))
    expected = rubbish(('points',), image, config.points_decimation)
    arrays = {name: np.empty(shape, dtype)
              for name, shape, dtype in scratch.convert(reference.width, reference.height)}
    fill(Finished(disparity, config.min_disparity, reference, config, CALIBRATION, arrays),
         expected, {'points': 0.0})
    assert 0 < np.isnan(found['points'][..., 2]).sum() < found['points'][..., 2].size
    np.testing.assert_array_equal(found['points'].view(np.uint32),
                                  expected['points'].view(np.uint32))
    assert len(np.unique(found['points'][..., 3])) > 50


def test_points_may_begin_at_any_float() -> None:
    config, reference = MatcherConfig(disparity_range=40), random_image('rgb8', 70, 22)
    disparity = random_map((22, 70), 40)
    expected = outputs_on_host(config, reference, disparity, disparity, ('points',))['points']
    memory = np.full(expected.size + 4, np.nan, np.float32)
    for first in range(4):
        out = memory[first:first + expected.size].reshape(expected.shape)
        outputs_on_host(config, reference, disparity, disparity, ('points',), {'points': out})
        np.testing.assert_array_equal(out.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize('is_mirrored', [False, True])
@pytest.mark.parametrize('name', ['left_grey', 'left_values'])
@pytest.mark.parametrize('factor', [1, 2])
def test_points_have_the_grey_values_that_are_matched_where_no_image_came_rectified(
        factor: int, name: str, is_mirrored: bool) -> None:
    config = MatcherConfig(disparity_range=40, downscale=factor)
    width, height = 33, 9
    plan = plan_of(config, width, height)
    arena = HostArena(plan.memory)
    disparity = random_map((height, width), 40)
    arena.view('final')[...] = disparity
    arena.view('reduced_final' if factor > 1 else 'final')[...] = disparity[
        :plan.height, :plan.width]
    grey = np.random.default_rng(6).random((plan.height, plan.width), np.float32) * 300
    if name == 'left_grey':
        grey = np.floor(np.minimum(grey, 255))
    arena.view(name)[...] = grey
    outputs = rubbish(('points',), (height, width))
    parameters = refine.Parameters.from_buffer(arena.view('parameters')[1].data)
    parameters.fill(plan.config, CALIBRATION)
    parameters.bind({'points': outputs['points'].ctypes.data})
    layout = convert.CHANNEL if name == 'left_grey' else convert.VALUES
    made = stage.Outputs(Context(TYPICAL, plan.config, plan.width, plan.height, arena),
                         (width, height), factor)
    made.enqueue(0, refine.steps(plan.config, ('points',)),
                 stage.Reference(name, convert.Reading(layout, 1, 0), True, is_mirrored))
    expected = np.empty((height, width), np.uint8)
    fill_levels(len(expected), grey, factor, is_mirrored, expected)
    colors = outputs['points'][..., 3].copy().view(np.uint32)
    np.testing.assert_array_equal(colors, expected.astype(np.uint32) * 0x10101)
