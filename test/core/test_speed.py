"""No change makes the CPU several times slower: times of one run, beside OpenCV's SGBM.

How fast the CPU engine is, the benchmarks say. Processors differ by a factor of 2 in what they
take for it and for OpenCV; losing the vectors or the compiled kernels costs more than that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.evaluation import baselines

pytest.importorskip('numba')

WIDTH, HEIGHT, DISPARITIES = 1242, 375, 128
#: More of them only where the first ones were disturbed.
MAX_ROUNDS = 20


@pytest.mark.parametrize(('preset', 'most'), [('road_fast', 3.0), ('sad_fast', 1.5)])
def test_a_preset_takes_at_most_a_few_times_what_opencv_takes(preset: str, most: float) -> None:
    left = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH), np.uint8)
    right = np.roll(left, -7, axis=1)
    config = MatcherConfig.preset(preset).replace(
        backend='cpu', num_threads=1, disparity_range=DISPARITIES)
    other = baselines.Baseline('sgbm', DISPARITIES)
    own_s = other_s = np.inf
    with StereoMatcher(config) as matcher, baselines.threads(1):
        matcher.prepare(WIDTH, HEIGHT)
        for _ in range(MAX_ROUNDS):
            own_s = min(own_s, seconds(lambda: matcher.compute(left, right)))
            other_s = min(other_s, seconds(lambda: other.compute(left, right)))
            if own_s < most * other_s:
                return
    pytest.fail(f'{own_s:.3f} s, but {most} times the {other_s:.3f} s of OpenCV at most')


def seconds(program: Callable[[], object]) -> float:
    """Of the processor: what else the machine does counts for none."""
    start = time.process_time()
    program()
    return time.process_time() - start
