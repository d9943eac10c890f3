"""The kernel of images that go through maps, on the host, leaves the bits of the CPU engine."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig, RawImage, Rectification
from stereo_bp_ros.cameras.rectification import Maps, RightWarp
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.stages import rectify as on_cpu
from stereo_bp_ros.engines.cpu.stages.convert import to_grey as to_plain_grey
from stereo_bp_ros.engines.cpu.stages.preprocess import to_means
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.stages import convert, rectify
from stereo_bp_ros.images.raw_images import ENCODINGS
from stereo_bp_ros.images.stamps import SIDES
from test.engines.support.host_arena import HostArena
from test.engines.support.pairs import random_raw
from test.raw_cameras import MODELS, camera_info, rectification

pytestmark = [pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++'),
              pytest.mark.usefixtures('host_kernels')]


def of_kernel(config: MatcherConfig, pair: tuple[RawImage, RawImage], maps: dict[str, Maps],
              is_warped: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Both grey images as the stage leaves them, in the order of matching.

    :param maps: by side of the camera.
    """
    plan = plan_of(config, pair[0].width, pair[0].height)
    arena = HostArena(plan.memory)
    context = Context(TYPICAL, config, plan.width, plan.height, arena)
    stage = rectify.Rectify(context, plan.source, (plan.image_width, plan.image_height),
                            plan.downscale)
    sides = ['left', 'right']
    matched = list(zip(pair, sides, strict=True))
    if stage.is_mirrored:
        matched.reverse()
    for name, (raw, side) in zip(sides, matched, strict=True):
        convert.stage(raw, arena.view(f'{name}_raw'))
        if side in maps:
            arena.view(f'{side}_map')[...], arena.view(f'{side}_map_parts')[...] = maps[side]
    readings = stage.readings((matched[0][0], matched[1][0]), is_warped)
    assert stage.enqueue(0, readings, 0)
    grey = stage.grey(readings)
    return arena.view(f'left_{grey}').copy(), arena.view(f'right_{grey}').copy()


def of_cpu(config: MatcherConfig, raw: RawImage, side: str, maps: Maps | None) -> np.ndarray:
    """:param maps: None = the image is converted as it comes."""
    size = geometry.rectified_size(config, raw.width, raw.height)
    source = raw.width, raw.height
    arrays = {name: np.full(shape, 91, kind) for name, shape, kind in (
        *geometry.map_arrays(config, *size), *scratch.convert(*source),
        *scratch.rectify(config, *size, source))}
    grey = np.empty(size[::-1], np.float32)
    scale, factor = config.mono16_scale, config.downscale
    if maps is not None:
        on_cpu.fill_maps(side, maps, arrays)
        on_cpu.to_grey(raw, side, grey, scale, arrays)
        scale = 1.0
    else:
        to_plain_grey(raw, grey, scale if factor == 1 else 1.0, arrays)
    if factor > 1:
        whole = grey
        grey = np.empty(geometry.reduced_size(config, *source)[::-1], np.float32)
        to_means(whole, factor, scale if raw.layout.bits == 16 else None, grey)
    return grey[:, ::-1] if config.reference_image == 'right' else grey


def check(config: MatcherConfig, pair: tuple[RawImage, RawImage],
          found: Rectification | None = None, warp: RightWarp | None = None) -> None:
    maps = {} if found is None else {side: found.maps(side) for side in SIDES}
    if warp is not None:
        warp.prepare(found, *geometry.rectified_size(config, pair[0].width, pair[0].height))
        maps['right'] = warp.maps
    images = of_kernel(config, pair, maps, warp is not None)
    expected = [of_cpu(config, raw, side, maps.get(side))
                for raw, side in zip(pair, SIDES, strict=True)]
    if config.reference_image == 'right':
        expected.reverse()
    for image, wanted in zip(images, expected, strict=True):
        assert np.ptp(wanted) > 0
        np.testing.assert_array_equal(image, wanted)


CONFIG = MatcherConfig(rectify=True, disparity_range=2, levels=1, mono16_scale=1 / 253.7)


@pytest.mark.parametrize('reference', ['left', 'right'])
@pytest.mark.parametrize('encodings', [
    *((encoding, encoding) for encoding in sorted(ENCODINGS)), ('mono8', 'mono16'),
    ('bgr8', 'mono16'), ('bayer_grbg8', 'mono16')], ids='-'.join)
def test_every_encoding_is_rectified_and_reduced_to_the_bits_of_the_cpu(
        encodings: tuple[str, str], reference: str) -> None:
    pair = tuple(random_raw(encoding, 98, 61, seed, big_endian=reference == 'right')
                 for seed, encoding in enumerate(encodings))
    found = rectification(size=(pair[0].width, pair[0].height))
    for factor in (1, 2, 3) if encodings[1] in ('mono8', 'mono16') else (1,):
        check(CONFIG.replace(reference_image=reference, disparity_range=8, downscale=factor),
              pair, found)


@pytest.mark.parametrize('size', [(2, 2), (40, 3), (3, 40), (33, 9), (129, 70)])
@pytest.mark.parametrize('encoding', ['mono8', 'mono16'])
def test_images_of_any_size_are_rectified_to_the_bits_of_the_cpu(encoding: str,
                                                                 size: tuple[int, int]) -> None:
    k = (0.8 * size[0], 0, size[0] / 2, 0, 0.8 * size[0], size[1] / 2, 0, 0, 1)
    p = (0.7 * size[0], 0, size[0] / 2, 0, 0, 0.7 * size[0], size[1] / 2, 0, 0, 0, 1, 0)
    found = Rectification.from_camera_info(
        camera_info('left', size=size, k=k, p=p),
        camera_info('right', size=size, k=k, p=(*p[:3], -10.0, *p[4:])))
    check(CONFIG, tuple(random_raw(encoding, *size, seed) for seed in (1, 2)), found)


@pytest.mark.parametrize('size', [(50, 31), (140, 90)])
def test_rectified_images_of_another_size_have_the_bits_of_the_cpu(size: tuple[int, int]) -> None:
    config = CONFIG.replace(rectified_width=size[0], rectified_height=size[1])
    for model, d in MODELS:
        found = Rectification.from_camera_info(*(
            camera_info(side, model=model, d=d) for side in ('left', 'right')), *size)
        check(config, tuple(random_raw('rgb8', 97, 61, seed) for seed in (1, 2)), found)


WARP = (1.003, 0.02, -1.4, -0.015, 1.004, 1.7, 2e-6, 1e-6, 1.0)
WARPED = CONFIG.replace(rectify=False, row_correction='correct')


@pytest.mark.parametrize('reference', ['left', 'right'])
@pytest.mark.parametrize('encodings', [
    *((encoding, encoding) for encoding in sorted(ENCODINGS)), ('mono8', 'mono16'),
    ('mono16', 'mono8'), ('bgr8', 'mono16'), ('bayer_grbg16', 'nv24')], ids='-'.join)
def test_the_right_image_alone_is_warped_to_the_bits_of_the_cpu(encodings: tuple[str, str],
                                                                reference: str) -> None:
    pair = (random_raw(encodings[0], 98, 60, 1, big_endian=reference == 'right'),
            random_raw(encodings[1], 98, 60, 2))
    for factor in (1, 2, 3) if encodings[1] in ('mono8', 'mono16') else (1,):
        check(WARPED.replace(reference_image=reference, disparity_range=8, downscale=factor),
              pair, warp=RightWarp(WARP))


@pytest.mark.parametrize('size', [(2, 2), (40, 3), (3, 40), (33, 9), (129, 70)])
def test_images_of_any_size_are_warped_to_the_bits_of_the_cpu(size: tuple[int, int]) -> None:
    check(WARPED, tuple(random_raw('mono8', *size, seed) for seed in (1, 2)),
          warp=RightWarp((1, 0, 0.4, 0, 1, -0.3, 0, 0, 1)))


@pytest.mark.parametrize(('model', 'd'), MODELS)
def test_a_raw_right_image_is_warped_and_rectified_at_once(model: str, d: tuple[float, ...]
                                                           ) -> None:
    found = rectification(model=model, d=d)
    check(CONFIG.replace(row_correction='correct'),
          tuple(random_raw('rgb8', 97, 61, seed) for seed in (1, 2)), found, RightWarp(WARP))
