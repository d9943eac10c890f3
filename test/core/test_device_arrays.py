"""Arrays of other libraries, found where they lie; what is on no device here is refused."""

from __future__ import annotations

import gc
import types
import weakref

import numpy as np
import pytest

from stereo_bp_ros import (
    InputError,
    IssueCode,
    MatcherConfig,
    RawImage,
    StereoError,
    StereoMatcher,
)
from stereo_bp_ros.images import device_arrays
from stereo_bp_ros.images.device_arrays import DeviceArray
from test.engines.support.on_device import WithDlpack, WithInterface

WAYS = [WithInterface, WithDlpack]
SMALL = MatcherConfig(disparity_range=16, levels=3, iterations=4, backend='cpu')


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('dtype', ['uint8', 'int16', 'float32'])
def test_an_array_on_a_device_is_described_as_numpy_describes_it(way, dtype):
    whole = np.arange(4 * 6 * 3).astype(dtype).reshape(4, 6, 3)
    for array in (whole, whole[1:, 2:5], whole[::2], whole[:, :, 1], whole[0, 0]):
        found = device_arrays.located(way(array))
        assert isinstance(found, DeviceArray)
        assert found.address == array.ctypes.data
        assert (found.shape, found.strides, found.dtype) == (
            array.shape, array.strides, array.dtype)
        assert found.flags.c_contiguous == array.flags.c_contiguous
        assert found.flags.writeable
        last = array[(slice(-1, None),) * array.ndim]
        assert found.extent == last.ctypes.data + array.itemsize - array.ctypes.data
    read_only = device_arrays.located(WithInterface(whole, is_read_only=True))
    assert not read_only.flags.writeable
    exporter = WithDlpack(whole)
    device_arrays.located(exporter)
    assert exporter.streams == [-1]         # told not to wait


def test_memory_lives_as_long_as_its_description():
    array = np.zeros((2, 2), np.uint8)
    alive = weakref.ref(array)
    for way in WAYS:
        found = device_arrays.located(way(array))
        del array
        gc.collect()
        assert alive() is not None
        array = alive()
        del found
    del array
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(('array', 'text'), [
    ([[1, 2], [3, 4]], 'a list; it has neither __dlpack__'),
    (None, 'a NoneType'),
    (WithDlpack(np.zeros((2, 2)), device=(10, 0)), 'DLPack type 10'),
    (WithDlpack(np.zeros((2, 2), complex)), 'integers or floats'),
    (WithDlpack(np.zeros((2, 2), '>u2')), 'a WithDlpack; it cannot be shared'),
])
def test_what_cannot_be_located_is_refused_in_words(array, text):
    with pytest.raises(InputError, match=text) as error:
        device_arrays.located(array)
    assert error.value.code is IssueCode.BAD_ARRAY


def test_where_one_way_does_not_tell_the_other_is_asked():
    array = np.zeros((2, 3), np.uint16)

    class WithoutType(WithDlpack):
        """A tensor of a type that the interface of its library does not name."""

        @property
        def __cuda_array_interface__(self):
            raise KeyError('uint16')

    class Elsewhere(WithInterface):
        """A tensor that is not on the current device of its library."""

        def __dlpack__(self, stream=None):
            raise BufferError('on a different device')

    class Neither(WithoutType):
        __dlpack__ = Elsewhere.__dlpack__

    for exporter in (WithoutType(array), Elsewhere(array)):
        assert device_arrays.located(exporter).address == array.ctypes.data
    with pytest.raises(InputError, match=r'a Neither; it cannot be shared: .*different device'):
        device_arrays.located(Neither(array))


def test_streams_of_all_libraries_have_a_handle():
    for stream, handle in ((None, 0), (12345, 12345), (types.SimpleNamespace(ptr=7), 7),
                           (types.SimpleNamespace(cuda_stream=8), 8)):
        assert device_arrays.stream_handle(stream) == handle
    with pytest.raises(StereoError, match="stream is 'default'; it must be a whole number"):
        device_arrays.stream_handle('default')


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize(('shape', 'dtype', 'name', 'encoding'), [
    ((4, 6), 'uint16', None, 'mono16'), ((4, 6, 3), 'uint8', None, 'rgb8'),
    ((4, 6, 3), 'uint8', 'bgr8', 'bgr8'), ((6, 6), 'uint8', 'nv12', 'nv12')])
def test_raw_images_are_made_of_arrays_on_a_device_as_of_numpys(way, shape, dtype, name,
                                                                encoding):
    padded = np.zeros((shape[0], shape[1] + 5, *shape[2:]), dtype)
    for array in (np.zeros(shape, dtype), padded[:, 3:-2]):
        raw = RawImage.from_dlpack(way(array), name)
        assert raw.is_on_device
        assert (raw.height, raw.width, raw.encoding) == (4, 6, encoding)
        assert (raw.step, raw.data.address) == (array.strides[0], array.ctypes.data)
        with pytest.raises(InputError, match='for a matcher on this device'):
            raw.pixels.sum()
    assert RawImage.from_dlpack(way(np.zeros((9, 6), np.uint8)[::9])).step == 6


@pytest.mark.parametrize(('array', 'reason', 'text'), [
    (np.zeros((4, 6), np.float32), IssueCode.BAD_ARRAY, 'float32'),
    (np.zeros((3, 4, 6), np.uint8), IssueCode.BAD_ARRAY, r'\(3, 4, 6\)'),
    (np.zeros((3, 4, 6), np.uint8).transpose(1, 2, 0), IssueCode.BAD_ARRAY, 'contiguous'),
    (np.zeros((4, 12), np.uint8)[:, ::2], IssueCode.BAD_ARRAY, 'contiguous'),
    (np.zeros((4, 6), np.uint8)[::-1], IssueCode.BAD_STEP, '-6'),
    (np.broadcast_to(np.zeros(6, np.uint8), (4, 6)), IssueCode.BAD_STEP, 'is 0')])
def test_other_layouts_on_a_device_are_refused(array, reason, text):
    with pytest.raises(InputError, match=text) as error:
        RawImage.from_dlpack(WithInterface(array))
    assert error.value.code is reason


def test_the_cpu_engine_reads_and_writes_host_arrays_of_other_libraries(textured_pair):
    left, right = textured_pair(64, 32, 5)
    raw = RawImage.from_dlpack(WithDlpack(left, device=(1, 0)))
    assert not raw.is_on_device
    assert np.shares_memory(raw.pixels, left)
    out = WithDlpack(np.empty((32, 64), np.float32), device=(1, 0))
    with StereoMatcher(SMALL) as matcher:
        expected = matcher.compute(left, right).disparity
        frame = matcher.compute(*(WithDlpack(image, device=(1, 0)) for image in (left, right)),
                                out={'disparity': out})
    assert frame.disparity is out
    assert np.array_equal(out.array, expected)


def test_tensors_of_pytorch_on_the_host_are_read_and_written(textured_pair):
    torch = pytest.importorskip('torch')
    left, right = (torch.from_numpy(image) for image in textured_pair(64, 32, 5))
    out = np.empty((32, 64), np.float32)
    with StereoMatcher(SMALL) as matcher:
        expected = matcher.compute(left.numpy(), right.numpy()).disparity
        assert np.shares_memory(RawImage.from_dlpack(left).pixels, left.numpy())
        matcher.compute(left, right, out={'disparity': out})
    assert np.array_equal(out, expected)


@pytest.mark.parametrize(('way', 'place'), [
    (WithInterface, 'left'), (WithDlpack, 'right'), (WithDlpack, 'out')])
def test_the_cpu_engine_refuses_arrays_on_a_device_and_says_what_helps(way, place):
    images = {side: np.zeros((32, 64), np.uint8) for side in ('left', 'right')}
    out = np.empty((32, 64), np.float32)
    name = f'the {place} image'
    if place == 'out':
        out, name = way(out), r"out\['disparity'\]"
    else:
        images[place] = way(images[place])
    with StereoMatcher(SMALL) as matcher:
        with pytest.raises(InputError, match=f'{name} is in the memory of a CUDA device; .*copy '
                                             'the array to the host, or use backend cuda'):
            matcher.compute(**images, out={'disparity': out})
        assert matcher.size is None         # nothing was allocated for it


def test_an_unfit_output_on_a_device_is_refused():
    image = np.zeros((32, 64), np.uint8)
    read_only = WithInterface(np.empty((32, 64), np.float32), is_read_only=True)
    with StereoMatcher(SMALL) as matcher:
        for array in (np.empty((32, 63), np.float32), np.empty((32, 64), np.float64),
                      np.empty((32, 65), np.float32)[:, :-1]):
            with pytest.raises(InputError, match='C-contiguous'):
                matcher.compute(image, image, out={'disparity': WithInterface(array)})
        with pytest.raises(InputError, match='writeable'):
            matcher.compute(image, image, out={'disparity': read_only})
