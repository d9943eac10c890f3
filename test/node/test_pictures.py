"""Pictures over ROS: depth with its camera_info, confidence, colors, and compressed ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')

from test.cases import every
from test.node.test_compression import decoded_color, decoded_depth

pytestmark = pytest.mark.ros

W, H, DISPARITY = 160, 120, 8
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0,
              'correlation_window_size': 11, 'compressed_format': 'png'}
FOCAL, BASELINE = 500.0, 0.1
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


@contextlib.contextmanager
def subscribed(client: Any) -> Iterator[None]:
    """Calibrations that are in force, and a subscription of every picture."""
    client.send_infos({side: client.info(side, W, H, focal=FOCAL, baseline=BASELINE)
                       for side in ('left', 'right')})
    topics = [topic for topic in TOPICS if topic not in client.subscriptions]
    for topic in topics:
        client.subscribe(topic)
    yield
    for topic in topics:
        client.unsubscribe(topic)


def match(client: Any, pair: Any) -> tuple[int, np.ndarray]:
    """The stamp of a pair that is sent, and its disparities; NaN = invalid."""
    stamp = client.send_pair(*(client.image(image, frame_id='optical') for image in pair))
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
