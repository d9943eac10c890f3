"""From messages to raw images: compressed ones, foreign encodings, and doubtful content."""

from __future__ import annotations

import builtins
import types
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros.errors import InputError, InputReason
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.node import inputs, quality

RANDOM = np.random.default_rng(3)
GREY = RANDOM.integers(0, 256, (24, 32), np.uint8)
COLOUR = RANDOM.integers(0, 256, (24, 32, 3), np.uint8)


def _compressed(pixels: np.ndarray, kind: str, description: str = '') -> types.SimpleNamespace:
    done, data = cv2.imencode(f'.{kind}', pixels)
    assert done
    return types.SimpleNamespace(data=data.tobytes(), format=description or kind)


@pytest.mark.parametrize(('pixels', 'description', 'encoding'), [
    (GREY, 'png', 'mono8'),
    (GREY, 'mono8; png compressed ', 'mono8'),
    (GREY, 'bayer_rggb8; png compressed bayer_rggb8', 'bayer_rggb8'),
    (COLOUR, 'rgb8; png compressed bgr8', 'bgr8'),
    (GREY.astype(np.uint16) * 257, 'mono16; png compressed', 'mono16'),
    (np.dstack([COLOUR, GREY]), 'rgba8; png compressed', 'bgra8'),
])
def test_compressed_images_come_out_as_they_went_in(pixels: np.ndarray, description: str,
                                                    encoding: str) -> None:
    image = inputs.from_compressed(_compressed(pixels, 'png', description), 100, 100)
    assert image.encoding == encoding
    assert np.array_equal(image.pixels, pixels)


def test_jpeg_is_decoded(textured_pair: Any) -> None:
    smooth = cv2.GaussianBlur(GREY, (0, 0), 4)
    image = inputs.from_compressed(_compressed(smooth, 'jpg', 'jpeg'), 100, 100)
    assert image.encoding == 'mono8'
    assert np.abs(image.pixels.astype(int) - smooth).max() < 12


@pytest.mark.parametrize('kind', ['png', 'jpg'])
def test_the_size_is_read_before_anything_is_decoded(kind: str,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    message = _compressed(COLOUR, kind)
    assert inputs.compressed_size(message.data) == (32, 24)
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: pytest.fail('decoded'))
    with pytest.raises(InputError) as caught:
        inputs.from_compressed(message, 31, 100)
    assert caught.value.reason is InputReason.TOO_LARGE


@pytest.mark.parametrize('data', [
    b'', b'\xff', b'\xff\xd8', b'\xff\xd8\xff', b'\xff\xd8\xff\xe0\x00\x00' * 3,
    b'\x89PNG\r\n\x1a\n', b'\x89PNG\r\n\x1a\n' + bytes(40), b'neither', bytes(1000),
    _compressed(COLOUR, 'jpg').data[:60], _compressed(COLOUR, 'png').data[:60]])
def test_broken_data_is_bad_compression(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        inputs.from_compressed(types.SimpleNamespace(data=data, format='jpeg'), 100, 100)
    assert caught.value.reason is InputReason.BAD_COMPRESSION


def _foreign(messages: types.SimpleNamespace) -> types.SimpleNamespace:
    message: types.SimpleNamespace = messages.image(1, GREY)
    message.encoding = '32FC1'
    return message


def test_a_foreign_encoding_without_cv_bridge_lists_what_is_supported(
        messages: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, 'cv_bridge', lambda: None)
    with pytest.raises(InputError, match=r'32FC1.*supported without cv_bridge.*yuv422_yuy2'):
        inputs.from_image(_foreign(messages), 100, 100)


def test_a_foreign_encoding_goes_through_cv_bridge(
        messages: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = types.SimpleNamespace(imgmsg_to_cv2=lambda message, desired_encoding: GREY)
    monkeypatch.setattr(inputs, 'cv_bridge', lambda: bridge)
    assert np.array_equal(inputs.from_image(_foreign(messages), 100, 100).pixels, GREY)


def test_what_cv_bridge_cannot_convert_is_an_unknown_encoding(
        messages: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError('no such conversion')

    monkeypatch.setattr(inputs, 'cv_bridge', lambda: types.SimpleNamespace(imgmsg_to_cv2=refuse))
    with pytest.raises(InputError, match='no such conversion') as caught:
        inputs.from_image(_foreign(messages), 100, 100)
    assert caught.value.reason is InputReason.UNKNOWN_ENCODING


@pytest.mark.parametrize('error', [ImportError, AttributeError, SystemError, RuntimeError])
def test_a_cv_bridge_that_cannot_be_imported_counts_as_absent(
        error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def broken(name: str, *rest: Any) -> Any:
        if name == 'cv_bridge':
            raise error('built for another NumPy')
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, '__import__', broken)
    inputs.cv_bridge.cache_clear()
    assert inputs.cv_bridge() is None
    inputs.cv_bridge.cache_clear()


def test_sizes_over_the_limit_are_refused_before_cv_bridge_sees_them(
        messages: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, 'cv_bridge', lambda: pytest.fail('asked'))
    with pytest.raises(InputError) as caught:
        inputs.from_image(_foreign(messages), 31, 100)
    assert caught.value.reason is InputReason.TOO_LARGE


@pytest.mark.parametrize(('left', 'right', 'expected'), [
    (GREY, GREY[::-1].copy(), []),
    (GREY, GREY, ['left and right image are identical']),
    (np.zeros_like(GREY), GREY, ['the left image is black']),
    (GREY, np.full_like(GREY, 255), ['the right image is saturated']),
    (np.zeros_like(COLOUR), COLOUR, ['the left image is black']),
    (GREY.astype(np.uint16), GREY[::-1].astype(np.uint16),
     ['the left image is black (does mono16_scale', 'the right image is black']),
    (GREY.astype(np.uint16) * 256, GREY[::-1].astype(np.uint16) * 256, []),
])
def test_doubtful_images_are_named(left: np.ndarray, right: np.ndarray, expected: list[str]
                                   ) -> None:
    found = quality.image_warnings(RawImage.from_array(left), RawImage.from_array(right),
                                   1 / 256)
    assert len(found) == len(expected)
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True))


def test_only_the_luma_of_yuv_says_whether_an_image_is_black() -> None:
    yuv = np.zeros((8, 8, 2), np.uint8)
    yuv[..., 0] = 128       # neutral colour
    image = RawImage.from_array(yuv, 'yuv422')
    other = RawImage.from_array(yuv + np.uint8(60), 'yuv422')
    assert quality.image_warnings(image, other, 1.0) == ['the left image is black']
