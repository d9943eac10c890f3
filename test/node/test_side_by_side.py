"""Side-by-side cameras: one image topic, from which a node makes what it makes of two."""

from __future__ import annotations

import array
import contextlib
import pathlib
import types
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, Rectification, StereoMatcher
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.engines.cuda.stages.convert import stage
from stereo_bp_ros.errors import InputError
from stereo_bp_ros.images import encoded_images
from stereo_bp_ros.images.side_by_side import LAYOUTS
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node import input_images
from stereo_bp_ros.node.diagnostics.ledger import PairDrop
from test.cases import slow
from test.core.test_side_by_side import joined
from test.node.stand_ins import NOW, Bench, make_image, make_info, make_stamped
from test.raw_cameras import (
    BASELINE,
    FOCAL,
    HEIGHT,
    WIDTH,
    camera_info,
    raw_image,
    scene,
    write_ros,
)

pytestmark = pytest.mark.ros

PAIR = np.random.default_rng(4).integers(0, 256, (2, 24, 32)).astype(np.uint8)


def halves_of(message: Any, layout: str, **limits: int) -> tuple[Any, Any]:
    return input_images.images_of_pair(message, message, MatcherConfig(**limits),
                                       NodeConfig(side_by_side=layout))


def compressed(pixels: np.ndarray) -> types.SimpleNamespace:
    done, data = cv2.imencode('.png', pixels)
    assert done
    return make_stamped(NOW, data=data.tobytes(), format='png')


def test_the_setting_has_every_layout_and_off() -> None:
    setting = NodeConfig.settings()['side_by_side']
    assert setting.choices == ('off', *LAYOUTS)
    assert not NodeConfig(side_by_side=False).is_side_by_side       # YAML's off


@pytest.mark.parametrize('layout', LAYOUTS)
def test_the_images_of_both_cameras_are_views_of_the_bytes_of_the_message(layout: str) -> None:
    pixels = joined(layout, *PAIR)
    message = make_image(NOW, pixels)
    for half, camera in zip(halves_of(message, layout), PAIR, strict=True):
        np.testing.assert_array_equal(half.pixels, camera)
        assert np.shares_memory(half.pixels, np.frombuffer(message.data, np.uint8))
        # The one copy of the way to a GPU: without the other half.
        staging = np.zeros(camera.size, np.uint8)
        stage(half, staging)
        np.testing.assert_array_equal(staging, camera.reshape(-1))


@pytest.mark.parametrize('layout', LAYOUTS)
def test_a_compressed_image_is_decoded_once_and_then_split(
        layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = encoded_images.decode
    monkeypatch.setattr(encoded_images, 'decode',
                        lambda *given: (decoded.append(1), decode(*given))[1])
    halves = halves_of(compressed(joined(layout, *PAIR)), layout)
    for half, camera in zip(halves, PAIR, strict=True):
        np.testing.assert_array_equal(half.pixels, camera)
    assert decoded == [1]


def test_an_image_of_a_foreign_encoding_is_converted_and_then_split(
        monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = joined('left_right', *PAIR)
    bridge = types.SimpleNamespace(imgmsg_to_cv2=lambda message, desired_encoding: pixels)
    monkeypatch.setattr(input_images, 'cv_bridge', lambda: bridge)
    message = make_image(NOW, pixels)
    message.encoding = 'rgb9'
    for half, camera in zip(halves_of(message, 'left_right'), PAIR, strict=True):
        np.testing.assert_array_equal(half.pixels, camera)


@pytest.mark.parametrize('make', [lambda pixels: make_image(NOW, pixels), compressed])
@pytest.mark.parametrize('layout', LAYOUTS)
def test_the_limits_of_an_image_hold_for_that_of_one_camera(
        layout: str, make: Callable[[np.ndarray], Any]) -> None:
    message = make(joined(layout, *PAIR))
    left, _ = halves_of(message, layout, max_image_width=32, max_image_height=24)
    assert (left.width, left.height) == (32, 24)
    for limits in ({'max_image_width': 31}, {'max_image_height': 23}):
        with pytest.raises(InputError, match='32 x 24') as caught:
            halves_of(message, layout, **limits)
        assert caught.value.code is IssueCode.TOO_LARGE


@pytest.mark.parametrize(('layout', 'shape', 'words'), [
    ('left_right', (24, 65), 'width 65'), ('top_bottom', (49, 32), 'height 49')])
def test_an_image_without_equal_halves_is_bad_input_in_words(
        layout: str, shape: tuple[int, int], words: str) -> None:
    bench = Bench(side_by_side=layout)
    for message in (make_image(NOW, np.zeros(shape, np.uint8)),
                    compressed(np.zeros(shape, np.uint8))):
        bench.process(left=message, right=message)
    assert bench.outcome() == {PairDrop.BAD_INPUT: 2, IssueCode.BAD_SIZE: 2}
    assert f'{words}; side by side ({layout}) it is a multiple of 2' in bench.rejections


def test_camera_infos_are_of_the_size_of_one_half() -> None:
    bench = Bench(side_by_side='left_right')
    message = make_image(NOW, joined('left_right', *PAIR))
    bench.process(left=message, right=message)
    assert bench.outcome() == {'published': 1}
    bench.left_info = make_info(side='left', width=64)
    bench.process(NOW + 1, left=message, right=message)
    assert bench.outcome() == {'published': 1, PairDrop.BAD_INPUT: 1,
                               IssueCode.CAMERA_INFO_SIZE: 1}


# Over ROS

SETTINGS: dict[str, Any] = {'disparity_range': 16, 'rectify': True, 'backend': 'cpu'}


@contextlib.contextmanager
def connected(node: Any, topic: str, **options: Any) -> Any:
    """A client that publishes one topic of images in place of two."""
    from test.node.client import Client
    with contextlib.closing(Client(node.domain, **options)) as client:
        client.node_process = node
        for publisher in client.image_publishers.values():
            client.node.destroy_publisher(publisher)
        client.image_publishers = {
            'both': client.node.create_publisher(client.image_class, topic, 100)}
        yield client


@pytest.mark.parametrize(('layout', 'transport', 'rectify', 'has_file'), [
    ('left_right', 'compressed', True, True),
    *slow(('right_left', 'raw', True, False), ('top_bottom', 'raw', False, False),
          ('top_bottom', 'raw', False, True))])
def test_a_node_makes_of_one_topic_what_it_makes_of_two(
        start_node: Any, tmp_path: pathlib.Path, layout: str, transport: str, rectify: bool,
        has_file: bool) -> None:
    pytest.importorskip('rclpy')
    name = 'image_raw' if rectify else 'image_rect'
    topic = f'/{name}/compressed' if transport == 'compressed' else f'/{name}'
    settings = {**SETTINGS, 'rectify': rectify}
    file = {'calibration': write_ros(tmp_path)} if has_file else {}
    node = start_node({**settings, **file, 'side_by_side': layout, 'image_transport': transport,
                       'max_input_age': 30.0, f'qos_overrides.{topic}.subscription.reliability':
                       'reliable'}, qos={}, wait=f'active: waiting for {topic}')
    raw = [raw_image(image, camera_info(side)) for side, image in zip(
        ('left', 'right'), scene(WIDTH, HEIGHT, 6.0), strict=True)]
    with connected(node, topic, compressed=transport == 'compressed') as client:
        if has_file:
            client.info_publishers = {}
        client.connect()
        infos = {side: client.info(side, WIDTH, HEIGHT, **{
            field: getattr(camera_info(side), field)
            for field in ('distortion_model', 'd', 'k', 'r', 'p')}) for side in ('left', 'right')}
        pixels = joined(layout, *raw)

        def answer() -> Any:
            stamp = client.now_ns()
            for side in client.info_publishers:
                client.send_info(side, infos[side], stamp)
            message = client.image(pixels) if transport == 'raw' else client.image_class(
                format='png', data=array.array('B', compressed(pixels).data))
            message.header.frame_id = 'both_cameras'
            client.send_image('both', message, stamp)
            with contextlib.suppress(AssertionError):
                return client.result('disparity', stamp, 2.0)

        message = client.wait_until(answer)
        with StereoMatcher(MatcherConfig(**settings)) as matcher:
            expected = matcher.compute(*raw, rectification=Rectification.from_camera_info(
                *infos.values()) if rectify else None).disparity
        np.testing.assert_array_equal(np.frombuffer(message.image.data, np.float32).reshape(
            expected.shape), expected)
        assert message.header.frame_id == ('both_cameras' if has_file else 'left_camera')
        assert (message.f, message.t) == (FOCAL, pytest.approx(BASELINE))
        counts = client.settled()
        assert counts['received left'] == counts['received right'] == counts['pairs']
