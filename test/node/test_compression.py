"""Compressed pictures, read as the subscribers of image_transport read them."""

from __future__ import annotations

import struct
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import NodeConfig
from stereo_bp_ros.node.compression import compressed_color, compressed_depth
from stereo_bp_ros.node.frames import Result
from test.node.test_messages import STAMP, result

pytestmark = pytest.mark.ros


def decoded_color(message: Any) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(message.data, np.uint8), cv2.IMREAD_COLOR)


def decoded_depth(message: Any) -> np.ndarray:
    """Metres, or 16 bits as they were: the rule of compressed_depth_image_transport."""
    _, factor, offset = struct.unpack('<iff', bytes(message.data[:12]))
    values = cv2.imdecode(np.frombuffer(message.data, np.uint8, offset=12),
                          cv2.IMREAD_UNCHANGED)
    assert values.dtype == np.uint16
    if message.format.startswith('16UC1;'):
        return values
    with np.errstate(divide='ignore'):
        metres = np.float32(factor) / (values.astype(np.float32) - np.float32(offset))
    return np.where(values > 0, metres, np.float32(np.nan))


def with_settings(**settings: Any) -> Result:
    return result()._replace(settings=NodeConfig(**settings))


def picture() -> np.ndarray:
    steps = np.arange(40 * 30, dtype=np.uint32).reshape(30, 40) // 5
    return cv2.applyColorMap(steps.astype(np.uint8), cv2.COLORMAP_TURBO)


def test_png_keeps_every_color() -> None:
    message = compressed_color(picture(), 'bgr8', with_settings(compressed_format='png'))
    assert message.format == 'bgr8; png compressed bgr8'
    assert (message.header.stamp, message.header.frame_id) == (STAMP, 'left_camera')
    np.testing.assert_array_equal(decoded_color(message), picture())


def test_jpeg_is_close_and_its_quality_can_be_set() -> None:
    best, worst = (compressed_color(picture(), 'bgr8', with_settings(jpeg_quality=quality))
                   for quality in (95, 5))
    assert best.format == 'bgr8; jpeg compressed bgr8'
    assert bytes(best.data[:2]) == b'\xff\xd8'
    assert len(worst.data) < len(best.data)
    errors = [np.abs(decoded_color(message).astype(int) - picture()).mean()
              for message in (best, worst)]
    assert errors[0] < errors[1]
    assert errors[0] < 10


@pytest.mark.parametrize('shift', [0.0, 31.086, -31.086, -2.5, 1 / 3])
@pytest.mark.parametrize('first', [0, -60, 100])
def test_metres_come_back_with_every_sixteenth_of_a_pixel(first: int, shift: float) -> None:
    calibration = Calibration(721.5, 0.54, shift, 0.0, 0.0)
    disparity = first + np.arange(16 * 512).reshape(64, 128) / 16 - shift
    metres = np.where(disparity > 0, 721.5 * 0.54 / np.where(disparity > 0, disparity, 1),
                      np.nan).astype(np.float32)
    metres[5, 5] = np.nan
    message = compressed_depth(metres, '32FC1', result()._replace(calibration=calibration))
    assert message.format == '32FC1; compressedDepth png'
    found = decoded_depth(message)
    np.testing.assert_allclose(found, metres, rtol=1e-5)
    assert np.isnan(found[5, 5])


def test_disparities_beyond_16_bits_are_the_nearest_depth_that_there_is() -> None:
    calibration = Calibration(1000.0, 1.0, -4000.0, 0.0, 0.0)
    metres = np.float32([[1000 / 4500, np.nan, 1000 / 4000]])
    found = decoded_depth(compressed_depth(
        metres, '32FC1', result()._replace(calibration=calibration)))
    np.testing.assert_allclose(found, [[16000 / 65535, np.nan, 0.25]], rtol=1e-5)


def test_millimetres_come_back_as_they_are() -> None:
    millimetres = np.arange(30 * 40, dtype=np.uint16).reshape(30, 40) * 54
    message = compressed_depth(millimetres, '16UC1', result())
    assert message.format == '16UC1; compressedDepth png'
    np.testing.assert_array_equal(decoded_depth(message), millimetres)
