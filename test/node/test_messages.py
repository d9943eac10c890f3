"""Messages: every field right, and the pixels written into a buffer that stays."""

from __future__ import annotations

import array
import math
import sys

import numpy as np
import pytest

pytest.importorskip('rclpy')

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.node.diagnostics.latency import STAGES, FrameLatency
from stereo_bp_ros.node.publishing import DepthMessage, DisparityMessage, latency_message
from stereo_bp_ros.types import DisparityFrame, ValidWindow

pytestmark = pytest.mark.ros


def _stamp(sec: int = 12, nanosec: int = 34) -> object:
    from builtin_interfaces.msg import Time
    return Time(sec=sec, nanosec=nanosec)


def _frame(**fields: object) -> DisparityFrame:
    values: dict[str, object] = {
        'disparity': None, 'depth': None, 'confidence': None, 'min_disparity': -3.5,
        'max_disparity': 59.5, 'delta_d': 1 / 16, 'valid_window': ValidWindow(5, 1, 20, 10),
        'timings': {}, 'backend': 'cpu', **fields}
    return DisparityFrame(**values)     # type: ignore[arg-type]


def ignore(buffer: object) -> None:
    """Nobody wants to know of new buffers."""


def test_every_field_of_a_disparity_image_is_filled() -> None:
    message = DisparityMessage(ignore)
    pixels = message.pixels(30, 12)
    pixels[:] = np.arange(360, dtype=np.float32).reshape(12, 30)
    filled = message.fill(_stamp(), 'left_camera', Calibration(450.0, 0.12, 10, 12, 6),
                          _frame())
    for header in (filled.header, filled.image.header):
        assert (header.stamp.sec, header.stamp.nanosec, header.frame_id) == (12, 34,
                                                                            'left_camera')
    image = filled.image
    assert (image.width, image.height, image.step, image.encoding) == (30, 12, 120, '32FC1')
    assert image.is_bigendian == (sys.byteorder == 'big')
    assert np.array_equal(np.frombuffer(image.data, '<f4').reshape(12, 30), pixels)
    assert filled.f == 450.0
    assert filled.t == pytest.approx(0.12)
    assert (filled.min_disparity, filled.max_disparity, filled.delta_d) == (-3.5, 59.5, 1 / 16)
    window = filled.valid_window
    assert (window.x_offset, window.y_offset, window.width, window.height) == (5, 1, 20, 10)
    assert window.do_rectify is False


@pytest.mark.parametrize('kind', [DisparityMessage, DepthMessage])
def test_the_buffer_stays_while_the_size_stays(kind: type) -> None:
    message = kind(ignore)
    image = message.message.image if kind is DisparityMessage else message.message
    first = message.pixels(8, 4)
    data = image.data
    assert isinstance(data, array.array)
    assert data.typecode == 'B'
    assert message.pixels(8, 4) is first
    assert image.data is data
    first[:] = 2.5
    assert bytes(image.data) == np.full(32, 2.5, np.float32).tobytes()


def test_another_size_gets_another_buffer_and_leaves_the_old_view_alone() -> None:
    message = DepthMessage(ignore)
    old = message.pixels(8, 4)
    old[:] = math.pi
    new = message.pixels(16, 2)
    new[:] = 0
    assert np.all(old == np.float32(math.pi))
    assert (message.message.width, message.message.step) == (16, 64)
    assert len(message.message.data) == 128


def test_every_new_buffer_of_a_message_is_told_of_once() -> None:
    buffers: list[object] = []
    message = DepthMessage(buffers.append)
    for width in (8, 8, 16):
        message.pixels(width, 4)
        assert buffers[-1] is message.message.data
    assert len(buffers) == 2


def test_pixels_can_be_a_matchers_output() -> None:
    pixels = DepthMessage(ignore).pixels(31, 7)
    assert pixels.dtype == np.float32
    assert pixels.flags.c_contiguous
    assert pixels.flags.writeable
    assert pixels.flags.aligned


def test_a_latency_message_names_every_stage_in_order() -> None:
    latency = FrameLatency({name: float(k) for k, name in enumerate(STAGES)}, 55.0, 60.5)
    status, = latency_message(_stamp(), '/n: latency', 'cpu', latency).status
    assert [v.key for v in status.values] == [
        'receive', 'pair', 'wait', 'convert', 'upload', 'preprocess', 'cost', 'messages',
        'refine', 'download', 'publish', 'total', 'age']
    assert [float(v.value) for v in status.values] == [*range(11), 55.0, 60.5]
    assert status.level == b'\0'
    assert (status.name, status.hardware_id) == ('/n: latency', 'cpu')
