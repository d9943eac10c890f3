"""Raw images over ROS: rectified by the node with what their camera_info says."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, Rectification, StereoMatcher
from stereo_bp_ros.replay import session
from test.raw_cameras import (
    BASELINE,
    FOCAL,
    HEIGHT,
    PLUMB_BOB,
    WIDTH,
    camera_info,
    raw_image,
    scene,
)

pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros

SETTINGS: dict[str, Any] = {'disparity_range': 16, 'rectify': True, 'backend': 'cpu'}
PARAMETERS = {**SETTINGS, 'max_input_age': 30.0}
FIELDS = ('distortion_model', 'd', 'k', 'r', 'p')


@pytest.fixture(scope='module')
def client(tmp_path_factory: pytest.TempPathFactory, run_node: Callable[..., Any],
           client_class: Callable[..., Any]) -> Iterator[Any]:
    qos = session.reliable_overrides(image='image_raw', depth=200)
    with (run_node(tmp_path_factory.mktemp('node'), PARAMETERS, qos=qos) as node,
          contextlib.closing(client_class(node.domain, image='image_raw')) as client):
        client.node_process = node
        client.connect()
        yield client


def infos_of(client: Any, **fields: Any) -> dict[str, Any]:
    """Messages of cameras that distort and squint."""
    found = {}
    for side in ('left', 'right'):
        camera = camera_info(side, **fields)
        values = {name: getattr(camera, name) for name in FIELDS}
        found[side] = client.info(side, WIDTH, HEIGHT, **values)
    return found


def send(client: Any, raw: list[np.ndarray], infos: dict[str, Any]) -> Any:
    """The disparity message of a raw pair whose camera_infos have its stamp."""
    stamp = client.now_ns()
    for side, info in infos.items():
        client.send_info(side, info, stamp)
    return client.result('disparity', client.send_pair(*map(client.image, raw), stamp))


def pixels(message: Any) -> np.ndarray:
    image = message.image
    return np.frombuffer(image.data, np.float32).reshape(image.height, image.width)


def expected(raw: list[np.ndarray], infos: dict[str, Any], **changes: Any) -> np.ndarray:
    config = MatcherConfig(**{**SETTINGS, **changes})
    found = Rectification.from_camera_info(
        *infos.values(), config.rectified_width, config.rectified_height)
    with StereoMatcher(config) as matcher:
        return matcher.compute(*raw, rectification=found).disparity


def test_raw_images_get_the_disparity_and_geometry_of_the_rectified_ones(client: Any) -> None:
    raw = [raw_image(image, camera_info(side))
           for side, image in zip(('left', 'right'), scene(WIDTH, HEIGHT, 6.0), strict=True)]
    infos = infos_of(client)
    message = send(client, raw, infos)
    np.testing.assert_array_equal(pixels(message), expected(raw, infos))
    assert abs(np.median(pixels(message)[15:-15, 25:-25]) - 6) < 0.25
    assert (message.f, message.t) == (FOCAL, pytest.approx(BASELINE))
    assert message.header.frame_id == 'left_camera'


def test_a_change_of_d_k_or_r_alone_is_a_new_calibration(client: Any) -> None:
    raw = list(np.random.default_rng(0).integers(0, 256, (2, HEIGHT, WIDTH), np.uint8))
    found = []
    for fields in ({}, {'d': (*PLUMB_BOB[:4], 0.2)}, {'k': (82, 0, 47, 0, 81, 30, 0, 0, 1)},
                   {'r': (0.0,) * 9}, {'model': 'equidistant', 'd': (0.02, 0.01, 0.0, 0.0)}, {}):
        infos = infos_of(client, **fields)
        found.append(pixels(send(client, raw, infos)))
        np.testing.assert_array_equal(found[-1], expected(raw, infos))
    assert all((one != found[0]).any() for one in found[1:-1])
    np.testing.assert_array_equal(found[-1], found[0])


def test_rectified_images_take_another_size_while_the_node_runs(client: Any) -> None:
    raw = list(np.random.default_rng(0).integers(0, 256, (2, HEIGHT, WIDTH), np.uint8))
    infos, size = infos_of(client), {'rectified_width': 60, 'rectified_height': 40}
    try:
        assert client.set_parameters(atomically=True, **size)[0].successful
        client.wait_until(lambda: send(client, raw, infos).image.width == 60)
        message = send(client, raw, infos)
        np.testing.assert_array_equal(pixels(message), expected(raw, infos, **size))
        assert message.f == pytest.approx(FOCAL * 60 / WIDTH)
    finally:
        client.set_parameters(atomically=True, rectified_width=0, rectified_height=0)
        client.wait_until(lambda: send(client, raw, infos).image.width == WIDTH)


def test_an_uncalibrated_camera_is_an_error_in_words_until_it_is_calibrated(client: Any) -> None:
    raw = list(np.random.default_rng(0).integers(0, 256, (2, HEIGHT, WIDTH), np.uint8))
    stamp = client.now_ns()
    for side, info in infos_of(client, k=(0.0,) * 9).items():
        client.send_info(side, info, stamp)
    client.send_pair(*map(client.image, raw), stamp)
    status = client.wait_for_status('input', lambda status: 'K[0]' in status.message)
    assert 'left K[0] is 0; the focal length must be > 0: is the camera calibrated?' \
        in status.message
    assert send(client, raw, infos_of(client)).f == FOCAL


def test_the_setting_is_for_the_start_of_the_node(client: Any) -> None:
    result, = client.set_parameters(rectify=False)
    assert not result.successful


def test_compressed_raw_images_have_the_topics_of_image_transport(
        tmp_path: pathlib.Path, run_node: Callable[..., Any]) -> None:
    with run_node(tmp_path, {**PARAMETERS, 'image_transport': 'compressed'}) as node:
        assert 'waiting for /left/image_raw/compressed, /right/image_raw/compressed' in node.log
