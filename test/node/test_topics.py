"""What goes in and comes out over ROS: every field, every encoding, every stage's time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.geometry import valid_window
from stereo_bp_ros.images import ENCODINGS
from stereo_bp_ros.types import DERIVED

pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros

W, H, DISPARITY = 160, 120, 8
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0,
              'correlation_window_size': 11, 'backend': 'cpu'}


@pytest.fixture(scope='module')
def pair(textured_pair: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    left, right = textured_pair(W, H, DISPARITY)
    return cv2.GaussianBlur(left, (0, 0), 1.5), cv2.GaussianBlur(right, (0, 0), 1.5)


@pytest.fixture(autouse=True)
def usual_setting(client: Any) -> Iterator[None]:
    """Every test starts with the same parameters."""
    yield
    client.set_parameters(stereo_algorithm='sad', min_disparity=0, disparity_range=16,
                          reference_image='left', pre_adjust_disparity=True,
                          mono16_scale=0.00390625)


def match(client: Any, images: tuple[np.ndarray, np.ndarray], *arguments: Any, **fields: Any
          ) -> tuple[Any, np.ndarray]:
    """Publish a pair and return the DisparityImage that comes back, and its pixels."""
    message = client.match(*images, *arguments, frame_id='optical', **fields)
    return message, pixels_of(message.image)


def pixels_of(image: Any) -> np.ndarray:
    assert (image.encoding, image.is_bigendian) == ('32FC1', 0)
    assert image.step == 4 * image.width
    return np.frombuffer(image.data, '<f4').reshape(image.height, image.width)


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


def test_belief_propagation_has_its_own_valid_window(client: Any, pair: Any) -> None:
    assert client.set_parameters(stereo_algorithm='bp')[0].successful
    client.wait_for_algorithm('bp')
    message, pixels = match(client, pair)
    # x in [max(1, 15), min(159, 160)), y in [1, 119)
    assert window_of(message) == (15, 1, 144, 118)
    assert np.median(inside(message, pixels)) == pytest.approx(DISPARITY, abs=1 / 16)


def test_a_range_below_zero(client: Any, textured_pair: Any) -> None:
    assert client.set_parameters(atomically=True, min_disparity=-12,
                                 disparity_range=10)[0].successful
    message, pixels = match(client, textured_pair(W, H, -7))
    assert (message.min_disparity, message.max_disparity) == (-12.0, -3.0)
    # last = -3: x in [5, 160 - 5 - 12)
    assert window_of(message) == (5, 5, 138, 110)
    assert np.median(inside(message, pixels)) == -7
    assert np.min(pixels) == -13.0
    depth = pixels_of(client.result('depth', client.stamps()[-1]))
    assert np.all(np.isnan(depth))


def test_the_right_image_as_reference(client: Any, pair: Any) -> None:
    assert client.set_parameters(reference_image='right')[0].successful
    cameras = client.infos(W, H, right={'focal': 480.0})
    message, pixels = match(client, pair, cameras=cameras)
    assert message.header.frame_id == 'right_camera'
    assert client.result('depth', client.stamps()[-1]).header == message.header
    assert message.f == 480.0
    # mirrored: x in [160 - 155, 160 - 20)
    assert window_of(message) == (5, 5, 135, 110)
    assert np.median(inside(message, pixels)) == DISPARITY


@pytest.mark.parametrize('window', [
    {'stereo_algorithm': 'sad', 'min_disparity': 3, 'disparity_range': 33},
    {'stereo_algorithm': 'sad', 'reference_image': 'right', 'disparity_range': 500},
    {'stereo_algorithm': 'bp', 'min_disparity': -5, 'disparity_range': 16}])
def test_the_window_is_the_documented_one(client: Any, pair: Any, window: dict[str, Any]
                                          ) -> None:
    assert client.set_parameters(atomically=True, **window)[0].successful
    client.wait_for_algorithm(window['stereo_algorithm'])
    message, _ = match(client, pair)
    expected = valid_window(MatcherConfig(**window, correlation_window_size=11), W, H)
    assert window_of(message) == (expected.x_offset, expected.y_offset, expected.width,
                                  expected.height)


def test_binning_and_region_of_interest_scale_the_calibration(client: Any, pair: Any) -> None:
    # A sensor of 400 x 300, of which 320 x 240 from (40, 30) on are read with binning 2.
    roi = {'x_offset': 40, 'y_offset': 30, 'width': 320, 'height': 240}
    cameras = client.infos(400, 300, binning_x=2, binning_y=2, roi=roi, cx=200.0,
                           right={'cx': 210.0})
    message, pixels = match(client, pair, cameras=cameras)
    assert message.f == 250.0                       # P_r[0] / binning_x
    assert message.t == pytest.approx(0.1)          # not binned
    shift = (200.0 - 40) / 2 - (210.0 - 40) / 2     # cx_l - cx_r = -5
    assert (message.min_disparity, message.max_disparity) == (-shift, 15 - shift)
    assert np.median(inside(message, pixels)) == DISPARITY - shift
    depth = pixels_of(client.result('depth', client.stamps()[-1]))
    assert np.nanmedian(depth) == pytest.approx(250 * 0.1 / (DISPARITY - shift))


def image_geometry_depth(disparity: np.ndarray, focal: float, baseline: float, cx_left: float,
                         cx_right: float) -> np.ndarray:
    """Z of the reprojection matrix Q that image_geometry builds from a pair of camera_info."""
    tx = -baseline
    w = disparity * (-1 / tx) + (cx_left - cx_right) / tx
    return focal / w


def test_motorcycles_offset_of_the_principal_points(client: Any, pair: Any) -> None:
    """Middlebury's Motorcycle: cx_r - cx_l = 31.086."""
    focal, baseline, cx_left, cx_right = 3979.911, 0.193001, 80.0, 80.0 + 31.086
    truth = focal * baseline / (DISPARITY + 31.086)
    cameras = client.infos(W, H, focal=focal, baseline=baseline, left={'cx': cx_left},
                           right={'cx': cx_right})
    message, pixels = match(client, pair, cameras=cameras)
    assert np.median(inside(message, pixels)) == pytest.approx(DISPARITY + 31.086, abs=1e-4)
    assert message.min_disparity == pytest.approx(31.086, abs=1e-4)
    assert message.max_disparity == pytest.approx(46.086, abs=1e-4)
    invalid = pixels[0, 0]
    assert invalid == pytest.approx(message.min_disparity - 1, abs=1e-4)
    assert invalid < message.min_disparity
    depth = pixels_of(client.result('depth', client.stamps()[-1]))
    assert np.nanmedian(depth) == pytest.approx(truth, rel=1e-5)
    # The message says that the offset is in: who follows it is right, and image_geometry,
    # which subtracts it again, is not.
    assert message.f * message.t / np.median(inside(message, pixels)) == pytest.approx(
        truth, rel=1e-5)
    twice = np.median(image_geometry_depth(inside(message, pixels), focal, baseline, cx_left,
                                           cx_right))
    assert twice == pytest.approx(focal * baseline / (DISPARITY + 2 * 31.086), rel=1e-5)

    assert client.set_parameters(pre_adjust_disparity=False)[0].successful
    message, pixels = match(client, pair, cameras=cameras)
    assert (message.min_disparity, message.max_disparity) == (0.0, 15.0)
    assert np.median(inside(message, pixels)) == DISPARITY
    for_image_geometry = np.median(image_geometry_depth(
        inside(message, pixels), focal, baseline, cx_left, cx_right))
    assert for_image_geometry == pytest.approx(truth, rel=1e-5)
    depth = pixels_of(client.result('depth', client.stamps()[-1]))
    assert np.nanmedian(depth) == pytest.approx(truth, rel=1e-5)


def encode(grey: np.ndarray, encoding: str) -> np.ndarray:
    """The same scene in another encoding."""
    known = ENCODINGS[encoding]
    if known.bits == 16:
        return grey.astype('<u2') * 256
    if known.chroma_rows:
        return np.pad(grey, ((0, known.rows(len(grey)) - len(grey)), (0, 0)), mode='reflect')
    if known.luma >= 0:
        pixels = np.full((*grey.shape, 2), 128, np.uint8)
        pixels[..., known.luma] = grey
        return pixels
    if known.channels > 1:
        return np.repeat(grey[..., None], known.channels, axis=2)
    return grey


@pytest.mark.parametrize('encoding', sorted(ENCODINGS))
def test_every_encoding_with_padded_rows(client: Any, pair: Any, encoding: str) -> None:
    _, expected = match(client, pair)
    left, right = (encode(image, encoding) for image in pair)
    message, pixels = match(client, (left, right), encoding, padding=13, height=H)
    if ENCODINGS[encoding].bayer:       # demosaicing blurs
        assert np.median(inside(message, pixels)) == pytest.approx(DISPARITY, abs=0.2)
    else:
        assert np.array_equal(pixels, expected)


def test_sixteen_bits_of_either_byte_order_and_scale(client: Any, pair: Any) -> None:
    _, expected = match(client, pair)
    swapped = tuple((image.astype('<u2') * 256).byteswap() for image in pair)
    _, pixels = match(client, swapped, 'mono16', padding=6, is_bigendian=1)
    assert np.array_equal(pixels, expected)
    assert client.set_parameters(mono16_scale=1 / 16)[0].successful
    _, pixels = match(client, tuple(image.astype('<u2') * 16 for image in pair), 'mono16')
    assert np.array_equal(pixels, expected)


def test_the_stages_add_up_to_the_total_of_every_frame(client: Any, pair: Any) -> None:
    for _ in range(5):
        match(client, pair)
    frames = client.stamps()[-5:]
    for message in [client.result('latency', stamp) for stamp in frames]:
        status, = message.status
        values = {v.key: float(v.value) for v in status.values}
        total, age = values.pop('total'), values.pop('age')
        assert list(values) == ['receive', 'pair', 'wait', 'convert', 'upload', 'preprocess',
                                'cost', 'messages', 'refine', *DERIVED, 'download', 'publish']
        assert abs(sum(values.values()) - total) <= max(0.05 * total, 0.2)
        assert values['upload'] == values['download'] == 0.0
        assert age >= total
        assert message.header.stamp.sec
    assert client.stamps('latency')[-5:] == frames


def test_latency_as_numbers_has_what_the_latency_of_the_same_frame_has(client: Any, pair: Any
                                                                       ) -> None:
    from std_msgs.msg import Float64MultiArray

    heard: list[Any] = []
    subscription = client.node.create_subscription(Float64MultiArray, 'latency_ms', heard.append,
                                                   100)
    client.wait_until(lambda: client.node.count_publishers('latency_ms'), what='latency_ms')
    client.wait_until_known()
    match(client, pair)
    stamp = client.stamps()[-1]
    status, = client.result('latency', stamp).status
    client.wait_until(lambda: heard, what='latency_ms')
    client.node.destroy_subscription(subscription)
    numbers, = heard
    names = numbers.layout.dim[0].label.split(',')
    assert dict(zip(names, numbers.data, strict=True)) == pytest.approx(
        {v.key: float(v.value) for v in status.values}, abs=0.0006)


def test_the_device_status_names_back_end_reason_threads_and_memory(client: Any, pair: Any
                                                                    ) -> None:
    match(client, pair)
    status = client.status('device')
    assert (status.level, status.message) == (0, 'active on cpu')
    assert status.values['size'] == f'{W} x {H}'
    assert status.values['why']
    assert int(status.values['threads']) >= 1
    assert status.values['memory'].endswith('MiB')


def test_what_nobody_subscribes_to_is_not_computed(client: Any, pair: Any) -> None:
    for topic in ('disparity', 'depth'):
        client.unsubscribe(topic)
    try:
        before = client.settled()
        client.send_frame(*pair)
        dropped = 'dropped pairs: no subscribers'
        client.wait_until(lambda: client.counts()[dropped] == before[dropped] + 1)
        after = client.settled()
        assert after['published'] == before['published']
        assert client.status('pairing').message == 'idle: no subscribers'
        assert client.status('pairing').level == 0
    finally:
        for topic in ('disparity', 'depth'):
            client.subscribe(topic)
    match(client, pair)


def test_one_output_alone_is_published_alone(client: Any, pair: Any) -> None:
    client.unsubscribe('disparity')
    try:
        seen = len(client.received['disparity'])
        depth = client.result('depth', client.send_frame(*pair))
        assert np.nanmedian(pixels_of(depth)) == pytest.approx(50 / DISPARITY)
        assert len(client.received['disparity']) == seen
    finally:
        client.subscribe('disparity')


def test_a_second_node_takes_compressed_images(start: Any, pair: Any) -> None:
    client = start({**PARAMETERS, 'image_transport': 'compressed', 'max_image_width': 200},
                   client={'compressed': True})
    for side in ('left', 'right'):
        client.send_info(side, client.info(side, W, H))

    def message(pixels: np.ndarray) -> Any:
        result = client.image_class()
        result.format = 'mono8; png compressed '
        result.data.frombytes(cv2.imencode('.png', pixels)[1].tobytes())
        return result

    left, right = (message(image) for image in pair)
    broken = message(pair[0])
    broken.data = broken.data[:100]
    large = message(np.zeros((10, 201), np.uint8))
    for bad, reason in ((broken, 'bad compression'), (large, 'too large')):
        client.send_pair(bad, right)
        client.wait_for_status('input', lambda s, key=f'bad input: {reason}':
                               s.values.get(key) == '1')
        found = client.result('disparity', client.send_pair(left, right))
        assert np.median(inside(found, pixels_of(found.image))) == DISPARITY
