"""Raw images: validated views of bytes."""

from __future__ import annotations

import array
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stereo_bp_ros.errors import InputError
from stereo_bp_ros.images.raw_images import ENCODINGS, RawImage, check_pair
from stereo_bp_ros.issues import IssueCode


@given(width=st.integers(1, 20), height=st.integers(1, 20), padding=st.integers(0, 9),
       name=st.sampled_from(sorted(ENCODINGS)))
def test_pixels_honour_step_and_are_a_view(width, height, padding, name):
    layout = ENCODINGS[name]
    if layout.luma >= 0 or name in ('nv12', 'nv21'):
        width *= 2
    if name in ('nv12', 'nv21'):
        height *= 2
    step = width * layout.pixel_bytes + padding
    data = np.arange(step * layout.rows(height), dtype=np.uint32).astype(np.uint8)
    pixels = RawImage(data, height, width, step, name).pixels
    rows = data[:step * height].reshape(height, step)[:, :width * layout.pixel_bytes]
    assert np.array_equal(np.ascontiguousarray(pixels).reshape(height, -1).view(np.uint8), rows)
    assert np.shares_memory(pixels, data)


def test_16_bit_values_are_read_in_their_byte_order():
    data = bytes([1, 2, 3, 4])
    assert RawImage(data, 1, 2, 4, 'mono16').pixels.tolist() == [[0x0201, 0x0403]]
    assert RawImage(data, 1, 2, 4, 'mono16', big_endian=True).pixels.tolist() == [
        [0x0102, 0x0304]]


@pytest.mark.parametrize(('changes', 'reason', 'text'), [
    ({'encoding': 'mono9'}, IssueCode.UNKNOWN_ENCODING, 'mono8.*rgb8'),
    ({'width': 0}, IssueCode.BAD_SIZE, 'width is 0; .* at least 1'),
    ({'width': 10.0}, IssueCode.BAD_SIZE, r'width is 10\.0; .* whole number'),
    ({'height': True}, IssueCode.BAD_SIZE, 'height is True; .* whole number'),
    ({'step': 10.0}, IssueCode.BAD_STEP, r'step is 10\.0; .* whole number'),
    ({'step': -1}, IssueCode.BAD_STEP, 'step is -1'),
    ({'step': 9}, IssueCode.BAD_STEP, ''),
    ({'height': 11}, IssueCode.SHORT_DATA, ''),
    ({'height': 10**9, 'width': 10**9, 'step': 10**9}, IssueCode.SHORT_DATA, ''),
    ({'encoding': 'yuv422', 'width': 5, 'step': 10}, IssueCode.BAD_SIZE, 'width is even'),
    ({'encoding': 'nv21', 'height': 5}, IssueCode.BAD_SIZE, 'nv21 of height 5; .* is even'),
    ({'encoding': 'nv21', 'height': 4, 'step': 30}, IssueCode.SHORT_DATA, ''),
    ({'encoding': 'bayer_rggb16'}, IssueCode.BAD_STEP, ''),
    ({'encoding': 'bayer_bggr16', 'step': 20}, IssueCode.SHORT_DATA, ''),
])
def test_what_does_not_fit_is_refused_with_its_reason(changes, reason, text):
    values = {'data': bytes(100), 'height': 10, 'width': 10, 'step': 10, 'encoding': 'mono8',
              **changes}
    with pytest.raises(InputError, match=text or None) as error:
        RawImage(**values)
    assert error.value.code is reason


@pytest.mark.parametrize(('name', 'rows'), [('nv12', 6), ('nv21', 6), ('nv24', 12)])
def test_chroma_follows_the_luma_and_must_be_there(name, rows):
    data = np.arange(8 * rows, dtype=np.uint8)
    image = RawImage(data[:-2], 4, 6, 8, name)
    assert np.array_equal(image.pixels, data[:32].reshape(4, 8)[:, :6])
    with pytest.raises(InputError, match=f'{rows} rows of 8 bytes are {8 * rows}'):
        RawImage(data[:-3], 4, 6, 8, name)
    array_ = np.ascontiguousarray(data.reshape(rows, 8)[:, :6])
    assert np.array_equal(RawImage.from_array(array_, name).pixels, image.pixels)
    assert RawImage(bytes(45), 3, 5, 5, 'nv24').pixels.shape == (3, 5)      # odd, nothing shared
    assert RawImage(bytes(12 + 10), 2, 10, 12, 'mono8').pixels.shape == (2, 10)


def test_a_message_is_read_through_its_fields_without_a_copy():
    message = types.SimpleNamespace(data=array.array('B', range(12)), height=3, width=4, step=4,
                                    encoding='mono8', is_bigendian=0)
    image = RawImage.from_message(message)
    message.data[5] = 99
    assert image.pixels[1, 1] == 99


@pytest.mark.parametrize(('shape', 'dtype', 'encoding'), [
    ((4, 6), np.uint8, 'mono8'), ((4, 6), np.uint16, 'mono16'), ((4, 6, 3), np.uint8, 'rgb8')])
def test_arrays_become_raw_images_of_the_usual_encoding(shape, dtype, encoding):
    array_ = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    image = RawImage.from_array(array_)
    assert image.encoding == encoding
    assert np.array_equal(image.pixels, array_)
    flipped = RawImage.from_array(array_[:, ::-1])
    assert np.array_equal(flipped.pixels, array_[:, ::-1])


@pytest.mark.parametrize('array_', [
    np.zeros((4, 4), np.float32), np.zeros(4, np.uint8), np.zeros((4, 4, 5), np.uint8),
    np.zeros((4, 4, 3), np.uint16), np.zeros((4, 4), bool)])
def test_other_arrays_are_refused(array_):
    with pytest.raises(InputError) as error:
        RawImage.from_array(array_)
    assert error.value.code is IssueCode.BAD_ARRAY
    for rows, name in ((5, 'nv12'), (7, 'nv21'), (4, 'nv24')):
        with pytest.raises(InputError, match='rows of luma and chroma') as error:
            RawImage.from_array(np.zeros((rows, 4), np.uint8), name)
        assert error.value.code is IssueCode.BAD_ARRAY


def test_pairs_of_two_sizes_and_too_large_pairs_are_refused():
    small, large = (RawImage.from_array(np.zeros((4, n), np.uint8)) for n in (4, 6))
    check_pair(small, small, 4, 4)
    with pytest.raises(InputError, match='size mismatch'):
        check_pair(small, large, 100, 100)
    with pytest.raises(InputError, match='too large'):
        check_pair(large, large, 5, 100)
