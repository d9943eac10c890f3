"""The right image corrected by a homography on the CPU: bits, maps, memory and what it costs."""

from __future__ import annotations

import functools
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig, RawImage, Rectification, StereoMatcher
from stereo_bp_ros.cameras.rectification import RawCamera, RightWarp
from stereo_bp_ros.engines.cpu import engine as cpu
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.plan import plan_of
from stereo_bp_ros.engines.cpu.stages import convert, rectify
from stereo_bp_ros.errors import ConfigError, InputError
from stereo_bp_ros.images.raw_images import ENCODINGS
from test.engines.support import naive_downscale
from test.engines.support.naive_rectification import remapped
from test.engines.support.pairs import random_raw
from test.raw_cameras import BASELINE, camera_info, raw_image, rectification, scene

WIDTH, HEIGHT = 98, 60
CONFIG = MatcherConfig(disparity_range=16, levels=3, row_correction='correct', backend='cpu')
WARP = (1.003, 0.02, -1.4, -0.015, 1.004, 1.7, 2e-6, 1e-6, 1.0)


def grey_images(config: MatcherConfig, raws: list[RawImage], warp: RightWarp | None,
                found: Rectification | None = None) -> list[np.ndarray]:
    """Of the left and of the right camera, as they are matched."""
    width, height = raws[0].width, raws[0].height
    engine = cpu.CpuEngine.of(config, width, height)
    if warp is not None:
        warp.prepare(found, width, height)
    outputs = {'disparity': np.empty((height, width), np.float32)}
    engine.compute(raws[0], raws[1], None, outputs, found, warp)
    images = [engine._arrays[f'{side}_grey'].copy() for side in ('left', 'right')]
    engine.close()
    if config.reference_image == 'left':
        return images
    return [image[:, ::-1] for image in reversed(images)]


def grey_of(raw: RawImage) -> np.ndarray:
    """uint8, or float32 of 16 bits."""
    grey = np.empty((raw.height, raw.width), np.float32)
    convert.to_grey(raw, grey, CONFIG.mono16_scale, {
        name: np.empty(shape, kind)
        for name, shape, kind in scratch.convert(raw.width, raw.height)})
    return grey if raw.layout.bits == 16 else grey.astype(np.uint8)


@pytest.mark.parametrize('reference', ['left', 'right'])
@pytest.mark.parametrize('encoding', sorted(ENCODINGS))
def test_the_right_image_is_remapped_by_the_definition_and_the_left_one_left_alone(
        encoding: str, reference: str) -> None:
    config = CONFIG.replace(reference_image=reference)
    raws = [random_raw(encoding, WIDTH, HEIGHT, seed, 3) for seed in (1, 2)]
    warp = RightWarp(WARP)
    left, right = grey_images(config, raws, warp)
    np.testing.assert_array_equal(right, remapped(grey_of(raws[1]), *warp.maps))
    assert (right == 0).any()       # beyond the image
    uncorrected = grey_images(config, raws, None)
    np.testing.assert_array_equal(left, uncorrected[0])
    assert (right != uncorrected[1]).any()


def test_a_reduced_image_is_warped_before_it_is_reduced() -> None:
    raws = [random_raw('mono8', WIDTH, HEIGHT, seed, 3) for seed in (1, 2)]
    warp = RightWarp(WARP)
    _, right = grey_images(CONFIG.replace(downscale=2), raws, warp)
    np.testing.assert_array_equal(
        right, naive_downscale.reduced(remapped(grey_of(raws[1]), *warp.maps), 2))


def test_a_raw_image_goes_through_one_remap() -> None:
    raws = [random_raw('bgr8', WIDTH, HEIGHT, seed) for seed in (1, 2)]
    found, warp = rectification(size=(WIDTH, HEIGHT)), RightWarp(WARP)
    left, right = grey_images(CONFIG.replace(rectify=True), raws, warp, found)
    np.testing.assert_array_equal(left, remapped(grey_of(raws[0]), *found.maps('left')))
    np.testing.assert_array_equal(
        right, remapped(grey_of(raws[1]), *found.maps('right', WARP)))


SIZE, DISPARITY = (320, 240), 12.5
#: A roll of 0.4 degrees, a focal length of 0.3 per cent and two rows.
ERROR = np.array([[1.003, -0.007, 0.4], [0.007, 1.003, 1.2], [0, 0, 1.0]])


@functools.cache
def moved_pair() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A plane, and its right image with and without the error."""
    left, right = scene(*SIZE, DISPARITY)
    return left, cv2.warpPerspective(right, ERROR, SIZE, flags=cv2.INTER_CUBIC), right


def wrong(disparity: np.ndarray | None) -> float:
    """Share of pixels off by more than half of one, away from the border."""
    assert disparity is not None
    return float((np.abs(disparity[10:-10, 40:-10] - DISPARITY) > 0.5).mean())


@pytest.mark.parametrize('changes', [
    {}, {'reference_image': 'right'}, {'downscale': 2}], ids=str)
@pytest.mark.parametrize('preset', ['road_full', 'road'])
def test_a_moved_pair_has_the_map_of_the_unmoved_one(preset: str, changes: dict[str, Any]
                                                     ) -> None:
    left, moved, right = moved_pair()
    config = MatcherConfig.preset(preset, backend='cpu', disparity_range=32, **changes)
    with StereoMatcher(config) as matcher:
        unmoved, uncorrected = (matcher.compute(left, image).disparity
                                for image in (right, moved))
        matcher.correct_rows(ERROR.reshape(-1).tolist())
        corrected = matcher.compute(left, moved).disparity
        matcher.correct_rows(None)
        again = matcher.compute(left, moved).disparity
    assert wrong(uncorrected) > 0.05
    assert wrong(corrected) <= wrong(unmoved) + 0.001
    np.testing.assert_array_equal(again, uncorrected)


def test_a_raw_moved_pair_has_the_map_of_the_unmoved_one() -> None:
    infos = [camera_info(side, size=SIZE, k=(265, 0, 163, 0, 262, 118, 0, 0, 1),
                         p=(260, 0, 158.5, offset, 0, 260, 121.5, 0, 0, 0, 1, 0))
             for side, offset in (('left', 0.0), ('right', -260 * BASELINE))]
    left, moved, _ = moved_pair()
    raws = [raw_image(image, info) for image, info in zip((left, moved), infos, strict=True)]
    found = Rectification.from_camera_info(*infos)
    config = MatcherConfig.preset('road_full', backend='cpu', disparity_range=32, rectify=True)
    with StereoMatcher(config) as matcher:
        uncorrected = matcher.compute(*raws, rectification=found).disparity
        matcher.correct_rows(ERROR.reshape(-1).tolist())
        corrected = matcher.compute(*raws, rectification=found).disparity
    assert wrong(uncorrected) > 0.05
    assert wrong(corrected) < 0.002


@pytest.mark.parametrize('reference', ['left', 'right'])
def test_points_have_the_colors_of_the_image_as_it_comes(reference: str) -> None:
    colors = np.random.default_rng(1).integers(0, 256, (2, HEIGHT, WIDTH, 3), np.uint8)
    found = rectification(size=(WIDTH, HEIGHT)).calibration
    with StereoMatcher(CONFIG.replace(reference_image=reference)) as matcher:
        matcher.correct_rows(WARP)
        points = matcher.compute(*colors, calibration=found, outputs=('points',)).points
    assert points is not None
    levels, seen = points[..., 3].copy().view(np.uint32), colors[int(reference == 'right')]
    red, green, blue = np.moveaxis(seen.astype(np.uint32), -1, 0)
    np.testing.assert_array_equal(levels, red << 16 | green << 8 | blue)


def test_no_correction_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    raws = [random_raw('mono8', WIDTH, HEIGHT, seed) for seed in (1, 2)]
    with StereoMatcher(CONFIG) as matcher:
        matcher.correct_rows(WARP)
        matcher.compute(*raws)
        matcher.correct_rows(None)
        monkeypatch.setattr(rectify, 'to_grey', lambda *_: pytest.fail('remapped'))
        matcher.compute(*raws)


def test_a_new_homography_brings_maps_of_the_right_image_alone_and_no_frame_waits_for_them(
        monkeypatch: pytest.MonkeyPatch) -> None:
    raws = [random_raw('mono8', WIDTH, HEIGHT, seed) for seed in (1, 2)]
    found = rectification(size=(WIDTH, HEIGHT))
    computed, filled = [], []
    monkeypatch.setattr(RawCamera, 'maps', lambda *given, maps=RawCamera.maps: (
        computed.append(1), maps(*given))[1])
    monkeypatch.setattr(rectify, 'fill_maps', lambda side, *given, fill=rectify.fill_maps: (
        filled.append(side), fill(side, *given)))
    for config, calibrated in ((CONFIG, None), (CONFIG.replace(rectify=True), found)):
        with StereoMatcher(config) as matcher:
            matcher.compute(*raws, rectification=calibrated)
            engine = matcher._current.engine
            computed.clear()
            filled.clear()
            for homography in (WARP, WARP, (*WARP[:5], 1.2, *WARP[6:])):
                matcher.correct_rows(homography)
                before = len(computed)
                for _ in range(2):
                    matcher.compute(*raws, rectification=calibrated)
                assert len(computed) == before
            assert len(computed) == 2
            assert filled == ['right', 'right']
            assert matcher._current.engine is engine


def test_images_of_another_size_are_warped_by_maps_of_their_own() -> None:
    with StereoMatcher(CONFIG) as matcher:
        matcher.correct_rows(WARP)
        for width in (WIDTH, 64):
            raws = [random_raw('mono8', width, HEIGHT, seed) for seed in (1, 2)]
            frame = matcher.compute(*raws)
            with StereoMatcher(CONFIG) as other:
                other.correct_rows(WARP)
                np.testing.assert_array_equal(frame.disparity, other.compute(*raws).disparity)


def test_there_are_maps_of_the_right_image_only_where_it_may_be_corrected() -> None:
    def names(**changes: Any) -> set[str]:
        plan = plan_of(CONFIG.replace(**changes), WIDTH, HEIGHT)
        return {array.name for array in plan.memory.arrays}

    of_warp = {'right_map', 'right_map_parts', 'rectified8', 'raw_grey'}
    for state in ('off', 'measure'):
        assert names() - names(row_correction=state) == of_warp
        assert names(rectify=True) == names(rectify=True, row_correction=state)
    band = plan_of(MatcherConfig.preset('road', backend='cpu'), WIDTH, HEIGHT)
    assert of_warp <= {array.name for array in band.memory.arrays}
    assert not [array.name for array in band.memory.arrays
                if array.name.startswith('coarse') and 'map' in array.name]


def test_a_correction_needs_its_setting_and_is_forgotten_without_it() -> None:
    raws = [random_raw('mono8', WIDTH, HEIGHT, seed) for seed in (1, 2)]
    off = CONFIG.replace(row_correction='measure')
    with StereoMatcher(off) as matcher:
        matcher.correct_rows(None)
        with pytest.raises(ConfigError, match='row_correction'):
            matcher.correct_rows(WARP)
        plain = matcher.compute(*raws).disparity
        matcher.reconfigure(CONFIG)
        matcher.correct_rows(WARP)
        assert (matcher.compute(*raws).disparity != plain).any()
        matcher.reconfigure(off)
        matcher.reconfigure(CONFIG)
        np.testing.assert_array_equal(matcher.compute(*raws).disparity, plain)


def test_a_homography_far_from_the_identity_is_refused_and_the_earlier_one_stays() -> None:
    raws = [random_raw('mono8', WIDTH, HEIGHT, seed) for seed in (1, 2)]
    far = (1, 0, 0, 0, 1, 65.0, 0, 0, 1)
    with StereoMatcher(CONFIG) as matcher:
        for numbers, words in ((WARP[:8], 'has 8 values'), ((float('nan'), *WARP[1:]), 'is nan')):
            with pytest.raises(InputError, match=words):
                matcher.correct_rows(numbers)
        matcher.correct_rows(far)       # no image is known
        with pytest.raises(InputError, match=r'moves a corner by 65\.0 pixels; it may be 64'):
            matcher.compute(*raws)
        matcher.correct_rows(WARP)
        expected = matcher.compute(*raws).disparity
        for given in (far, (-1.0, *WARP[1:]), (*WARP[:8], -1.0), (0.0,) * 9):
            with pytest.raises(InputError, match='the homography'):
                matcher.correct_rows(given)
        np.testing.assert_array_equal(matcher.compute(*raws).disparity, expected)
