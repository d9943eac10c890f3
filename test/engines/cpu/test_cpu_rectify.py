"""Raw images on the CPU: rectified as OpenCV does it, and matched as their rectified images."""

from __future__ import annotations

import functools
import tracemalloc
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig, RawImage, Rectification, StereoMatcher
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cpu import engine as cpu
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.plan import plan_of
from stereo_bp_ros.engines.cpu.stages import convert, rectify
from stereo_bp_ros.images.raw_images import ENCODINGS
from test.cases import slow
from test.engines.support import naive_downscale, pairs
from test.engines.support.naive_rectification import remapped
from test.raw_cameras import (
    BASELINE,
    MODELS,
    PLUMB_BOB,
    camera_info,
    projected,
    raw_image,
    rectification,
    scene,
)

CONFIG = MatcherConfig(rectify=True, disparity_range=16, levels=3)
WIDTH, HEIGHT = 98, 61        # even: YUV needs it


def random_raw(encoding: str, padding: int = 3, seed: int = 0, shape=(HEIGHT, WIDTH)) -> RawImage:
    return pairs.random_raw(encoding, *shape[::-1], seed, padding)


def arrays_of(config: MatcherConfig, width: int, height: int, source: tuple[int, int]
              ) -> dict[str, np.ndarray]:
    wanted = [*geometry.map_arrays(config, width, height), *scratch.convert(*source),
              *scratch.rectify(config, width, height, source)]
    return {name: np.full(shape, 91, kind) for name, shape, kind in wanted}


def rectified(raw: RawImage, found: Rectification, side: str, config: MatcherConfig = CONFIG
              ) -> np.ndarray:
    size = found.rectified_width, found.rectified_height
    arrays = arrays_of(config, *size, (raw.width, raw.height))
    rectify.fill_maps(side, found.maps(side), arrays)
    grey = np.full(size[::-1], np.nan, np.float32)
    rectify.to_grey(raw, side, grey, config.mono16_scale, arrays)
    return grey


def grey_of(raw: RawImage, config: MatcherConfig = CONFIG) -> np.ndarray:
    """Of the raw image: uint8, or float32 of 16 bits."""
    grey = np.empty((raw.height, raw.width), np.float32)
    convert.to_grey(raw, grey, config.mono16_scale, arrays_of(config, raw.width, raw.height,
                                                 (raw.width, raw.height)))
    return grey if raw.layout.bits == 16 else grey.astype(np.uint8)


@pytest.mark.parametrize('side', ['left', 'right'])
@pytest.mark.parametrize('encoding', sorted(ENCODINGS))
def test_every_encoding_is_converted_and_then_remapped(encoding: str, side: str) -> None:
    raw = random_raw(encoding)
    found = rectification(size=(raw.width, raw.height))
    grey = grey_of(raw)
    expected = cv2.remap(grey, *found.maps(side), cv2.INTER_LINEAR)
    np.testing.assert_array_equal(expected, remapped(grey, *found.maps(side)))
    assert (expected == 0).any()        # beyond the raw image
    np.testing.assert_array_equal(rectified(raw, found, side), expected)


@pytest.mark.parametrize('shape', [(1, 2), (1, 40), (41, 1), (7, 9)])
@pytest.mark.parametrize('encoding', ['mono8', 'mono16', 'bgr8'])
def test_images_of_any_size_are_remapped_by_the_definition(encoding: str,
                                                           shape: tuple[int, int]) -> None:
    raw = random_raw(encoding, shape=shape)
    found = rectification(size=shape[::-1])
    np.testing.assert_array_equal(rectified(raw, found, 'left'),
                                  remapped(grey_of(raw), *found.maps('left')))


@pytest.mark.parametrize(('model', 'd'), MODELS)
def test_grey_values_are_close_to_those_of_the_exactly_rectified_colours(model: str, d: Any
                                                                         ) -> None:
    """Within a grey level but where neighbours differ by more than 16: see algorithms.md."""
    fields: dict[str, Any] = {'model': model, 'd': d, 'size': (WIDTH, HEIGHT)}
    found, info = rectification(**fields), camera_info(**fields)
    noise = np.random.default_rng(3).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    colours = cv2.GaussianBlur(noise, (0, 0), 1.5)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    exact = projected(info, np.stack([x, y], -1).reshape(-1, 2).astype(float)).reshape(
        HEIGHT, WIDTH, 2).astype(np.float32)
    remapped_colours = cv2.remap(colours, exact, None, cv2.INTER_LINEAR)
    expected = cv2.cvtColor(remapped_colours, cv2.COLOR_RGB2GRAY)
    difference = np.abs(rectified(RawImage.from_array(colours, 'rgb8'), found, 'left') - expected)

    grey = cv2.cvtColor(colours, cv2.COLOR_RGB2GRAY)
    corners = np.floor(exact).astype(np.float32)
    four = [cv2.remap(grey, corners + np.float32(step), None, cv2.INTER_NEAREST)
            for step in ((0, 0), (1, 0), (0, 1), (1, 1))]
    spread = np.ptp(np.array(four, int), axis=0)
    assert (difference <= 1)[spread <= 16].all()
    assert (spread <= 16).mean() > 0.5
    assert (difference <= 2 + spread / 32).all()


KINDS: dict[str, dict[str, Any]] = {
    'int16': {}, 'sad': {'stereo_algorithm': 'sad', 'correlation_window_size': 7},
    'combined': {'census_weight': 0.8, 'grey_weight': 0.5},
    'residual': {'preprocessing': 'residual', 'smoothing_sigma': 0.7}}


@pytest.mark.parametrize('factor', [1, 2])
@pytest.mark.parametrize('encoding', ['bayer_rggb8', 'mono16'])
@pytest.mark.parametrize('reference', ['left', 'right'])
@pytest.mark.parametrize('kind', KINDS)
def test_raw_images_are_matched_as_their_rectified_images(kind: str, reference: str,
                                                          encoding: str, factor: int) -> None:
    config = CONFIG.replace(reference_image=reference, disp12_max_diff=1, backend='cpu',
                            downscale=factor, **KINDS[kind])
    found = rectification(size=(WIDTH, HEIGHT))
    raws = [random_raw(encoding, seed=seed) for seed in (1, 2)]
    outputs = ('disparity', 'depth', 'confidence', 'points')
    with StereoMatcher(config) as matcher:
        frame = matcher.compute(*raws, rectification=found, outputs=outputs)
    rectified_pair = [remapped(grey_of(raw), *found.maps(side))
                      for raw, side in zip(raws, ('left', 'right'), strict=True)]
    seen = rectified_pair[reference == 'right']
    assert frame.points is not None
    levels = frame.points[..., 3].copy().view(np.uint32) // 0x10101
    if encoding == 'mono16':
        # No array has grey values with fractions: those of images of 8 bits are close.
        rounded = np.floor(np.minimum(seen, 255) + 0.5)
        assert factor > 1 or np.array_equal(levels, rounded)
        return
    with StereoMatcher(config.replace(rectify=False)) as matcher:
        expected = matcher.compute(*rectified_pair, calibration=found.calibration,
                                   outputs=outputs)
    for name in outputs[:3]:
        np.testing.assert_array_equal(getattr(frame, name), getattr(expected, name))
    np.testing.assert_array_equal(frame.points[..., :3], expected.points[..., :3])
    reduced = naive_downscale.reduced(seen, factor) if factor > 1 else seen
    np.testing.assert_array_equal(levels, naive_downscale.repeated(reduced, factor, seen.shape))
    assert frame.valid_window == expected.valid_window


SIZE = 320, 240
ROAD = MatcherConfig.preset('road_full', backend='cpu', disparity_range=32, rectify=True)


def large(side: str, **fields: Any) -> Any:
    """Of 320 x 240 pixels and 260 of focal length."""
    offset = 0.0 if side == 'left' else -260.0 * BASELINE
    return camera_info(side, size=SIZE, k=(265, 0, 163, 0, 262, 118, 0, 0, 1),
                       p=(260, 0, 158.5, offset, 0, 260, 121.5, 0, 0, 0, 1, 0), **fields)


@functools.cache
def raw_pair(disparity: float, model: str = 'plumb_bob', d: Any = PLUMB_BOB
             ) -> list[np.ndarray]:
    """What distorted and verged cameras see of a plane."""
    return [raw_image(image, large(side, model=model, d=d)) for image, side in zip(
        scene(*SIZE, disparity), ('left', 'right'), strict=True)]


@pytest.mark.parametrize(('model', 'd', 'reference'), [
    (*MODELS[1], 'left'), *slow((*MODELS[4], 'left'), (*MODELS[5], 'right'))])
def test_a_distorted_pair_of_verged_cameras_has_the_disparity_of_the_ideal_pair(
        model: str, d: Any, reference: str) -> None:
    raw = raw_pair(12.5, model, d)
    found = Rectification.from_camera_info(*(
        large(side, model=model, d=d) for side in ('left', 'right')))
    config = ROAD.replace(reference_image=reference)
    with StereoMatcher(config) as matcher:
        frame = matcher.compute(*raw, rectification=found, outputs=('disparity', 'depth'))
    with StereoMatcher(config.replace(rectify=False)) as matcher:
        expected = matcher.compute(*scene(*SIZE, 12.5))
        untouched = matcher.compute(*raw)
    inside = (slice(30, -30), slice(60, -60))
    both = frame.valid[inside] & expected.valid[inside]
    assert both.mean() > 0.9
    assert np.abs(frame.disparity - expected.disparity)[inside][both].max() < 0.5
    assert abs(np.median(frame.disparity[inside][both]) - 12.5) < 0.1
    assert np.nanmedian(frame.depth[inside]) == pytest.approx(260 * BASELINE / 12.5, rel=0.02)
    # The raw pair is not one that could be matched as it is.
    wrong = np.abs(untouched.disparity - 12.5)[inside] > 1
    assert wrong.mean() > 0.5


def test_a_region_binning_and_a_size_of_their_own_give_the_disparity_of_their_pixels() -> None:
    raw = raw_pair(12.5)
    pieces = [np.ascontiguousarray(image[20:220, 40:300]) for image in raw]
    # A binned pixel is where the first of its four was: as CameraInfo means it.
    halves = [np.ascontiguousarray(cv2.GaussianBlur(image, (0, 0), 0.8)[::2, ::2])
              for image in raw]
    for fields, size, images, shape, ratio in (
            ({'roi': (40, 20, 260, 200)}, (0, 0), pieces, (200, 260), 1),
            ({'binning': (2, 2)}, (0, 0), halves, (120, 160), 0.5),
            ({}, (200, 150), raw, (150, 200), 0.625)):
        config = ROAD.replace(rectified_width=size[0], rectified_height=size[1])
        found = Rectification.from_camera_info(*(
            large(side, **fields) for side in ('left', 'right')), *size)
        with StereoMatcher(config) as matcher:
            frame = matcher.compute(*images, rectification=found, outputs=('disparity', 'depth'))
            assert matcher.size == images[0].shape[::-1]
        assert frame.disparity.shape == shape
        inside = (slice(20, -20), slice(40, -20))
        assert abs(np.median(frame.disparity[inside]) - 12.5 * ratio) < 0.1
        assert found.calibration.focal_px == 260 * ratio
        assert np.nanmedian(frame.depth[inside]) == pytest.approx(260 * BASELINE / 12.5, rel=0.02)


def test_another_rectification_counts_from_its_first_frame_on() -> None:
    raws = [random_raw('mono8', seed=seed) for seed in (1, 2)]
    first = rectification(size=(WIDTH, HEIGHT))
    second = rectification(size=(WIDTH, HEIGHT), d=(*PLUMB_BOB[:4], 0.3))
    config = CONFIG.replace(backend='cpu')
    with StereoMatcher(config) as matcher:
        before, after, again = (matcher.compute(*raws, rectification=found).disparity
                                for found in (first, second, first))
    with StereoMatcher(config) as matcher:
        fresh = matcher.compute(*raws, rectification=second).disparity
    assert (before != after).any()
    np.testing.assert_array_equal(after, fresh)
    np.testing.assert_array_equal(before, again)


def test_no_frame_but_the_first_of_a_calibration_computes_maps_or_allocates(
        monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(rectify, 'fill_maps',
                        lambda *given, fill=rectify.fill_maps: calls.append(fill(*given)))
    shape = (300, 400)
    engine = cpu.CpuEngine.of(CONFIG, shape[1], shape[0])
    raws = [random_raw('yuv422', 8, seed, shape) for seed in (1, 2)]
    outputs = {'disparity': np.empty(shape, np.float32)}
    engine.compute(*raws, None, outputs, rectification(size=shape[::-1]))
    equal = rectification(size=shape[::-1])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        engine.compute(*raws, None, outputs, equal)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert len(calls) == 2      # one for each side
    assert peak < shape[0] * shape[1]


def test_the_memory_plan_has_maps_only_where_they_are_used() -> None:
    plain = plan_of(CONFIG.replace(rectify=False), 98, 61).memory
    names = {array.name for array in plain.arrays}
    assert not {name for name in names if 'map' in name or name.startswith('raw')}
    sized = plan_of(CONFIG.replace(rectified_width=40, rectified_height=30), 98, 61)
    shapes = {array.name: array.shape for array in sized.memory.arrays}
    assert (sized.width, sized.height, sized.source) == (40, 30, (98, 61))
    assert shapes['left_map'] == (30, 40, 2)
    assert shapes['left_grey'] == (30, 40)
    assert shapes['grey8'] == (61, 98)
