"""Images that go through maps on a GPU: the bits of the CPU engine, whatever the maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig, RawImage, Rectification, StereoMatcher
from stereo_bp_ros.images.raw_images import ENCODINGS
from test.engines.support.pairs import random_raw
from test.raw_cameras import MODELS, camera_info, rectification, scene

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


WARPS = (None, (1.003, 0.02, -1.4, -0.015, 1.004, 1.7, 2e-6, 1e-6, 1.0),
         (1, 0, 0.3, 0, 1, -2.0, 0, 0, 1), None)
CORRECTED = CONFIG.replace(rectify=False, row_correction='correct')


@pytest.mark.parametrize('changes', [
    {}, {'downscale': 3}, {'rectify': True, 'downscale': 2}], ids=str)
@pytest.mark.parametrize('reference', ['left', 'right'])
@pytest.mark.parametrize('encodings', [
    *((encoding, encoding) for encoding in sorted(ENCODINGS)), ('mono8', 'mono16'),
    ('bayer_grbg16', 'nv24')], ids='-'.join)
def test_frames_have_the_bits_of_the_cpu_engine_as_corrections_change(
        encodings: tuple[str, str], reference: str, changes: dict[str, Any]) -> None:
    pytest.importorskip('numba')
    config = CORRECTED.replace(reference_image=reference, **changes)
    pair = [random_raw(encoding, WIDTH, HEIGHT, seed, 3)
            for seed, encoding in enumerate(encodings)]
    found = rectification(size=(WIDTH, HEIGHT))
    calibration = found.calibration
    with StereoMatcher(config, 'cuda') as on_cuda, StereoMatcher(config, 'cpu') as on_cpu:
        for homography in WARPS:
            frames = []
            for matcher in (on_cuda, on_cpu):
                matcher.correct_rows(homography)
                frames.append([matcher.compute(
                    *pair, calibration=calibration, outputs=OUTPUTS,
                    rectification=found if config.rectify else None) for _ in range(2)])
            for frame, expected in zip(*frames, strict=True):
                for name in OUTPUTS:
                    np.testing.assert_array_equal(getattr(frame, name), getattr(expected, name))


@pytest.mark.parametrize('preset', ['road_full', 'road', 'road_fast', 'indoor'])
def test_presets_have_the_bits_of_the_cpu_engine_with_a_correction(preset: str) -> None:
    pytest.importorskip('numba')
    pair = scene(320, 240, 12.5)
    config = MatcherConfig.preset(preset, disparity_range=32)
    for homography in WARPS:
        frames = []
        for backend in ('cuda', 'cpu'):
            with StereoMatcher(config, backend) as matcher:
                matcher.correct_rows(homography)
                frames.append(matcher.compute(*pair).disparity)
        np.testing.assert_array_equal(*frames)


@pytest.mark.parametrize('place', ['device', 'pinned'])
def test_images_that_the_device_reads_where_they_lie_are_corrected_in_turn(place: str) -> None:
    import cupy
    import cupyx
    values = np.random.default_rng(1).integers(0, 256, (2, HEIGHT, WIDTH), np.uint8)
    with StereoMatcher(CORRECTED, 'cuda') as matcher:
        expected = []
        for homography in WARPS:
            matcher.correct_rows(homography)
            expected.append(matcher.compute(*values).disparity)
        assert (expected[0] != expected[1]).any()
        pair: list[Any] = []
        for image in values:
            array = cupyx.empty_pinned(image.shape, np.uint8)
            array[:] = image
            pair.append(cupy.asarray(image) if place == 'device' else RawImage.from_array(array))
        for _ in range(3):
            for homography, wanted in zip(WARPS, expected, strict=True):
                matcher.correct_rows(homography)
                for _ in range(2):
                    np.testing.assert_array_equal(matcher.compute(*pair).disparity, wanted)
