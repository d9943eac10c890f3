"""Pictures over ROS: depth with its camera_info, confidence, colors, compressed ones, points."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')

from std_msgs.msg import Header

from test.cases import every
from test.node.test_messages import colours_of, decoded_color, decoded_depth, points_of

pytestmark = pytest.mark.ros

W, H, DISPARITY = 160, 120, 8
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0,
              'correlation_window_size': 11, 'compressed_format': 'png'}
FOCAL, BASELINE = 500.0, 0.1        # as ``Client.info`` has them
USUAL = {'points_organized': True, 'points_decimation': 1, 'points_min_depth': 0.0,
         'points_max_depth': 0.0, 'reference_image': 'left', 'pre_adjust_disparity': True}
TOPICS = ('depth', 'depth/image_rect', 'depth/camera_info', 'depth/image_rect/compressedDepth',
          'confidence', 'disparity_color', 'disparity_color/compressed')


#: A node that compresses the first picture for ever, in C++ nearly all of the time.
SLOW_NODE = """
import sys
import cv2, numpy
from stereo_bp_ros.node import main, publishing
name, picture = 'disparity_color/compressed', numpy.zeros((4000, 4000, 3), numpy.uint8)
def compress(*_):
    while True:
        cv2.imencode('.png', picture, [cv2.IMWRITE_PNG_COMPRESSION, 9])
publishing.TOPICS[name] = publishing.TOPICS[name]._replace(compress=compress)
sys.exit(main.main())
"""


@pytest.fixture(scope='module')
def pair(textured_pair: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    left, right = textured_pair(W, H, DISPARITY)
    return cv2.GaussianBlur(left, (0, 0), 1.5), cv2.GaussianBlur(right, (0, 0), 1.5)


@pytest.fixture
def connected(client: Any) -> Iterator[Any]:
    """With a subscription of every picture."""
    with subscribed(client):
        yield client


@pytest.fixture
def subscriber(client: Any) -> Iterator[Any]:
    """With a subscription of points; every test starts with the same parameters."""
    client.subscribe('points2')
    yield client
    client.unsubscribe('points2')
    client.set_parameters(**USUAL)


@contextlib.contextmanager
def subscribed(client: Any) -> Iterator[None]:
    """A subscription of every picture."""
    topics = [topic for topic in TOPICS if topic not in client.subscriptions]
    for topic in topics:
        client.subscribe(topic)
    yield
    for topic in topics:
        client.unsubscribe(topic)


def match(client: Any, pair: Any) -> tuple[int, np.ndarray]:
    """The stamp of a pair that is sent, and its disparities; NaN = invalid."""
    stamp = client.send_frame(*pair, frame_id='optical')
    message = client.result('disparity', stamp)
    pixels = np.frombuffer(message.image.data, '<f4').reshape(H, W)
    valid = pixels >= message.min_disparity
    assert np.median(pixels[valid]) == DISPARITY
    return stamp, np.where(valid, pixels, np.nan)


def pixels_of(image: Any, encoding: str, dtype: str, channels: int = 1) -> np.ndarray:
    assert (image.encoding, image.width, image.height) == (encoding, W, H)
    assert image.step == W * channels * np.dtype(dtype).itemsize
    assert image.is_bigendian == 0
    shape = (H, W, channels) if channels > 1 else (H, W)
    return np.frombuffer(image.data, dtype).reshape(shape)


def metres(disparity: np.ndarray) -> np.ndarray:
    return np.where(disparity > 0, FOCAL * BASELINE / disparity, np.nan).astype(np.float32)


def colored(disparity: np.ndarray, name: int, last: int) -> np.ndarray:
    places = np.clip(np.floor(255 * np.nan_to_num(disparity) / last + 0.5), 0, 255)
    return np.where(np.isnan(disparity)[..., None], 0,
                    cv2.applyColorMap(places.astype(np.uint8), name))


def test_every_picture_has_the_stamp_and_the_frame_of_the_disparity(connected: Any, pair: Any
                                                                    ) -> None:
    stamp, _ = match(connected, pair)
    header = connected.result('disparity', stamp).header
    assert header.frame_id == 'left_camera'
    for topic in TOPICS:
        assert connected.result(topic, stamp).header == header, topic


def test_depth_is_published_with_its_camera_info(connected: Any, pair: Any) -> None:
    stamp, disparity = match(connected, pair)
    depth = connected.result('depth/image_rect', stamp)
    np.testing.assert_allclose(pixels_of(depth, '32FC1', '<f4'), metres(disparity), rtol=1e-6)
    assert depth == connected.result('depth', stamp)
    info = connected.result('depth/camera_info', stamp)
    sent = connected.info('left', W, H, focal=FOCAL, baseline=BASELINE)
    assert (info.width, info.height) == (W, H)
    assert np.array_equal(info.p, sent.p)


def test_depth_of_the_right_camera_has_a_camera_info_without_a_translation(
        connected: Any, pair: Any) -> None:
    assert connected.set_parameters(reference_image='right')[0].successful
    try:
        stamp, _ = match(connected, pair)
        info = connected.result('depth/camera_info', stamp)
    finally:
        connected.set_parameters(reference_image='left')
    assert info.header == connected.result('depth/image_rect', stamp).header
    assert info.header.frame_id == 'right_camera'
    assert (info.p[0], info.p[3]) == (FOCAL, 0.0)


def test_confidence_is_0_where_there_is_no_disparity_and_at_most_1(connected: Any, pair: Any
                                                                   ) -> None:
    stamp, disparity = match(connected, pair)
    confidence = pixels_of(connected.result('confidence', stamp), '32FC1', '<f4')
    assert np.all(confidence[np.isnan(disparity)] == 0)
    assert np.all((confidence >= 0) & (confidence <= 1))
    assert np.median(confidence[~np.isnan(disparity)]) > 0.1


def test_colors_are_those_of_the_disparity_and_can_be_changed_live(connected: Any, pair: Any
                                                                   ) -> None:
    stamp, disparity = match(connected, pair)
    picture = pixels_of(connected.result('disparity_color', stamp), 'bgr8', 'u1', 3)
    np.testing.assert_array_equal(picture, colored(disparity, cv2.COLORMAP_TURBO, 15))
    assert every(result.successful for result in connected.set_parameters(
        color_map='jet', color_range=9))
    try:
        stamp, disparity = match(connected, pair)
        picture = pixels_of(connected.result('disparity_color', stamp), 'bgr8', 'u1', 3)
    finally:
        connected.set_parameters(color_map='turbo', color_range=0)
    np.testing.assert_array_equal(picture, colored(disparity, cv2.COLORMAP_JET, 9))


def test_compressed_pictures_are_the_others(connected: Any, pair: Any) -> None:
    stamp, _ = match(connected, pair)
    compressed = connected.result('disparity_color/compressed', stamp)
    assert compressed.format == 'bgr8; png compressed bgr8'
    np.testing.assert_array_equal(
        decoded_color(compressed),
        pixels_of(connected.result('disparity_color', stamp), 'bgr8', 'u1', 3))
    compressed = connected.result('depth/image_rect/compressedDepth', stamp)
    np.testing.assert_allclose(decoded_depth(compressed), pixels_of(
        connected.result('depth', stamp), '32FC1', '<f4'), rtol=1e-6)


def test_the_compression_can_be_changed_live(connected: Any, pair: Any) -> None:
    assert connected.set_parameters(compressed_format='jpeg')[0].successful
    try:
        stamp, _ = match(connected, pair)
        compressed = connected.result('disparity_color/compressed', stamp)
    finally:
        connected.set_parameters(compressed_format='png')
    assert compressed.format == 'bgr8; jpeg compressed bgr8'
    assert bytes(compressed.data[:2]) == b'\xff\xd8'


def test_a_node_publishes_millimetres_on_request(start: Any, pair: Any) -> None:
    client = start({**PARAMETERS, 'depth_encoding': '16UC1'})
    with subscribed(client):
        stamp, disparity = match(client, pair)
        expected = np.nan_to_num(np.floor(1000 * metres(disparity).astype(float) + 0.5))
        for topic in ('depth', 'depth/image_rect'):
            found = pixels_of(client.result(topic, stamp), '16UC1', '<u2')
            assert np.abs(found - expected).max() <= 1      # of float32's rounding
        compressed = client.result('depth/image_rect/compressedDepth', stamp)
        assert compressed.format == '16UC1; compressedDepth png'
        np.testing.assert_array_equal(decoded_depth(compressed), found)


def test_compression_that_does_not_end_delays_neither_results_nor_the_end_of_the_node(
        start: Any, pair: Any) -> None:
    client = start(PARAMETERS, code=SLOW_NODE)
    with subscribed(client):
        for _ in range(5):
            stamp, _ = match(client, pair)
            client.result('disparity_color', stamp)
    assert client.node_process.end() == 0
    assert 'Traceback' not in client.log()


# Points

def cloud_of(client: Any, images: Any, *arguments: Any, **options: Any
             ) -> tuple[Any, Any, np.ndarray]:
    """Send a pair; returns the cloud, the disparity's message and the depth in metres."""
    stamp = client.send_frame(*images, *arguments, **options)
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
    assert subscriber.set_parameters(reference_image='right')[0].successful
    own = points_of_right(subscriber, pair, 'right_camera')
    lefts = points_of_right(subscriber, pair, 'left_camera')
    np.testing.assert_allclose(lefts[..., 0], own[..., 0] + BASELINE, atol=1e-6)
    assert np.array_equal(lefts[..., 1:], own[..., 1:], equal_nan=True)


def points_of_right(client: Any, pair: Any, frame_id: str) -> np.ndarray:
    """The points of the right image, whose camera_info names a frame."""
    cameras = client.infos(W, H, right={'header': Header(frame_id=frame_id)})
    cloud = cloud_of(client, pair, cameras=cameras)[0]
    assert cloud.header.frame_id == frame_id
    return points_of(cloud)


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


def test_points_are_computed_for_their_subscribers_alone(subscriber: Any, pair: Any) -> None:
    def milliseconds(*, has_points: bool = True) -> float:
        stamp = subscriber.send_frame(*pair)
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
