"""Points of a stereo pair over ROS: the message, its options, and what nobody asks for."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')

from sensor_msgs.msg import PointField
from std_msgs.msg import Header

from stereo_bp_ros.config import NodeConfig
from stereo_bp_ros.node.messages import PointCloudMessage
from test.cases import every
from test.node.test_messages import STAMP, result
from test.node.test_topics import send_infos

pytestmark = pytest.mark.ros

W, H, DISPARITY = 160, 120, 8
FOCAL, BASELINE = 500.0, 0.1        # as ``Client.info`` has them
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0,
              'correlation_window_size': 11}
USUAL = {'points_organized': True, 'points_decimation': 1, 'points_min_depth': 0.0,
         'points_max_depth': 0.0, 'reference_image': 'left', 'pre_adjust_disparity': True}


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
    for share, decimation in ((0.5, 1), (0.9, 1), (0.2, 1), (0.0, 1), (1.0, 2), (0.7, 2)):
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


@pytest.fixture(scope='module')
def pair(textured_pair: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    left, right = textured_pair(W, H, DISPARITY)
    return cv2.GaussianBlur(left, (0, 0), 1.5), cv2.GaussianBlur(right, (0, 0), 1.5)


@pytest.fixture
def subscriber(client: Any) -> Iterator[Any]:
    """The client while it subscribes to points; every test starts with the same parameters."""
    send_infos(client)
    client.subscribe('points2')
    with contextlib.ExitStack() as stack:
        stack.callback(client.set_parameters, **USUAL)
        stack.callback(client.unsubscribe, 'points2')
        yield client


def cloud_of(client: Any, images: tuple[np.ndarray, np.ndarray], encoding: str = 'mono8'
             ) -> tuple[Any, Any, np.ndarray]:
    """Send a pair; returns the cloud, the disparity's message and the depth in metres."""
    stamp = client.send_pair(*(client.image(image, encoding) for image in images))
    cloud, disparity, depth = (client.result(topic, stamp)
                               for topic in ('points2', 'disparity', 'depth'))
    return cloud, disparity, np.frombuffer(depth.data, '<f4').reshape(H, W)


def test_points_are_an_image_of_places_in_the_reference_cameras_frame(subscriber: Any, pair: Any
                                                                      ) -> None:
    cloud, disparity, depth = cloud_of(subscriber, pair)
    assert cloud.header == disparity.header
    assert cloud.header.frame_id == 'left_camera'
    assert (cloud.width, cloud.height, cloud.is_dense) == (W, H, False)
    points = points_of(cloud)
    assert np.array_equal(points[..., 2], depth, equal_nan=True)
    assert np.nanmedian(depth) == pytest.approx(FOCAL * BASELINE / DISPARITY)
    is_there = np.isfinite(depth)
    assert 0.5 < is_there.mean() < 1
    assert np.isnan(points[~is_there][:, :3]).all()
    # x to the right and y down of the principal point.
    row, column = np.mgrid[:H, :W]
    cy = subscriber.info('left', W, H).p[6]
    for axis, offset in ((0, column - 80.0), (1, row - cy)):
        np.testing.assert_allclose(points[is_there][:, axis], (offset * depth / FOCAL)[is_there],
                                   rtol=1e-6)
    assert np.array_equal(colours_of(points), pair[0] * np.uint32(0x10101))


def test_colours_are_those_of_the_reference_image(subscriber: Any, pair: Any) -> None:
    assert subscriber.set_parameters(reference_image='right')[0].successful
    colours = [np.stack([image, image // 2, 255 - image], -1) for image in pair]
    cloud, disparity, depth = cloud_of(subscriber, colours, 'bgr8')
    assert cloud.header == disparity.header
    assert cloud.header.frame_id == 'right_camera'
    points = points_of(cloud)
    blue, green, red = (colours[1][..., i].astype(np.uint32) for i in range(3))
    assert np.array_equal(colours_of(points), red << 16 | green << 8 | blue)
    assert np.array_equal(points[..., 2], depth, equal_nan=True)


def test_points_of_a_right_camera_in_the_left_ones_frame_are_in_that_frame(subscriber: Any,
                                                                            pair: Any) -> None:
    own = points_of_right(subscriber, pair, 'right_camera')
    lefts = points_of_right(subscriber, pair, 'left_camera')
    np.testing.assert_allclose(lefts[..., 0], own[..., 0] + BASELINE, atol=1e-6)
    assert np.array_equal(lefts[..., 1:], own[..., 1:], equal_nan=True)


def points_of_right(client: Any, pair: Any, frame_id: str) -> np.ndarray:
    """The points of the right image, whose camera_info names a frame."""
    assert client.set_parameters(reference_image='right')[0].successful
    send_infos(client, right={'header': Header(frame_id=frame_id)})
    for _ in range(50):
        cloud = cloud_of(client, pair)[0]
        if cloud.header.frame_id == frame_id:
            return points_of(cloud)
    raise AssertionError(f'the frame is {cloud.header.frame_id}')


def test_options_are_live(subscriber: Any, pair: Any) -> None:
    whole = points_of(cloud_of(subscriber, pair)[0])
    assert subscriber.set_parameters(points_decimation=3)[0].successful
    cloud = cloud_of(subscriber, pair)[0]
    assert (cloud.width, cloud.height) == (54, 40)
    assert np.array_equal(points_of(cloud), whole[::3, ::3], equal_nan=True)

    assert subscriber.set_parameters(points_organized=False)[0].successful
    cloud = cloud_of(subscriber, pair)[0]
    thinned = whole[::3, ::3]
    there = thinned[np.isfinite(thinned[..., 2])]
    assert (cloud.height, cloud.width, cloud.is_dense) == (1, len(there), True)
    assert np.array_equal(points_of(cloud)[0], there)

    assert every(answer.successful for answer in subscriber.set_parameters(
        points_decimation=1, points_organized=True, points_min_depth=6.24))
    near = points_of(cloud_of(subscriber, pair)[0])
    expected = whole.copy()
    expected[~(whole[..., 2] >= 6.24), :3] = np.nan
    assert np.isfinite(expected[..., 2]).any()
    assert np.array_equal(near, expected, equal_nan=True)
    answer, = subscriber.set_parameters(points_max_depth=1.0)
    assert not answer.successful
    assert 'points_min_depth (6.24)' in answer.reason


def test_cameras_that_are_verged_have_the_same_points_with_and_without_pre_adjustment(
        subscriber: Any, pair: Any) -> None:
    send_infos(subscriber, right={'cx': 84.0})
    found = []
    for adjusts in (True, False):
        assert subscriber.set_parameters(pre_adjust_disparity=adjusts)[0].successful
        cloud, _, depth = cloud_of(subscriber, pair)
        found.append(points_of(cloud))
        assert np.nanmedian(depth) == pytest.approx(FOCAL * BASELINE / (DISPARITY + 4))
        assert np.array_equal(found[-1][..., 2], depth, equal_nan=True)
    assert np.array_equal(*found, equal_nan=True)


def test_points_are_computed_for_their_subscribers_alone(subscriber: Any, pair: Any) -> None:
    def milliseconds(*, has_points: bool = True) -> float:
        stamp = subscriber.send_pair(*map(subscriber.image, pair))
        status, = subscriber.result('latency', stamp).status
        if has_points:
            subscriber.result('points2', stamp)
        return float({value.key: value.value for value in status.values}['points'])

    assert milliseconds() > 0
    received = len(subscriber.received['points2'])
    subscriber.unsubscribe('points2')
    assert milliseconds(has_points=False) == 0
    assert len(subscriber.received['points2']) == received
    subscriber.subscribe('points2')
    assert milliseconds() > 0
