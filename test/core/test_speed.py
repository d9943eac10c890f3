"""No change makes the CPU much slower: times of one run, beside OpenCV's matchers."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.evaluation import baselines

pytest.importorskip('numba')

WIDTH, HEIGHT, DISPARITIES = 1242, 375, 128
ROUNDS = 5


@pytest.mark.parametrize(('preset', 'baseline', 'most'), [('road_fast', 'sgbm', 1.0),
                                                      ('sad_fast', 'sgbm', 0.5)])
def test_a_preset_takes_at_most_so_many_times_what_opencv_takes(preset, baseline, most):
    left = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH), np.uint8)
    right = np.roll(left, -7, axis=1)
    config = MatcherConfig.preset(preset).replace(
        backend='cpu', num_threads=1, disparity_range=DISPARITIES)
    other = baselines.Baseline(baseline, DISPARITIES)
    with StereoMatcher(config) as matcher, baselines.threads(1):
        matcher.prepare(WIDTH, HEIGHT)
        own_s, other_s = least_times(lambda: matcher.compute(left, right),
                                     lambda: other.compute(left, right))
    assert own_s < most * other_s


def least_times(*programs: Callable[[], object]) -> list[float]:
    """Processor seconds of each, in turns: what else the machine does counts for none."""
    times: list[list[float]] = [[] for _ in programs]
    for _ in range(ROUNDS):
        for program, found in zip(programs, times, strict=True):
            start = time.process_time()
            program()
            found.append(time.process_time() - start)
    return [min(found) for found in times]
