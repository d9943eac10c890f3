"""The kernels of upload and conversion, run on the host, leave the bits of the CPU engine."""

from __future__ import annotations

import ctypes
import dataclasses
import shutil
import types

import numpy as np
import pytest

from test.cases import slow
from test.engines.support.host_arena import HostArena
from test.engines.support.host_cuda import HostKernels

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig, RawImage, geometry
from stereo_bp_ros.device_arrays import DeviceArray
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.stages import convert as on_cpu
from stereo_bp_ros.engines.cpu.stages.preprocess import to_means
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.stages import convert
from stereo_bp_ros.images import ENCODINGS
from test.cases import every

pytestmark = pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++')

SIZES = [(34, 20), (3, 3), (8, 2)]


@pytest.fixture(scope='module', autouse=True)
def together(host_kernels: HostKernels) -> None:
    """All kernels of the stage, in one library."""
    host_kernels.load(*(('frame/convert.cu', name) for name in convert.kernels()))


def random_image(encoding: str, width: int, height: int, padding: int = 0,
                 big_endian: bool = False, seed: int = 0) -> RawImage:
    """An image whose rows are followed by rubbish, on an address that the device can read."""
    layout = ENCODINGS[encoding]
    step = width * layout.pixel_bytes + padding
    size = step * layout.rows(height)
    memory = np.random.default_rng(seed).integers(0, 256, size + convert.UNIT, np.uint8)
    start = -memory.ctypes.data % convert.UNIT
    return RawImage(memory[start:start + size], height, width, step, encoding, big_endian)


def converted(config: MatcherConfig, pair: tuple[RawImage, RawImage],
              sources: convert.Sources | None = convert.STAGED
              ) -> tuple[str, list[np.ndarray]]:
    """Name and both images of the grey values that the stage makes.

    :param sources: None = some image is on the device.
    """
    width, height = pair[0].width, pair[0].height
    plan = plan_of(config, width, height)
    there, here = HostArena(plan.memory), HostArena(plan.pinned)
    arena = types.SimpleNamespace(
        device=there.device, host_address=here.device, stamp=there.stamp,
        nbytes={spec.name: spec.nbytes for spec in (*plan.pinned.arrays, *plan.memory.arrays)})
    stage = convert.Convert(Context(TYPICAL, config, plan.width, plan.height, arena),
                            (width, height), config.downscale)
    if sources in (None, convert.STAGED):
        places = stage.places(pair)
        for name, raw, place in zip(('left_raw', 'right_raw'), pair, places, strict=True):
            if raw.is_on_device:
                convert.copy(raw, place, 0)
            else:
                convert.stage(raw, here.view(name))
        sources = sources or places
    else:
        here.view('sources')[:] = [raw.data.ctypes.data for raw in pair]
    readings = convert.reading(pair[0]), convert.reading(pair[1])
    stage.enqueue_upload(0, readings, sources, 0)
    stage.enqueue(0, readings, 0)
    grey = stage.grey(readings)
    return grey, [there.view(f'{side}_{grey}').copy() for side in ('left', 'right')]


def expected(raw: RawImage, config: MatcherConfig) -> np.ndarray:
    """Grey values of the CPU engine."""
    whole = np.empty((raw.height, raw.width), np.float32)
    is_wide, factor = raw.layout.bits == 16, config.downscale
    on_cpu.to_grey(raw, whole, config.mono16_scale if factor == 1 else 1.0, {
        name: np.empty(shape, kind)
        for name, shape, kind in scratch.convert(raw.width, raw.height)})
    grey = whole
    if factor > 1:
        grey = np.empty(geometry.reduced_size(config, raw.width, raw.height)[::-1], np.float32)
        to_means(whole, factor, config.mono16_scale if is_wide else None, grey)
    return grey[:, ::-1] if config.reference_image == 'right' else grey


def fits(encoding: str, width: int, height: int) -> bool:
    layout = ENCODINGS[encoding]
    return not ((layout.has_even_width and width % 2) or (layout.has_even_height and height % 2))


@pytest.mark.parametrize('factor', [1, 2, *slow(3)])
@pytest.mark.parametrize('big_endian', [False, True])
@pytest.mark.parametrize('encoding', sorted(ENCODINGS))
def test_every_encoding_has_the_grey_values_of_the_cpu(encoding: str, big_endian: bool,
                                                       factor: int) -> None:
    config = MatcherConfig(disparity_range=8, levels=1, mono16_scale=0.0039, downscale=factor,
                           reference_image='right' if big_endian else 'left')
    for width, height in SIZES:
        if not fits(encoding, width, height):
            continue
        pair = tuple(random_image(encoding, width, height, padding, big_endian, seed=padding)
                     for padding in (0, 7))
        kind, images = converted(config, (pair[0], pair[1]))
        assert kind == ('values' if ENCODINGS[encoding].bits == 16 else 'grey')
        for image, raw in zip(images, pair, strict=True):
            np.testing.assert_array_equal(image, expected(raw, config))


def test_sums_of_the_largest_values_of_a_mosaic_overflow_nothing() -> None:
    config = MatcherConfig(disparity_range=2, levels=1, mono16_scale=1.0)
    white = RawImage.from_array(np.full((6, 8), 65535, np.uint16), 'bayer_gbrg16')
    _, images = converted(config, (white, white))
    assert every((image == 65535).all() for image in images)


@pytest.mark.parametrize('encoding', ['mono8', 'nv12', 'rgb8', 'bayer_grbg16'])
def test_images_are_read_where_they_lie(encoding: str) -> None:
    config = MatcherConfig(disparity_range=2, levels=1)
    pair = random_image(encoding, 34, 20, seed=1), random_image(encoding, 34, 20, seed=2)
    told = pair[0].data.ctypes.data, pair[1].data.ctypes.data
    for sources in (convert.ANYWHERE, told):
        _, images = converted(config, pair, sources)
        for image, raw in zip(images, pair, strict=True):
            np.testing.assert_array_equal(image, expected(raw, config))


@pytest.mark.parametrize('is_one', [False, True])
@pytest.mark.parametrize('encoding', ['mono8', 'nv12', 'rgb8', 'bayer_grbg16'])
def test_images_that_are_on_the_device_are_copied_once(
        encoding: str, is_one: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Straight to where the next kernel reads; ``upload`` copies the other image alone."""
    def copy(to: int, to_step: int, from_: int, from_step: int, width: int, height: int,
             *_: int) -> None:
        for row in range(height):
            ctypes.memmove(to + row * to_step, from_ + row * from_step, width)

    from cupy.cuda import runtime
    monkeypatch.setattr(runtime, 'memcpy2DAsync', copy)
    config = MatcherConfig(disparity_range=2, levels=1)
    pair = random_image(encoding, 34, 20, seed=1), random_image(encoding, 34, 20, 7, seed=2)
    there = [dataclasses.replace(raw, data=DeviceArray(
        raw.data.ctypes.data, raw.data.shape, raw.data.strides, raw.data.dtype, raw))
        for raw in pair]
    if is_one:
        there[0] = pair[0]
    _, images = converted(config, (there[0], there[1]), None)
    for image, raw in zip(images, pair, strict=True):
        np.testing.assert_array_equal(image, expected(raw, config))


@pytest.mark.parametrize('encoding', ['nv12', 'nv21', 'nv24'])
def test_no_chroma_goes_up(encoding: str) -> None:
    raw = random_image(encoding, 34, 20)
    staging = np.full(4 * 34 * 20, 7, np.uint8)
    convert.stage(raw, staging)
    assert np.array_equal(staging[:34 * 20].reshape(20, 34), raw.pixels)
    assert (staging[34 * 20:] == 7).all()
