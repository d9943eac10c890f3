"""Images of a few pixels on a GPU, reduced or not, against the CPU engine."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip('cupy')
pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.types import OUTPUTS
from test.cases import every
from test.engines.support.pairs import CALIBRATION

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize('algorithm', ['bp', 'sad', 'tiled_bp'])
@pytest.mark.parametrize('factor', [1, 2, 3, 4])
def test_images_of_a_few_pixels_give_what_the_cpu_gives(algorithm: str, factor: int) -> None:
    """Also those of 1 x 1, which are as large when they are reduced."""
    config = MatcherConfig(stereo_algorithm=algorithm, disparity_range=16, downscale=factor,
                           border='invalid' if algorithm == 'sad' else 'keep', disp12_max_diff=1,
                           filling='plane')
    for height, width in itertools.product(range(1, 6), repeat=2):
        left, right = np.random.default_rng(0).integers(0, 256, (2, height, width), np.uint8)
        found = []
        for backend in ('cuda', 'cpu'):
            with StereoMatcher(config, backend) as matcher:
                found.append(matcher.compute(left, right, calibration=CALIBRATION,
                                             outputs=tuple(OUTPUTS)))
        assert every(np.array_equal(*(getattr(frame, name) for frame in found), equal_nan=True)
                     for name in OUTPUTS), (width, height)
