"""Raw images over ROS: rectified by the node with what their camera_info says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import Calibration, MatcherConfig, Rectification, StereoMatcher
from stereo_bp_ros.replay import session
from test import other_nodes
from test.raw_cameras import (
    BASELINE,
    COEFFICIENTS,
    FOCAL,
    HEIGHT,
    WIDTH,
    camera_info,
    raw_image,
    scene,
)

pytest.importorskip('rclpy')

from test.node.client import Client
from test.node.processes import running_node

pytestmark = pytest.mark.ros

SETTINGS: dict[str, Any] = {'disparity_range': 16, 'rectify': True, 'backend': 'cpu'}
PARAMETERS = {**SETTINGS, 'max_input_age': 30.0}
FIELDS = ('distortion_model', 'd', 'k', 'r', 'p')


@pytest.fixture(scope='module')
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    qos = session.reliable_overrides(image='image_raw', depth=200)
    with (running_node(tmp_path_factory.mktemp('node'), PARAMETERS, qos=qos) as node,
          contextlib.closing(Client(node.domain, image='image_raw')) as client):
        client.node_process = node
        client.connect()
        yield client


def infos_of(client: Any, **fields: Any) -> dict[str, Any]:
    """Messages of cameras that distort and squint."""
    found = {}
    for side in ('left', 'right'):
        camera = camera_info(side, **fields)
        values = {name: getattr(camera, name) for name in (*FIELDS, 'binning_x', 'binning_y')}
        found[side] = client.info(side, camera.width, camera.height, roi=vars(camera.roi),
                                  **values)
    return found


def pixels(message: Any) -> np.ndarray:
    image = message.image
    return np.frombuffer(image.data, np.float32).reshape(image.height, image.width)


def expected(raw: list[np.ndarray], infos: dict[str, Any], **changes: Any) -> np.ndarray:
    config = MatcherConfig(**{**SETTINGS, **changes})
    rectification = Rectification.from_camera_info(
        *infos.values(), config.rectified_width, config.rectified_height)
    with StereoMatcher(config) as matcher:
        return matcher.compute(*raw, rectification=rectification).disparity


def test_raw_images_get_the_disparity_and_geometry_of_rectified_ones_of_any_size(client: Any
                                                                                 ) -> None:
    raw = [raw_image(image, camera_info(side))
           for side, image in zip(('left', 'right'), scene(WIDTH, HEIGHT, 6.0), strict=True)]
    infos, size = infos_of(client), {'rectified_width': 60, 'rectified_height': 40}
    message = client.match(*raw, cameras=infos)
    np.testing.assert_array_equal(pixels(message), expected(raw, infos))
    assert abs(np.median(pixels(message)[15:-15, 25:-25]) - 6) < 0.25
    assert (message.f, message.t) == (FOCAL, pytest.approx(BASELINE))
    assert message.header.frame_id == 'left_camera'
    try:
        assert client.set_parameters(atomically=True, **size)[0].successful
        client.wait_until(lambda: client.match(*raw, cameras=infos).image.width == 60)
        message = client.match(*raw, cameras=infos)
        np.testing.assert_array_equal(pixels(message), expected(raw, infos, **size))
        assert message.f == pytest.approx(FOCAL * 60 / WIDTH)
    finally:
        client.set_parameters(atomically=True, rectified_width=0, rectified_height=0)
        client.wait_until(lambda: client.match(*raw, cameras=infos).image.width == WIDTH)


#: A sensor of 400 x 300, of which a part from (40, 30) on is read with binning 2.
CROPPED: dict[str, Any] = {
    'size': (400, 300), 'binning': (2, 2), 'roi': (40, 30, 2 * WIDTH, 2 * HEIGHT),
    'k': (2 * FOCAL, 0, 135.0, 0, 2 * FOCAL + 4, 92.0, 0, 0, 1)}


def cropped(side: str) -> tuple[float, ...]:
    """P of that sensor."""
    offset = 0.0 if side == 'left' else -2 * FOCAL * BASELINE
    return (2 * FOCAL, 0, 132.0, offset, 0, 2 * FOCAL, 90.0, 0, 0, 0, 1, 0)


@pytest.mark.parametrize(('model', 'is_cropped'), [
    ('plumb_bob', True), ('rational_polynomial', False), ('equidistant', False)])
def test_raw_images_get_the_disparity_of_those_that_image_proc_rectifies(
        client: Any, model: str, is_cropped: bool) -> None:
    """image_proc's computation is repeated, not run."""
    raw = list(np.random.default_rng(1).integers(0, 256, (2, HEIGHT, WIDTH), np.uint8))
    infos = infos_of(client, model=model, d=COEFFICIENTS[model][-1],
                     **CROPPED if is_cropped else {})
    if is_cropped:
        for side, info in infos.items():
            info.p = cropped(side)
    message = client.match(*raw, cameras=infos)
    images = [other_nodes.rectified(image, info)
              for image, info in zip(raw, infos.values(), strict=True)]
    with StereoMatcher(MatcherConfig(**{**SETTINGS, 'rectify': False})) as matcher:
        frame = matcher.compute(
            *images, calibration=Calibration.from_camera_info(*infos.values()))
    np.testing.assert_array_equal(pixels(message), frame.disparity)


def test_an_uncalibrated_camera_is_an_error_in_words_until_it_is_calibrated(client: Any) -> None:
    raw = list(np.random.default_rng(0).integers(0, 256, (2, HEIGHT, WIDTH), np.uint8))
    client.send_frame(*raw, cameras=infos_of(client, k=(0.0,) * 9))
    status = client.wait_for_status('input', lambda status: 'K[0]' in status.message)
    assert 'left K[0] is 0; the focal length must be > 0: is the camera calibrated?' \
        in status.message
    assert client.match(*raw, cameras=infos_of(client)).f == FOCAL
