"""What goes in and comes out over ROS: every field, every encoding, every stage's time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')

from std_msgs.msg import Header

from test.cases import every
from test.node.client import stamp_of
from test.node.test_messages import colours_of, points_of
from test.other_nodes import pixels as pixels_of

pytestmark = pytest.mark.ros

W, H, DISPARITY = 160, 120, 8
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0,
              'correlation_window_size': 11, 'backend': 'cpu'}
FOCAL, BASELINE = 500.0, 0.1        # as ``Client.info`` has them
USUAL = {'points_organized': True, 'points_decimation': 1, 'points_min_depth': 0.0,
         'reference_image': 'left', 'color_map': 'turbo',
         'mono16_scale': 0.00390625, 'min_depth': 0.0,
         'disparity_range': 16}
TOPICS = ('depth', 'depth/image_rect', 'depth/camera_info', 'confidence', 'disparity_color',
          'points2')


@pytest.fixture(scope='module')
def pair(textured_pair: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    left, right = textured_pair(W, H, DISPARITY)
    return cv2.GaussianBlur(left, (0, 0), 1.5), cv2.GaussianBlur(right, (0, 0), 1.5)


@pytest.fixture(autouse=True)
def usual_setting(client: Any) -> Iterator[None]:
    """Every test starts with the same parameters."""
    yield
    client.set_parameters(**USUAL)


def match(client: Any, images: Sequence[np.ndarray], *arguments: Any, **fields: Any
          ) -> tuple[Any, np.ndarray]:
    """Publish a pair and return the DisparityImage that comes back, and its pixels."""
    message = client.match(*images, *arguments, frame_id='optical', **fields)
    return message, pixels_of(message.image)


def valid(message: Any) -> np.ndarray:
    """The disparities of a message; NaN = invalid."""
    pixels = pixels_of(message.image)
    disparities = np.where(pixels >= message.min_disparity, pixels, np.float32(np.nan))
    assert np.nanmedian(disparities) == DISPARITY
    return disparities


def window_of(message: Any) -> tuple[int, int, int, int]:
    window = message.valid_window
    return window.x_offset, window.y_offset, window.width, window.height


def inside(message: Any, pixels: np.ndarray) -> np.ndarray:
    x, y, width, height = window_of(message)
    return pixels[y:y + height, x:x + width]


def test_every_field_of_the_disparity_image(client: Any, pair: Any) -> None:
    stamp = client.send_frame(*pair, frame_id='optical')
    message = client.result('disparity', stamp)
    assert message.header == message.image.header
    assert message.header.frame_id == 'left_camera'
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == divmod(stamp, 10**9)
    assert (message.image.width, message.image.height) == (W, H)
    assert message.f == 500.0
    assert message.t == pytest.approx(0.1)
    assert (message.min_disparity, message.max_disparity) == (0.0, 15.0)
    assert message.delta_d == 1 / 16
    # SAD, window 11: x in [5 + 15, 160 - 5), y in [5, 115)
    assert window_of(message) == (20, 5, 135, 110)
    pixels = pixels_of(message.image)
    assert np.median(inside(message, pixels)) == DISPARITY
    outside = np.ones((H, W), bool)
    outside[5:115, 20:155] = False
    assert np.all(pixels[outside] == -1.0)
    assert np.all(np.isfinite(pixels))


@pytest.mark.parametrize('is_first', [True, False])
def test_camera_infos_that_are_published_once_are_received_and_not_missed_later(
        client: Any, pair: Any, is_first: bool) -> None:
    from rclpy.qos import DurabilityPolicy, QoSProfile
    if is_first:            # before the node is there
        client.set_state('unconfigured')
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    publishers = [client.node.create_publisher(client.info_class, f'{side}/camera_info', latched)
                  for side in ('left', 'right')]
    try:
        if not is_first:
            client.wait_until(lambda: all(one.get_subscription_count() for one in publishers),
                              what='the subscriptions to camera_info')
        for publisher, info in zip(publishers, client.infos(W, H).values(), strict=True):
            publisher.publish(info)
        client.set_state('active')
        client.connect()

        def answered() -> Any:
            stamp = client.now_ns()
            for side, pixels in zip(('left', 'right'), pair, strict=True):
                client.send_image(side, client.image(pixels), stamp)
            with contextlib.suppress(AssertionError):
                return client.result('disparity', stamp, 1.0)
        message = client.wait_until(answered)
        assert (message.f, message.t) == (500.0, pytest.approx(0.1))
        client.wait_for_status('input', lambda status: 'image_rect' in status.message)
        for _ in range(2):
            assert 'camera_info' not in client.status('input').message
    finally:
        for publisher in publishers:
            client.node.destroy_publisher(publisher)


def test_encodings_with_padded_rows_and_either_byte_order(client: Any, pair: Any) -> None:
    _, expected = match(client, pair)
    words = [image.astype('<u2') * 256 for image in pair]
    colours = [np.repeat(image[..., None], 3, axis=2) for image in pair]
    for images, encoding, fields in (
            (words, 'mono16', {}), ([image.byteswap() for image in words], 'mono16',
                                    {'is_bigendian': 1}), (colours, 'bgr8', {})):
        _, pixels = match(client, images, encoding, padding=13, **fields)
        assert np.array_equal(pixels, expected)
    message, pixels = match(client, pair, 'bayer_rggb8')       # demosaicing blurs
    assert np.median(inside(message, pixels)) == pytest.approx(DISPARITY, abs=0.2)
    assert client.set_parameters(mono16_scale=1 / 16)[0].successful
    _, pixels = match(client, [image.astype('<u2') * 16 for image in pair], 'mono16')
    assert np.array_equal(pixels, expected)


def test_a_node_searches_as_far_as_min_depth_is_with_every_calibration_and_parameter(
        client: Any, pair: Any) -> None:
    def search_of(baseline: float) -> float:
        message, _ = match(client, pair, cameras=client.infos(W, H, baseline=baseline))
        assert message.t == pytest.approx(baseline)
        return float(message.max_disparity)

    assert client.set_parameters(True, min_depth=2.0, disparity_range=8)[0].successful
    # 500 px x B over 2 m, and whole chunks of 8 labels.
    client.wait_until(lambda: search_of(0.06) == 15, what='the search')
    engines = client.log().count('ready for 160 x 120')
    assert search_of(0.055) == 15
    assert search_of(0.1) == 31
    assert client.log().count('ready for 160 x 120') == engines + 1     # the same needs no new one
    client.wait_for_status('device', lambda status: status.values['disparities']
                           == '0 to 31: as far as min_depth 2 m')
    result, = client.set_parameters(min_depth=0.05)
    assert not result.successful
    assert 'set it to at least 0.098' in result.reason
    assert client.set_parameters(min_depth=1.0)[0].successful
    client.wait_until(lambda: search_of(0.1) == 55, what='the search')


def test_latencies_and_the_status_of_the_device_are_those_of_every_frame(client: Any, pair: Any
                                                                         ) -> None:
    from std_msgs.msg import Float64MultiArray

    numbers: list[Any] = []
    subscription = client.node.create_subscription(Float64MultiArray, 'latency_ms', numbers.append,
                                                   100)
    client.wait_until(lambda: client.node.count_publishers('latency_ms'), what='latency_ms')
    client.wait_until_known()
    for _ in range(5):
        match(client, pair)
    messages = [client.result('latency', stamp) for stamp in client.stamps()[-5:]]
    client.wait_until(lambda: len(numbers) == 5, what='latency_ms')
    client.node.destroy_subscription(subscription)
    for message, array in zip(messages, numbers, strict=True):
        status, = message.status
        values = {v.key: float(v.value) for v in status.values}
        names = array.layout.dim[0].label.split(',')
        assert dict(zip(names, array.data, strict=True)) == pytest.approx(values, abs=0.0006)
        total, age = values.pop('total'), values.pop('age')
        assert abs(sum(values.values()) - total) <= max(0.05 * total, 0.2)
        assert values['upload'] == values['download'] == 0.0
        assert age >= total
    status = client.status('device')
    assert (status.level, status.message) == (0, 'active on cpu')
    assert status.values['size'] == f'{W} x {H}'
    assert status.values['why']
    assert int(status.values['threads']) >= 1
    assert status.values['memory'].endswith('MiB')


def test_what_nobody_subscribes_to_is_neither_computed_nor_published(client: Any, pair: Any
                                                                     ) -> None:
    client.unsubscribe('disparity')
    try:
        seen = len(client.received['disparity'])
        depth = client.result('depth', client.send_frame(*pair))
        assert np.nanmedian(pixels_of(depth)) == pytest.approx(50 / DISPARITY)
        assert len(client.received['disparity']) == seen
        client.unsubscribe('depth')
        before = client.settled()
        client.send_frame(*pair)
        dropped = 'dropped pairs: no subscribers'
        client.wait_until(lambda: client.counts()[dropped] == before[dropped] + 1)
        assert client.settled()['published'] == before['published']
        status = client.status('pairing')
        assert (status.level, status.message) == (0, 'idle: no subscribers')
    finally:
        for topic in {'disparity', 'depth'} - client.subscriptions.keys():
            client.subscribe(topic)
    match(client, pair)


# Pictures

@pytest.fixture(scope='module')
def connected(client: Any) -> Any:
    """With a subscription of every picture and of the points."""
    for topic in set(TOPICS) - client.subscriptions.keys():
        client.subscribe(topic)
    return client


def metres(disparity: np.ndarray) -> np.ndarray:
    return np.where(disparity > 0, FOCAL * BASELINE / disparity, np.nan).astype(np.float32)


def colored(disparity: np.ndarray, name: int, last: int) -> np.ndarray:
    places = np.clip(np.floor(255 * np.nan_to_num(disparity) / last + 0.5), 0, 255)
    return np.where(np.isnan(disparity)[..., None], 0,
                    cv2.applyColorMap(places.astype(np.uint8), name))


def test_every_picture_has_the_stamp_and_the_frame_of_the_disparity(connected: Any, pair: Any
                                                                    ) -> None:
    message, _ = match(connected, pair)
    header, stamp, disparity = message.header, stamp_of(message), valid(message)
    assert header.frame_id == 'left_camera'
    for topic in TOPICS:
        assert connected.result(topic, stamp).header == header, topic
    depth = connected.result('depth/image_rect', stamp)
    np.testing.assert_allclose(pixels_of(depth), metres(disparity), rtol=1e-6)
    assert depth == connected.result('depth', stamp)
    info = connected.result('depth/camera_info', stamp)
    sent = connected.info('left', W, H, focal=FOCAL, baseline=BASELINE)
    assert (info.width, info.height) == (W, H)
    assert np.array_equal(info.p, sent.p)
    confidence = pixels_of(connected.result('confidence', stamp))
    assert np.all(confidence[np.isnan(disparity)] == 0)
    assert np.all((confidence >= 0) & (confidence <= 1))
    assert np.median(confidence[~np.isnan(disparity)]) > 0.1


def test_the_pictures_of_the_right_camera_are_in_its_frame(connected: Any, pair: Any) -> None:
    assert connected.set_parameters(reference_image='right')[0].successful
    colours = [np.stack([image, image // 2, 255 - image], -1) for image in pair]
    cameras = connected.infos(W, H, right={'focal': 480.0})
    message, pixels = match(connected, colours, 'bgr8', cameras=cameras)
    assert message.f == 480.0
    assert window_of(message) == (5, 5, 135, 110)       # mirrored
    assert np.median(inside(message, pixels)) == DISPARITY
    stamp = stamp_of(message)
    info = connected.result('depth/camera_info', stamp)
    assert info.header == connected.result('depth/image_rect', stamp).header
    assert info.header.frame_id == 'right_camera'
    assert (info.p[0], info.p[3]) == (480.0, 0.0)
    blue, green, red = (colours[1][..., i].astype(np.uint32) for i in range(3))
    own = points_of(connected.result('points2', stamp))
    assert np.array_equal(colours_of(own), red << 16 | green << 8 | blue)
    # In the frame of the left camera, where camera_info says so.
    cameras['right'].header = Header(frame_id='left_camera')
    stamp = stamp_of(match(connected, colours, 'bgr8', cameras=cameras)[0])
    cloud = connected.result('points2', stamp)
    assert cloud.header.frame_id == 'left_camera'
    np.testing.assert_allclose(points_of(cloud)[..., 0], own[..., 0] + BASELINE, atol=1e-6)


def test_colors_are_those_of_the_map_and_can_be_changed_live(connected: Any, pair: Any) -> None:
    for name, last, parameters in (
            (cv2.COLORMAP_TURBO, 15, {}), (cv2.COLORMAP_JET, 15, {'color_map': 'jet'})):
        assert every(result.successful for result in connected.set_parameters(
            **{**USUAL, **parameters}))
        message, _ = match(connected, pair)
        picture = pixels_of(connected.result('disparity_color', stamp_of(message)))
        np.testing.assert_array_equal(picture, colored(valid(message), name, last))


def test_points_are_an_image_of_places_and_their_options_are_live(connected: Any, pair: Any
                                                                  ) -> None:
    def cloud_of_a_frame(**parameters: Any) -> Any:
        assert every(answer.successful for answer in connected.set_parameters(**parameters))
        return connected.result('points2', stamp_of(match(connected, pair)[0]))

    cloud = cloud_of_a_frame(points_organized=True)
    depth = connected.received['depth'][-1]
    assert (cloud.width, cloud.height, cloud.is_dense) == (W, H, False)
    whole = points_of(cloud)
    z = pixels_of(depth)
    assert np.array_equal(whole[..., 2], z, equal_nan=True)
    # x to the right and y down of the principal point.
    row, column = np.mgrid[:H, :W]
    cy = connected.info('left', W, H).p[6]
    for axis, offset in ((0, column - 80.0), (1, row - cy)):
        np.testing.assert_allclose(whole[..., axis], offset * z / FOCAL, rtol=1e-6)
    assert np.array_equal(colours_of(whole), pair[0] * np.uint32(0x10101))

    cloud = cloud_of_a_frame(points_decimation=3)
    assert (cloud.width, cloud.height) == (54, 40)
    assert np.array_equal(points_of(cloud), whole[::3, ::3], equal_nan=True)
    cloud = cloud_of_a_frame(points_organized=False)
    there = whole[::3, ::3][np.isfinite(whole[::3, ::3, 2])]
    assert (cloud.height, cloud.width, cloud.is_dense) == (1, len(there), True)
    assert np.array_equal(points_of(cloud)[0], there)
    near = points_of(cloud_of_a_frame(points_decimation=1, points_organized=True,
                                      points_min_depth=6.24))
    expected = whole.copy()
    expected[~(whole[..., 2] >= 6.24), :3] = np.nan
    assert np.isfinite(expected[..., 2]).any()
    assert np.array_equal(near, expected, equal_nan=True)
    answer, = connected.set_parameters(points_max_depth=1.0)
    assert not answer.successful
    assert 'points_min_depth (6.24)' in answer.reason


def test_a_second_node_takes_compressed_images_and_publishes_millimetres(start: Any, pair: Any
                                                                         ) -> None:
    client = start({**PARAMETERS, 'image_transport': 'compressed', 'max_image_width': 200,
                    'depth_encoding': '16UC1'}, client={'compressed': True})
    for side in ('left', 'right'):
        client.send_info(side, client.info(side, W, H))

    def message(pixels: np.ndarray) -> Any:
        image = client.image_class()
        image.format = 'mono8; png compressed '
        image.data.frombytes(cv2.imencode('.png', pixels)[1].tobytes())
        return image

    left, right = (message(image) for image in pair)
    broken = message(pair[0])
    broken.data = broken.data[:100]
    large = message(np.zeros((10, 201), np.uint8))
    for bad, reason in ((broken, 'bad compression'), (large, 'too large')):
        client.send_pair(bad, right)
        client.wait_for_status('input', lambda s, key=f'bad input: {reason}':
                               s.values.get(key) == '1')
        stamp = client.send_pair(left, right)
        disparity = client.result('disparity', stamp)
        assert np.median(inside(disparity, pixels_of(disparity.image))) == DISPARITY
        depth = client.result('depth', stamp)
        assert depth.encoding == '16UC1'
        pixels = np.frombuffer(depth.data, '<u2').reshape(H, W)
        assert np.median(pixels[pixels > 0]) == 50_000 / DISPARITY
