"""Raw images on a GPU: the disparities of the CPU engine, whatever the calibration."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig, RawImage, Rectification, StereoMatcher
from stereo_bp_ros.images import ENCODINGS
from test.engines.support.pairs import random_raw
from test.raw_cameras import MODELS, camera_info, rectification

pytestmark = pytest.mark.gpu
WIDTH, HEIGHT = 98, 60
CONFIG = MatcherConfig(rectify=True, disparity_range=16, levels=3, disp12_max_diff=1)
OUTPUTS = ('disparity', 'depth', 'points')


@pytest.mark.parametrize(('size', 'factor'), [((0, 0), 1), ((0, 0), 2), ((50, 40), 1)])
@pytest.mark.parametrize('reference', ['left', 'right'])
@pytest.mark.parametrize('encoding', sorted(ENCODINGS))
def test_frames_have_the_bits_of_the_cpu_engine_as_calibrations_change(
        encoding: str, reference: str, size: tuple[int, int], factor: int) -> None:
    pytest.importorskip('numba')
    config = CONFIG.replace(reference_image=reference, rectified_width=size[0],
                            rectified_height=size[1], downscale=factor)
    pair = [random_raw(encoding, WIDTH, HEIGHT, seed, 3) for seed in (1, 2)]
    with StereoMatcher(config, 'cuda') as on_cuda, StereoMatcher(config, 'cpu') as on_cpu:
        for model, d in (*MODELS, MODELS[0]):
            found = Rectification.from_camera_info(*(
                camera_info(side, model=model, d=d, size=(WIDTH, HEIGHT))
                for side in ('left', 'right')), *size)
            for _ in range(2):
                frame, expected = (matcher.compute(*pair, rectification=found, outputs=OUTPUTS)
                                   for matcher in (on_cuda, on_cpu))
                for name in OUTPUTS:
                    np.testing.assert_array_equal(getattr(frame, name), getattr(expected, name))
                assert frame.valid.any()


def test_images_in_pinned_memory_are_rectified_where_they_lie() -> None:
    import cupyx
    found = rectification(size=(WIDTH, HEIGHT))
    values = np.random.default_rng(1).integers(0, 256, (2, HEIGHT, WIDTH), np.uint8)
    with StereoMatcher(CONFIG, 'cuda') as matcher:
        expected = matcher.compute(*values, rectification=found).disparity
        pinned = []
        for image in values:
            array = cupyx.empty_pinned(image.shape, np.uint8)
            array[:] = image
            pinned.append(RawImage.from_array(array))
        for _ in range(4):
            frame = matcher.compute(*pinned, rectification=found)
            np.testing.assert_array_equal(frame.disparity, expected)
