"""Engines that match an image in partitions: what they compute, and in how much memory."""

from __future__ import annotations

import pathlib
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, RawImage, StereoMatcher
from stereo_bp_ros.engines import choice, partitions
from stereo_bp_ros.engines.backend import Engine
from stereo_bp_ros.engines.cpu.engine import CpuEngine
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from test.engines.support.outputs import assert_same, rubbish
from test.engines.support.pairs import CALIBRATION, parts_of
from test.engines.support.pairs import noisy_pair as pair
from test.settings import five_sets

BACKENDS = ['cpu', pytest.param('cuda', marks=pytest.mark.gpu)]

#: Everything that reads more of a pixel than its label.
EVERYTHING = {'subpixel': True, 'uniqueness_ratio': 3.0, 'disp12_max_diff': 1,
              'median_window_size': 3, 'speckle_size': 10, 'filling': 'background'}


def config_of(**changes: Any) -> MatcherConfig:
    return five_sets(**{'disparity_range': 24, 'levels': 3, 'border': 'keep',
                        'partition_padding': 9, **changes})


def matched(config: MatcherConfig, left: np.ndarray, right: np.ndarray, backend: str,
            parts: partitions.Partitioning | None, frames: int = 1) -> dict[str, np.ndarray]:
    height, width = left.shape
    if backend == 'cuda':
        from stereo_bp_ros.engines.cuda.engine import CudaEngine
        engine: Engine = CudaEngine.of(config, width, height, parts=parts)
    else:
        engine = CpuEngine.of(config, width, height, parts)
    outputs = rubbish(OUTPUTS, (height, width))
    for _ in range(frames):
        engine.compute(RawImage.from_array(left), RawImage.from_array(right), CALIBRATION,
                       outputs)
    engine.close()
    return outputs


@pytest.mark.parametrize('backend', BACKENDS)
def test_one_partition_is_the_whole_image(backend: str) -> None:
    config = config_of(**EVERYTHING)
    images = pair(61, 45)
    assert_same(matched(config, *images, backend, partitions.whole(61, 45)),
                matched(config, *images, backend, None))


@pytest.mark.gpu
@pytest.mark.parametrize('changes', [
    EVERYTHING, {**EVERYTHING, 'reference_image': 'right'}, {'min_disparity': -9},
    {**EVERYTHING, 'preprocessing': 'sobel_x'}, {'iterations': 0}, {'iterations': 4},
    {'levels': 4, 'disparity_range': 77}, {**EVERYTHING, 'disparity_range': 150, 'levels': 3},
    {'data_truncation': 15.3}], ids=lambda changes: '-'.join(map(str, changes)))
@pytest.mark.parametrize(('width', 'height', 'columns', 'rows'), [
    (237, 83, 3, 2), (193, 131, 2, 3), (130, 301, 1, 4), (303, 40, 5, 1)])
def test_both_engines_give_the_same_bits_in_partitions(
        width: int, height: int, columns: int, rows: int, changes: dict[str, Any]) -> None:
    config = config_of(**changes)
    parts = parts_of(width, height, columns, rows, 9, partitions.alignment(config))
    assert parts.count > 1
    images = pair(width, height)
    assert_same(matched(config, *images, 'cuda', parts, frames=2),
                matched(config, *images, 'cpu', parts))


@pytest.mark.gpu
def test_floats_in_partitions_agree_with_the_other_engine() -> None:
    config = config_of(message_type='float32')
    images, parts = pair(193, 131), parts_of(193, 131, 2, 3, 9, partitions.alignment(config))
    found, expected = (matched(config, *images, backend, parts)['disparity']
                       for backend in ('cuda', 'cpu'))
    assert (np.abs(found - expected) > 1).mean() <= 0.002


@pytest.mark.parametrize('backend', BACKENDS)
def test_what_does_not_fit_is_matched_in_partitions_within_the_limit(
        backend: str, caplog: pytest.LogCaptureFixture) -> None:
    config = config_of(backend=backend, partition_padding=16)
    left, right = pair(640, 480)
    with StereoMatcher(config) as matcher:
        whole = matcher.compute(left, right)
        needed = matcher.memory_plan
    assert needed is not None
    limit = needed.total * 3 // 5
    with StereoMatcher(config.replace(memory_limit=limit)) as matcher:
        parts = matcher.compute(left, right)
        plan, cut_into = matcher.memory_plan, matcher.partitions
    assert plan is not None
    assert plan.total <= limit
    config = config.replace(memory_limit=limit)
    assert cut_into == choice.resolve(config).plan(640, 480).parts
    assert cut_into.count > 1
    assert 'partitions of' in caplog.text
    assert parts.disparity is not None
    assert (parts.disparity != whole.disparity).mean() <= 0.01


@pytest.mark.parametrize('backend', BACKENDS)
def test_three_rows_of_cones_half_hardly_differ_from_the_whole(data: pathlib.Path, backend: str
                                                               ) -> None:
    images = [cv2.imread(str(data / 'middlebury' / 'cones_half' / f'{side}.png'),
                         cv2.IMREAD_GRAYSCALE) for side in ('left', 'right')]
    config = MatcherConfig.preset('five_sets', message_type='int16', disparity_range=128)
    parts = parts_of(900, 750, 1, 3, 64, partitions.alignment(config))
    assert parts.count == 3
    whole, found = (matched(config, *images, backend, cut)['disparity'] for cut in (None, parts))
    assert (found != whole).mean() <= 0.003


@pytest.mark.gpu
@pytest.mark.alone
def test_a_large_pair_is_matched_within_2_gib_of_the_device() -> None:
    """4096 x 3072 pixels and 256 disparities, int16: whole it would take 38 GiB."""
    from cupy.cuda import runtime
    width, height, limit = 4096, 3072, 2 * 2**30
    config = MatcherConfig.preset('five_sets', message_type='int16', disparity_range=256,
                                  backend='cuda', memory_limit=limit)
    rng = np.random.default_rng(1)
    left = cv2.GaussianBlur(rng.integers(0, 256, (height, width), dtype=np.uint8), (0, 0), 1.0)
    left = cv2.normalize(left, None, 0, 255, cv2.NORM_MINMAX)
    right = np.roll(left, -100, axis=1)
    runtime.free(0)                         # the context of the process, which is no engine's
    before = runtime.memGetInfo()[0]
    with StereoMatcher(config) as matcher:
        frame = matcher.compute(left, right, outputs=('disparity', 'confidence'))
        used = before - runtime.memGetInfo()[0]
        assert matcher.memory_plan is not None
        assert matcher.memory_plan.total <= limit
    assert used <= limit
    assert frame.disparity is not None
    assert (frame.disparity[frame.valid_window.slices] == 100).mean() > 0.99


def test_block_matching_is_never_cut() -> None:
    config = MatcherConfig(stereo_algorithm='sad', backend='cpu', partition_rows=3)
    assert choice.resolve(config).plan(320, 240).parts == partitions.whole(320, 240)
