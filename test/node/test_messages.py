"""Messages: every field right, pixels in a buffer that stays."""

from __future__ import annotations

import array
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from builtin_interfaces.msg import Time
from sensor_msgs.msg import CameraInfo, PointField
from std_msgs.msg import Header

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.frame.disparity_frame import DERIVED, DisparityFrame, ValidWindow
from stereo_bp_ros.node.diagnostics.monitors import STAGES, FrameLatency
from stereo_bp_ros.node.frames import Result
from stereo_bp_ros.node.messages import (
    CameraInfoMessage,
    DisparityMessage,
    ImageMessage,
    PointCloudMessage,
    latency_message,
    latency_numbers,
)

pytestmark = pytest.mark.ros


STAMP = Time(sec=12, nanosec=34)


def _frame(**fields: object) -> DisparityFrame:
    values: dict[str, object] = {
        'disparity': None, 'depth': None, 'confidence': None, 'min_disparity': -3.5,
        'max_disparity': 59.5, 'delta_d': 1 / 16, 'valid_window': ValidWindow(5, 1, 20, 10),
        'timings': {}, 'backend': 'cpu', **fields}
    return DisparityFrame(**values)     # type: ignore[arg-type]


def result(**fields: object) -> Result:
    """Of a frame that has ``fields``, with the frame_id left_camera."""
    return Result(STAMP, CameraInfo(header=Header(frame_id='left_camera')),
                  Calibration(450.0, 0.12, 10, 12, 6), _frame(**fields), NodeConfig())


def ignore(buffer: object) -> None:
    """Nobody wants to know of new buffers."""


def test_every_field_of_a_disparity_image_is_filled() -> None:
    message = DisparityMessage('disparity', ignore)
    pixels = message.pixels(30, 12)
    pixels[:] = np.arange(360, dtype=np.float32).reshape(12, 30)
    filled = message.fill(result())
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


def test_the_buffer_stays_while_the_size_stays_and_every_new_one_is_told_of_once() -> None:
    buffers: list[object] = []
    message = ImageMessage('depth', buffers.append)
    old = message.pixels(8, 4)
    data = message.message.data
    assert isinstance(data, array.array)
    assert data.typecode == 'B'
    assert message.pixels(8, 4) is old
    assert message.message.data is data
    old[:] = 2.5
    assert bytes(data) == np.full(32, 2.5, np.float32).tobytes()
    message.pixels(16, 2)[:] = 0            # leaves the old view alone
    assert np.all(old == 2.5)
    assert (message.message.width, message.message.step) == (16, 64)
    assert [len(buffer) for buffer in buffers] == [128, 128]        # type: ignore[arg-type]
    assert buffers[1] is message.message.data


def test_the_camera_info_of_depth_has_a_translation_only_within_its_frame() -> None:
    received = CameraInfo(width=640, height=480, distortion_model='plumb_bob', binning_x=2,
                          k=[500.0, 0, 320, 0, 510, 240, 0, 0, 1],
                          p=[500.0, 0, 320, -50, 0, 510, 240, 0, 0, 0, 1, 0],
                          header=Header(frame_id='right_camera', stamp=Time(sec=1)))
    message = CameraInfoMessage('', ignore)
    filled = message.fill(result()._replace(camera_info=received))
    assert (filled.header.stamp, filled.header.frame_id) == (STAMP, 'right_camera')
    assert list(filled.p) == [500.0, 0, 320, 0, 0, 510, 240, 0, 0, 0, 1, 0]
    assert (received.p[3], received.header.stamp) == (-50, Time(sec=1))
    for field in ('width', 'height', 'distortion_model', 'binning_x', 'roi'):
        assert getattr(filled, field) == getattr(received, field)
    assert np.array_equal(filled.k, received.k)
    in_the_left_frame = message.fill(result()._replace(camera_info=received, camera_x=0.1))
    assert np.array_equal(in_the_left_frame.p, received.p)


def test_images_are_described_by_the_type_of_their_pixels() -> None:
    for output, encoding, step in (('confidence', '32FC1', 128), ('depth_mm', '16UC1', 64),
                                   ('disparity_color', 'bgr8', 96)):
        message = ImageMessage(output, ignore)
        pixels = message.pixels(32, 24)
        pixels[...] = 7
        image = message.fill(result())
        assert (image.encoding, image.step, image.width, image.height) == (encoding, step, 32, 24)
        assert bytes(image.data) == pixels.tobytes()


def test_latencies_name_every_stage_in_order() -> None:
    latency = FrameLatency({name: float(k) for k, name in enumerate(STAGES)}, 55.0, 60.5)
    status, = latency_message(STAMP, '/robot/front/stereo_bp', latency).status
    assert [v.key for v in status.values] == [
        'receive', 'pair', 'wait', 'convert', 'upload', 'preprocess', 'cost', 'messages',
        'refine', *DERIVED, 'download', 'publish', 'total', 'age']
    assert [float(v.value) for v in status.values] == [*range(len(STAGES)), 55.0, 60.5]
    assert status.level == b'\0'
    assert (status.name, status.hardware_id) == (
        '/robot/front/stereo_bp: latency', 'robot/front')
    numbers = latency_numbers(latency)
    dimension, = numbers.layout.dim
    assert dimension.label.split(',') == ['total', 'age', *STAGES]
    assert dimension.size == dimension.stride == len(numbers.data)
    assert list(numbers.data) == [55.0, 60.5, *range(len(STAGES))]


def points_of(message: Any) -> np.ndarray:
    """float32 H x W x 4, of a message whose description of itself is right."""
    assert [(f.name, f.offset, f.datatype, f.count) for f in message.fields] == [
        (name, offset, PointField.FLOAT32, 1)
        for name, offset in (('x', 0), ('y', 4), ('z', 8), ('rgb', 12))]
    assert message.is_bigendian == (sys.byteorder == 'big')
    assert (message.point_step, message.row_step) == (16, 16 * message.width)
    assert len(message.data) == message.row_step * message.height
    return np.frombuffer(message.data, np.float32).reshape(message.height, message.width, 4)


def colours_of(points: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(points[..., 3]).view(np.uint32)


def random_points(message: PointCloudMessage, share: float, decimation: int = 1) -> np.ndarray:
    """Points in the message, so many of which are there."""
    random = np.random.default_rng(int(100 * share))
    points = message.pixels(30, 12, decimation)
    points[:] = random.random(points.shape, np.float32)
    points[random.random(points.shape[:2]) >= share, :3] = np.nan
    return points


def test_a_cloud_without_gaps_has_the_points_that_are_there_in_order() -> None:
    message = PointCloudMessage('points', lambda buffer: None)
    settings = NodeConfig(points_organized=False)
    # More and fewer points than in the frame before, none, and another shape.
    for share, decimation in ((0.5, 1), (0.9, 1), (0.0, 1), (0.7, 2)):
        points = random_points(message, share, decimation)
        cloud = message.fill(result()._replace(settings=settings))
        there = points[np.isfinite(points[..., 2])]
        assert (cloud.height, cloud.width, cloud.is_dense) == (1, len(there), True)
        assert np.array_equal(points_of(cloud)[0].view(np.uint32), there.view(np.uint32))
        assert (cloud.header.stamp, cloud.header.frame_id) == (STAMP, 'left_camera')


def test_an_organized_cloud_is_the_buffer_that_the_engine_fills() -> None:
    buffers: list[Any] = []
    message = PointCloudMessage('points', buffers.append)
    points = random_points(message, 0.5, decimation=4)
    cloud = message.fill(result())
    assert cloud.data is buffers[0]
    assert (cloud.height, cloud.width, cloud.is_dense) == (3, 8, False)
    assert np.array_equal(points_of(cloud), points, equal_nan=True)
