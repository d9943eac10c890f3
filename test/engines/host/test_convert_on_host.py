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
from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.stages import convert as on_cpu
from stereo_bp_ros.engines.cpu.stages.preprocess import to_means
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.stages import convert
from stereo_bp_ros.images.device_arrays import DeviceArray
from stereo_bp_ros.images.raw_images import ENCODINGS
from test.engines.support.pairs import random_raw

pytestmark = pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++')


@pytest.fixture(scope='module', autouse=True)
def together(host_kernels: HostKernels) -> None:
    """All kernels of the stage, in one library."""
    host_kernels.load(*(('frame/convert.cu', name) for name in convert.kernels()))


def random_image(encoding: str, width: int, height: int, padding: int = 0,
                 big_endian: bool = False, seed: int = 0) -> RawImage:
    """An image whose rows are followed by rubbish, on an address that the device can read."""
    raw = random_raw(encoding, width, height, seed, padding, big_endian)
    memory = np.empty(len(raw.data) + convert.UNIT, np.uint8)
    start = -memory.ctypes.data % convert.UNIT
    data = memory[start:start + len(raw.data)]
    data[:] = np.frombuffer(raw.data, np.uint8)
    return dataclasses.replace(raw, data=data)


def check(config: MatcherConfig, pair: tuple[RawImage, ...],
          sources: convert.Sources | None = convert.STAGED,
          expected_of: tuple[RawImage, ...] = ()) -> str:
    """Compare both images that the stage makes with the CPU's, and return their name.

    :param sources: None = some image is on the device; ``expected_of``: then the same images.
    """
    width, height = pair[0].width, pair[0].height
    plan = plan_of(config, width, height)
    there, here = HostArena(plan.memory), HostArena(plan.pinned)
    arena = types.SimpleNamespace(
        device=there.device, host_address=here.device, stamp=there.stamp,
        nbytes={spec.name: spec.nbytes for spec in (*plan.pinned.arrays, *plan.memory.arrays)})
    stage = convert.Convert(Context(TYPICAL, config, plan.width, plan.height, arena),
                            (width, height), config.downscale)
    readings = convert.reading(pair[0]), convert.reading(pair[1])
    if sources in (None, convert.STAGED):
        places = stage.places((pair[0], pair[1]), readings)
        for name, raw, place in zip(('left_raw', 'right_raw'), pair, places, strict=True):
            if raw.is_on_device:
                convert.copy(raw, place, 0)
            else:
                convert.stage(raw, here.view(name))
        sources = sources or places
    else:
        here.view('sources')[:] = [raw.data.ctypes.data for raw in pair]
    stage.enqueue_upload(0, readings, sources, 0)
    stage.enqueue(0, readings, 0)
    grey = stage.grey(readings)
    for side, raw in zip(('left', 'right'), expected_of or pair, strict=True):
        np.testing.assert_array_equal(there.view(f'{side}_{grey}'), grey_on_cpu(raw, config))
    return grey


def grey_on_cpu(raw: RawImage, config: MatcherConfig) -> np.ndarray:
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


@pytest.mark.parametrize('factor', [1, 2, *slow(3)])
@pytest.mark.parametrize('big_endian', [False, True])
@pytest.mark.parametrize('encoding', sorted(ENCODINGS))
def test_every_encoding_has_the_grey_values_of_the_cpu(encoding: str, big_endian: bool,
                                                       factor: int) -> None:
    config = MatcherConfig(disparity_range=8, levels=1, mono16_scale=0.0039, downscale=factor,
                           reference_image='right' if big_endian else 'left')
    for width, height in ((34, 20), (4 if ENCODINGS[encoding].has_even_width else 3, 3), (8, 2)):
        pair = tuple(random_image(encoding, width, height, padding, big_endian, seed=padding)
                     for padding in (0, 7))
        kind = check(config, pair)
        assert kind == ('values' if ENCODINGS[encoding].bits == 16 else 'grey')


def test_sums_of_the_largest_values_of_a_mosaic_overflow_nothing() -> None:
    white = RawImage.from_array(np.full((6, 8), 65535, np.uint16), 'bayer_gbrg16')
    config = MatcherConfig(disparity_range=2, levels=1, mono16_scale=1.0)
    assert (grey_on_cpu(white, config) == 65535).all()
    check(config, (white, white))


@pytest.mark.parametrize('encoding', ['mono8', 'nv12', 'rgb8', 'bayer_grbg16'])
def test_images_are_read_where_they_lie_and_copied_once_from_the_device(
        encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Straight to where the next kernel reads; ``upload`` copies the other image alone."""
    def copy(to: int, to_step: int, from_: int, from_step: int, width: int, height: int,
             *_: int) -> None:
        for row in range(height):
            ctypes.memmove(to + row * to_step, from_ + row * from_step, width)

    from cupy.cuda import runtime
    monkeypatch.setattr(runtime, 'memcpy2DAsync', copy)
    config = MatcherConfig(disparity_range=2, levels=1)
    pair = random_image(encoding, 34, 20, seed=1), random_image(encoding, 34, 20, seed=2)
    told = pair[0].data.ctypes.data, pair[1].data.ctypes.data
    for sources in (convert.ANYWHERE, told):
        check(config, pair, sources)
    padded = random_image(encoding, 34, 20, 7, seed=2)
    there = tuple(dataclasses.replace(raw, data=DeviceArray(
        raw.data.ctypes.data, raw.data.shape, raw.data.strides, raw.data.dtype, raw))
        for raw in (pair[0], padded))
    check(config, there, None, (pair[0], padded))
    check(config, (pair[0], there[1]), None, (pair[0], padded))


@pytest.mark.parametrize('encoding', ['nv12', 'nv21', 'nv24'])
def test_no_chroma_goes_up(encoding: str) -> None:
    raw = random_image(encoding, 34, 20)
    staging = np.full(4 * 34 * 20, 7, np.uint8)
    convert.stage(raw, staging)
    assert np.array_equal(staging[:34 * 20].reshape(20, 34), raw.pixels)
    assert (staging[34 * 20:] == 7).all()
