"""Belief propagation with messages of floats on a GPU: how they are kept, and labels of theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip('cupy')
from cuda_runs import labels, naive_labels, paper, run
from pairs import noisy_pair

from stereo_bp_ros.engines.cuda import device, layout, messages, tiling

pytestmark = [pytest.mark.gpu,
              pytest.mark.skipif(device.unavailable(0) is not None, reason='needs an NVIDIA GPU')]

RANGES = (2, 12, 21, 40, 64, 77, 128, 150, 300, 512)


@pytest.mark.parametrize('disparities', RANGES)
@pytest.mark.parametrize('changes', [{}, {'data_truncation': 15.3}, {'preprocessing': 'sobel_x'}])
def test_three_bytes_are_as_good_as_four(monkeypatch: pytest.MonkeyPatch, disparities: int,
                                         changes: dict[str, Any]) -> None:
    config = paper(disparities, message_type='float32', levels=3, subpixel=True, **changes)
    left, right = noisy_pair(149, 75)
    results = []
    for least, kind in ((layout.LEAST_COST_OF_THREE_BYTES, 'Float32ThreeBytes'),
                        (float('inf'), 'Float32')):
        monkeypatch.setattr(layout, 'LEAST_COST_OF_THREE_BYTES', least)
        assert layout.stored_type(config) == kind
        tiling.forget()
        results.append(run(config, left, right, ('disparity', 'confidence')))
    tiling.forget()
    found, expected = results
    # Another order of sums alone does as much to beliefs that are hardly apart.
    assert np.mean(np.abs(found['disparity'] - expected['disparity']) > 1 / 16) < 0.002
    assert np.mean(np.abs(found['confidence'] - expected['confidence']) > 1e-4) < 0.002


@pytest.mark.parametrize('disparities', [64, 128])
def test_costs_far_below_the_truncation_are_still_told_apart(disparities: int) -> None:
    # Three bytes would have few steps for them.
    config = paper(disparities, message_type='float32', levels=3, data_weight=5e-4)
    assert layout.stored_type(config) == 'Float32'
    left, right = noisy_pair(149, 75)
    found = labels(config, run(config, left, right)['disparity'])
    assert np.mean(found != naive_labels(config, left, right)) < 0.006


@pytest.mark.parametrize('disparities', RANGES)
@pytest.mark.parametrize('message_type', ['float32', 'float16'])
@pytest.mark.parametrize('directions', [1, 2, 4])
@pytest.mark.parametrize('truncation', [15.0, 15.3])
def test_what_else_is_wanted_changes_no_label(disparities: int, message_type: str,
                                              directions: int, truncation: float) -> None:
    config = paper(disparities, message_type=message_type, levels=2, iterations=4,
                   data_truncation=truncation)
    left, right = noisy_pair(149, 45)
    one = tiling.Tiling(1, 16, 8, 128, 1, directions)
    side = 4 if disparities < 500 else 2
    for last in (tiling.Tiling(1, side + 2, side, 128, 1, directions),
                 tiling.Tiling(2, side, side, 128, 1, directions),
                 *([tiling.Tiling(2, 4, 4, 1024, 1, directions, True)] * (disparities <= 40))):
        tiles = {0: one._replace(last=last)}
        steps = tiling.passes(config, 149, 45, tilings=tiles)
        assert messages.base_cost(config, 'uint8', steps) == (
            'Multiples' if truncation == 15.0
            else 'Float16' if message_type == 'float16' else 'Float32')
        alone, with_more = (run(config, left, right, names, tilings=tiles)['disparity']
                            for names in (('disparity',), ('disparity', 'confidence')))
        assert np.array_equal(alone, with_more)
