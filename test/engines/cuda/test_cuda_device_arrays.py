"""Images and outputs in the memory of a CUDA device: found, ordered by streams, never on the host.

The first tests need no device: kernels are not run, and its memory is ordinary memory.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip('cupy')
import cupy

from stereo_bp_ros import InputError, MatcherConfig, RawImage, StereoMatcher
from stereo_bp_ros.engines.cuda.runtime import device
from stereo_bp_ros.engines.cuda.stages import convert
from stereo_bp_ros.images.raw_images import ENCODINGS
from test.engines.support.cuda_stand_in import Log, stand_in
from test.engines.support.on_device import WithDlpack, WithInterface

WIDTH, HEIGHT = 66, 34
CONFIG = MatcherConfig(backend='cuda', disparity_range=16, levels=3, iterations=4,
                       preprocessing='none')
WAYS = [WithInterface, WithDlpack]


def random_rows(encoding: str = 'mono8', seed: int = 0, padding: int = 0) -> np.ndarray:
    """As ``RawImage.from_array`` takes it; with padding the rows of a larger array."""
    layout = ENCODINGS[encoding]
    kind = np.uint16 if layout.bits == 16 else np.uint8
    shape = (layout.rows(HEIGHT), WIDTH + padding, *((layout.channels,) * (layout.channels > 1)))
    rows = np.random.default_rng(seed).integers(0, 256, shape).astype(kind)
    return rows[:, padding // 2:WIDTH + padding // 2]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """CUDA's stand-in; every image on a device is on number 0, and the host stages none."""
    monkeypatch.setattr(device, 'owner', lambda _: 0)
    monkeypatch.setattr(convert, 'stage', lambda *_: pytest.fail('went through the host'))
    return stand_in(monkeypatch)


def on_device(matcher: StereoMatcher, name: str, rows: int, row: int) -> np.ndarray:
    """Bytes of an array of the engine's."""
    address = matcher._current.engine._arena.device[name]       # type: ignore[union-attr]
    return np.frombuffer((ctypes.c_char * (rows * row)).from_address(address),
                         np.uint8).reshape(rows, row)


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('padding', [0, 5])
@pytest.mark.parametrize(('encoding', 'place'), [
    ('mono8', 'grey'), ('nv12', 'grey'), ('rgb8', 'raw'), ('bayer_rggb16', 'raw')])
def test_images_on_the_device_are_copied_to_where_the_engine_reads(
        log: Log, way: Callable[..., Any], padding: int, encoding: str, place: str) -> None:
    pair = [random_rows(encoding, seed, padding) for seed in (1, 2)]
    with StereoMatcher(CONFIG) as matcher:
        matcher.compute(*(RawImage.from_dlpack(way(rows), encoding) for rows in pair))
        assert log.frame == ['event of stream 0', 'wait', 'copy', 'copy', 'graph']
        for side, rows in zip(('left', 'right'), pair, strict=True):
            expected = np.ascontiguousarray(rows[:HEIGHT]).reshape(HEIGHT, -1).view(np.uint8)
            found = on_device(matcher, f'{side}_{place}', *expected.shape)
            assert np.array_equal(found, expected)


@pytest.mark.parametrize('changes', [{'reference_image': 'right'}, {'downscale': 2}], ids=str)
def test_mirrored_and_reduced_images_are_copied_whole(log: Log, changes: dict[str, Any]) -> None:
    pair = [random_rows(seed=1), random_rows(seed=2)]
    out = WithInterface(np.zeros((HEIGHT, WIDTH), np.float32))
    with StereoMatcher(CONFIG.replace(**changes)) as matcher:
        matcher.compute(*map(WithInterface, pair), out={'disparity': out})
        if 'reference_image' in changes:
            pair.reverse()
        for side, rows in zip(('left', 'right'), pair, strict=True):
            assert np.array_equal(on_device(matcher, f'{side}_raw', HEIGHT, WIDTH), rows)
        parameters = matcher._current.engine._parameters[-1]        # type: ignore[union-attr]
        assert parameters.disparity == out.array.ctypes.data


def test_a_grey_image_on_the_device_goes_where_a_correction_reads_it_while_there_is_one(
        log: Log) -> None:
    rows = [random_rows(seed=seed) for seed in (1, 2)]
    pair = [RawImage.from_dlpack(WithInterface(each)) for each in rows]
    with StereoMatcher(CONFIG.replace(row_correction='correct')) as matcher:
        for homography, place in ((None, 'grey'), ((1, 0, 0, 0, 1, 1.5, 0, 0, 1), 'raw')) * 2:
            matcher.correct_rows(homography)
            matcher.compute(*pair)
            for side, expected in zip(('left', 'right'), rows, strict=True):
                found = on_device(matcher, f'{side}_{place}', HEIGHT, WIDTH)
                assert np.array_equal(found, expected)
                found[:] = 0


@pytest.mark.parametrize('way', WAYS)
def test_results_of_every_frame_go_to_its_caller_s_address_and_are_what_the_caller_gave(
        log: Log, way: Callable[..., Any]) -> None:
    image = way(random_rows())
    targets = [{name: way(np.zeros((HEIGHT, WIDTH), kind)) for name, kind in (
        ('disparity', np.float32), ('fixed_disparity', np.int16))} for _ in range(3)]
    with StereoMatcher(CONFIG) as matcher:
        for out in (*targets, *targets):
            frame = matcher.compute(image, image, outputs=('confidence',), out=out)
            parameters = matcher._current.engine._parameters[1]        # type: ignore[union-attr]
            for name, array in out.items():
                assert getattr(parameters, name) == array.array.ctypes.data
                assert getattr(frame, name) is array
            assert isinstance(frame.confidence, np.ndarray)


@pytest.mark.parametrize(('stream', 'handle'), [
    (None, 0), (41, 41), (types.SimpleNamespace(ptr=42), 42),
    (types.SimpleNamespace(cuda_stream=43), 43)])
def test_a_frame_waits_for_the_callers_stream(log: Log, stream: Any, handle: int) -> None:
    image = WithInterface(random_rows())
    with StereoMatcher(CONFIG) as matcher:
        matcher.compute(image, image, stream=stream)
        assert log.frame[:3] == [f'event of stream {handle}', 'wait', 'copy']
        log.frame.clear()
        matcher.submit(image, image, stream=stream).result(60)
        assert log.frame[0] == f'event of stream {handle}'


def test_images_and_outputs_may_be_on_the_host_and_in_turn(
        log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    staged: list[RawImage] = []
    monkeypatch.setattr(convert, 'stage', lambda raw, _: staged.append(raw))
    left, right = random_rows(seed=1), random_rows(seed=2)
    with StereoMatcher(CONFIG) as matcher:
        matcher.compute(WithInterface(left), right)
        assert np.array_equal(on_device(matcher, 'left_grey', HEIGHT, WIDTH), left)
        assert [np.array_equal(raw.pixels, right) for raw in staged] == [True]
        log.frame.clear()
        out = WithInterface(np.zeros((HEIGHT, WIDTH), np.float32))
        matcher.compute(left, right, out={'disparity': out}, stream=5)
        assert log.frame == ['event of stream 5', 'wait', 'graph']
        log.frame.clear()
        matcher.compute(left, right, stream=5)      # nothing of the stream's
        assert log.frame == ['graph']
    log.frame.clear()
    with StereoMatcher(CONFIG) as matcher:
        for _ in range(5):
            matcher.compute(left, right)
            matcher.compute(WithInterface(left), WithInterface(right))
            matcher.compute(WithDlpack(left.copy()), WithDlpack(right.copy()))
        assert len(matcher._current.engine._graphs) == 2        # type: ignore[union-attr]
    assert log.frame.count('copy') == 20


@pytest.mark.parametrize('place', ['left', 'right', 'out'])
@pytest.mark.parametrize(('owner', 'text'), [
    (1, 'is on CUDA device 1; the matcher is on device 0'),
    (None, 'is not in the memory of a CUDA device; the matcher is on device 0')])
def test_memory_of_another_device_is_refused_by_name(
        log: Log, monkeypatch: pytest.MonkeyPatch, place: str, owner: int | None, text: str
        ) -> None:
    images = {side: WithInterface(random_rows()) for side in ('left', 'right')}
    out = WithInterface(np.zeros((HEIGHT, WIDTH), np.float32))
    foreign = out if place == 'out' else images[place]
    address = foreign.array.ctypes.data
    monkeypatch.setattr(device, 'owner', lambda found: owner if found == address else 0)
    name = r"out\['disparity'\]" if place == 'out' else f'the {place} image'
    with StereoMatcher(CONFIG) as matcher:
        with pytest.raises(InputError, match=f'{name} {text}'):
            matcher.compute(**images, out={'disparity': out})
        assert matcher.size is None         # nothing was allocated for it
        assert log.frame == []


def test_a_device_owns_what_cuda_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = cupy.cuda.runtime
    for kind, expected in ((runtime.memoryTypeDevice, 3), (runtime.memoryTypeManaged, 3),
                           (runtime.memoryTypeHost, 3), (runtime.memoryTypeUnregistered, None)):
        monkeypatch.setattr(runtime, 'pointerGetAttributes', lambda _, kind=kind: (
            types.SimpleNamespace(type=kind, device=3)))
        assert device.owner(4096) == expected


# On a device

def from_cupy(rows: np.ndarray) -> Any:
    """A copy on the device with the same padding of rows, from an odd address on."""
    row = rows.strides[0] // rows.itemsize
    memory = cupy.zeros(rows.shape[0] * row + 1, rows.dtype)[1:]
    there = cupy.lib.stride_tricks.as_strided(memory, rows.shape, rows.strides)
    there[...] = cupy.asarray(np.ascontiguousarray(rows))
    return there


def from_torch(rows: np.ndarray) -> Any:
    torch = pytest.importorskip('torch')
    return torch.from_dlpack(from_cupy(rows))


@pytest.mark.gpu
@pytest.mark.parametrize('library', [from_cupy, from_torch])
@pytest.mark.parametrize('padding', [0, 5])
@pytest.mark.parametrize(('encoding', 'factor'), [
    *((encoding, 1) for encoding in sorted(ENCODINGS)), ('rgb8', 2)])
def test_bits_are_those_of_images_on_the_host(
        library: Callable[[np.ndarray], Any], padding: int, encoding: str, factor: int,
        monkeypatch: pytest.MonkeyPatch) -> None:
    pair = [random_rows(encoding, seed, padding) for seed in (1, 2)]
    there = [RawImage.from_dlpack(library(rows), encoding) for rows in pair]
    out = {'disparity': library(np.zeros((HEIGHT, WIDTH), np.float32)),
           'fixed_disparity': library(np.zeros((HEIGHT, WIDTH), np.int16))}
    with StereoMatcher(CONFIG.replace(downscale=factor)) as matcher:
        expected = matcher.compute(*(RawImage.from_array(rows, encoding) for rows in pair),
                                   outputs=tuple(out))
        monkeypatch.setattr(convert, 'stage', lambda *_: pytest.fail('went through the host'))
        assert np.array_equal(matcher.compute(*there).disparity, expected.disparity)
        frame = matcher.compute(*there, out=out)
    for name, array in out.items():
        assert getattr(frame, name) is array
        assert np.array_equal(cupy.asarray(array).get(), getattr(expected, name))
    assert np.array_equal(cupy.asarray(frame.valid).get(), expected.valid)


#: Spins for some clocks, then fills an image.
LATE = """
extern "C" __global__ void late(unsigned char* image, int pixels) {
    const long long start = clock64();
    while (clock64() - start < 100000000) {}
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) image[i] = i * 7 + i / 61;
}
"""


@pytest.mark.gpu
def test_images_that_a_stream_is_still_making_are_waited_for() -> None:
    late = cupy.RawKernel(LATE, 'late')
    pixels = np.arange(WIDTH * HEIGHT)
    left = (pixels * 7 + pixels // 61).astype(np.uint8).reshape(HEIGHT, WIDTH)
    right = random_rows()
    stream = cupy.cuda.Stream(non_blocking=True)
    with StereoMatcher(CONFIG) as matcher:
        expected = matcher.compute(left, right).disparity
        there, beside = cupy.zeros((HEIGHT, WIDTH), np.uint8), from_cupy(right)
        cupy.cuda.Device().synchronize()
        with stream:
            late((1,), (32,), (there, WIDTH * HEIGHT))
        assert not stream.done
        found = matcher.compute(there, beside, stream=stream).disparity
    assert np.array_equal(found, expected)


@pytest.mark.gpu
def test_images_of_another_device_are_refused() -> None:
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip('needs two devices')
    with cupy.cuda.Device(1):
        image = from_cupy(random_rows())
    with StereoMatcher(CONFIG) as matcher, pytest.raises(InputError, match='on CUDA device 1'):
        matcher.compute(image, image)
