"""What nodes of other packages make of this node's results: the same as the node itself."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')

from rclpy.qos import QoSPresetProfiles, QoSProfile

from stereo_bp_ros.node.publishing import TOPICS
from test import other_nodes
from test.cases import every
from test.node.client import stamp_of

pytestmark = pytest.mark.ros

W, H = 160, 120
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'correlation_window_size': 11,
              'uniqueness_ratio': 15.0, 'max_input_age': 30.0}

#: Cameras, with the parameters that go with them. Columns and rows are binned differently.
CROPPED = {'width': 400, 'height': 300, 'binning_x': 2, 'cx': 200.0,
           'roi': {'x_offset': 40, 'y_offset': 30, 'width': 320, 'height': 120}}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    'plain': ({}, {}),
    'binned and cropped': (CROPPED, {}),
    'right': ({}, {'reference_image': 'right'}),
    'verged': ({'right': {'cx': 84.5}}, {}),
    'verged, not adjusted': ({'right': {'cx': 84.5}}, {'pre_adjust_disparity': False}),
}
#: point_cloud_node takes the difference of the principal points off by itself, and disparities
#: for those of the left image.
FOR_POINT_CLOUD_NODE = ('plain', 'binned and cropped', 'verged, not adjusted')


@pytest.fixture(scope='module')
def pair() -> list[np.ndarray]:
    """Colours, bgr, whose disparity grows from row to row."""
    noise = np.random.default_rng(4).integers(0, 256, (H, W + 16, 3), np.uint8)
    left = cv2.GaussianBlur(noise, (0, 0), 1.5)
    y, x = np.mgrid[:H, :W].astype(np.float32)
    return [left[:, :W].copy(), cv2.remap(left, x + 3 + y / 12, y, cv2.INTER_CUBIC)]


@pytest.fixture(scope='module')
def everything(client: Any) -> Any:
    """The client, with a subscription of every topic."""
    for topic in TOPICS.keys() - client.subscriptions.keys():
        client.subscribe(topic)
    return client


def frame_of(client: Any, pair: list[np.ndarray], case: str) -> types.SimpleNamespace:
    """Everything of one frame: what was sent, and every result by its topic."""
    fields, parameters = CASES[case]
    assert every(answer.successful for answer in client.set_parameters(
        **{'reference_image': 'left', 'pre_adjust_disparity': True, **parameters}))
    infos = client.infos(**{'width': W, 'height': H, **fields})
    sent = [client.image(image, 'bgr8', frame_id=f'{side}_camera')
            for side, image in zip(infos, pair, strict=True)]
    stamp = client.send_frame(*sent, cameras=infos)
    results = {topic: client.result(topic, stamp) for topic in TOPICS}
    reference = parameters.get('reference_image', 'left')
    return types.SimpleNamespace(case=case, infos=infos, image=sent[reference == 'right'],
                                 results=results, points=xyz(results['points2']))


@pytest.fixture(scope='module', params=CASES)
def frame(everything: Any, pair: list[np.ndarray], request: pytest.FixtureRequest
          ) -> types.SimpleNamespace:
    return frame_of(everything, pair, request.param)


@pytest.fixture(scope='module')
def plain(everything: Any, pair: list[np.ndarray]) -> types.SimpleNamespace:
    return frame_of(everything, pair, 'plain')


def xyz(cloud: Any) -> np.ndarray:
    return np.stack([other_nodes.channel(cloud, name) for name in 'xyz'], -1)


def same_points(found: np.ndarray, expected: np.ndarray) -> None:
    """The same ones are there, at the same places but for rounding to float32."""
    assert 0.3 < np.isfinite(expected[..., 2]).mean() < 1
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


def test_nodes_of_ros_make_the_points_of_points2_and_show_every_disparity(frame: Any) -> None:
    """point_cloud_xyzrgb and disparity of depth_image_proc, disparity_view of image_view, and
    point_cloud_node of stereo_image_proc."""
    depth, info = frame.results['depth/image_rect'], frame.results['depth/camera_info']
    # Where image_transport looks for it.
    assert info.header == depth.header == frame.results['points2'].header
    same_points(other_nodes.points_of_depth(depth, info), frame.points)
    colours = np.stack([other_nodes.channel(frame.results['points2'], name) for name in 'rgb'],
                       -1)
    np.testing.assert_array_equal(colours, other_nodes.colours_of(frame.image))
    disparity = other_nodes.pixels(frame.results['disparity'].image)
    if frame.case in FOR_POINT_CLOUD_NODE:
        points = other_nodes.points_of_disparity(disparity, *frame.infos.values())
        points[~(points[..., 2] > 0)] = np.nan      # behind the cameras
        same_points(points, frame.points)
    if frame.case == 'verged, not adjusted':
        disparity = disparity - (frame.infos['left'].p[2] - frame.infos['right'].p[2])
    # In pixels of the sensor: that node does not read the binning.
    binning = max(1, frame.infos['right'].binning_x)
    is_there = np.isfinite(frame.points[..., 2])
    of_depth = other_nodes.disparity_of_depth(depth, frame.infos['right'])
    np.testing.assert_allclose(of_depth[is_there], binning * disparity[is_there], rtol=1e-6)
    assert not of_depth[~is_there].any()
    check_view(frame.results['disparity'])


def check_view(message: Any) -> None:
    """disparity_view shows disparities by their range, and whatever is invalid as the least."""
    values, shades = other_nodes.pixels(message.image), other_nodes.shades(message)
    is_there = values >= message.min_disparity
    assert is_there.any()
    assert values.max() <= message.max_disparity
    np.testing.assert_allclose(values[~is_there], message.min_disparity - 1, rtol=1e-6)
    assert not shades[~is_there].any()
    places = (values.astype(float) - message.min_disparity) / (
        message.max_disparity - message.min_disparity)
    np.testing.assert_allclose(shades[is_there], 255 * places[is_there], atol=0.51)


#: Of SensorDataQoS: point_cloud_node. Of the middleware's default: point_cloud_xyz.
SUBSCRIPTIONS = [QoSPresetProfiles.SENSOR_DATA.value, QoSPresetProfiles.SYSTEM_DEFAULT.value,
                 QoSProfile(depth=1)]


def test_subscriptions_of_other_nodes_get_results_with_the_qos_that_they_ask_for(
        everything: Any, pair: list[np.ndarray]) -> None:
    node = everything.node
    heard: list[list[Any]] = [[] for _ in SUBSCRIPTIONS]
    kind = TOPICS['disparity'].message.kind
    made = [node.create_subscription(kind, 'disparity', messages.append, qos)
            for messages, qos in zip(heard, SUBSCRIPTIONS, strict=True)]
    everything.wait_until_known()
    for _ in range(50):                         # best effort may lose some
        everything.match(*pair, 'bgr8')
        if all(heard):
            break
    assert every(heard)
    for subscription in made:
        node.destroy_subscription(subscription)
    offered = [node.get_publishers_info_by_topic(f'/{topic}')[0].qos_profile for topic in TOPICS]
    assert every(qos == offered[0] for qos in offered)


# Python of other packages, run

def test_image_geometry_of_python_finds_the_points(plain: Any, everything: Any,
                                                   pair: list[np.ndarray]) -> None:
    image_geometry = other_nodes.package('image_geometry')
    stereo = image_geometry.StereoCameraModel()
    stereo.fromCameraInfo(plain.infos['left'], plain.infos['right'])
    assert stereo.getZ(8.0) == pytest.approx(500 * 0.1 / 8)
    disparity = other_nodes.pixels(plain.results['disparity'].image)
    rows, columns = np.nonzero(np.isfinite(plain.points[..., 2]))
    chosen = list(zip(rows.tolist(), columns.tolist(), strict=True))[::97]
    assert len(chosen) > 50
    for y, x in chosen:
        np.testing.assert_allclose(stereo.projectPixelTo3d((x, y), float(disparity[y, x])),
                                   plain.points[y, x], rtol=1e-6)
    # Binning and region of interest of the camera_info of depth.
    cropped = frame_of(everything, pair, 'binned and cropped')
    camera = image_geometry.PinholeCameraModel()
    camera.fromCameraInfo(cropped.results['depth/camera_info'])
    for y, x in chosen:
        ray = np.array(camera.projectPixelTo3dRay((x, y)))
        np.testing.assert_allclose(ray / ray[2] * cropped.points[y, x, 2],
                                   cropped.points[y, x], rtol=1e-6)


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """CvBridge. What it has compiled is replaced: the types of encodings, and their parts."""
    module = other_nodes.package('cv_bridge')
    compiled: Any = types.ModuleType('cv_bridge.boost.cv_bridge_boost')
    names = {'bgr8': '8UC3', 'mono8': '8UC1'}
    of_type = {getattr(cv2, f'CV_{name}'): name for name in ('8UC1', '8UC3', '16UC1', '32FC1')}
    compiled.getCvType = lambda name: getattr(cv2, f'CV_{names.get(name, name)}')
    compiled.CV_MAT_DEPTHWrap = lambda kind: getattr(cv2, f'CV_{of_type[kind].split("C")[0]}')
    compiled.CV_MAT_CNWrap = lambda kind: int(of_type[kind].split('C')[1])
    monkeypatch.setitem(sys.modules, 'cv_bridge.boost', types.ModuleType('cv_bridge.boost'))
    monkeypatch.setitem(sys.modules, compiled.__name__, compiled)
    return module.CvBridge()


def test_cv_bridge_reads_every_image_and_its_images_are_matched(
        bridge: Any, plain: Any, everything: Any, pair: list[np.ndarray]) -> None:
    results = plain.results
    for image in (results['depth'], results['depth/image_rect'], results['confidence'],
                  results['disparity_color'], results['disparity'].image):
        np.testing.assert_array_equal(bridge.imgmsg_to_cv2(image), other_nodes.pixels(image))
    found = everything.match(*(bridge.cv2_to_imgmsg(image, 'bgr8') for image in pair))
    assert found.image.data == results['disparity'].image.data


def test_point_cloud2_of_sensor_msgs_py_reads_points_with_and_without_gaps(
        everything: Any, pair: list[np.ndarray], plain: Any) -> None:
    point_cloud2 = other_nodes.package('sensor_msgs_py.point_cloud2')
    cloud = plain.results['points2']
    found = point_cloud2.read_points_numpy(cloud, ['x', 'y', 'z']).reshape(H, W, 3)
    np.testing.assert_array_equal(found, plain.points)
    there = point_cloud2.read_points_numpy(cloud, skip_nans=True)
    assert len(there) == np.isfinite(plain.points[..., 2]).sum()
    try:
        assert everything.set_parameters(points_organized=False)[0].successful
        dense = frame_of(everything, pair, 'plain').results['points2']
    finally:
        everything.set_parameters(points_organized=True)
    np.testing.assert_array_equal(
        point_cloud2.read_points_numpy(dense).view(np.uint32), there.view(np.uint32))


def test_subscribers_of_message_filters_are_called_with_whole_frames(
        everything: Any, pair: list[np.ndarray]) -> None:
    message_filters = other_nodes.package('message_filters')
    subscribers = [message_filters.Subscriber(everything.node, TOPICS[topic].message.kind, topic)
                   for topic in ('disparity', 'depth/image_rect', 'depth/camera_info', 'points2')]
    frames: list[tuple[Any, ...]] = []
    synchronizer = message_filters.TimeSynchronizer(subscribers, 5)
    synchronizer.registerCallback(lambda *messages: frames.append(messages))
    everything.wait_until_known()
    try:
        stamps = [stamp_of(everything.match(*pair, 'bgr8')) for _ in range(3)]
        # A frame without a right image.
        everything.send_image('left', everything.image(pair[0], 'bgr8'), everything.now_ns())
        stamps += [stamp_of(everything.match(*pair, 'bgr8')) for _ in range(3)]
        everything.wait_until(lambda: len(frames) == len(stamps), what='every frame as a set')
    finally:
        for subscriber in subscribers:
            everything.node.destroy_subscription(subscriber.sub)
    assert [stamp_of(messages[0]) for messages in frames] == stamps
    assert every(message.header == messages[0].header
                 for messages in frames for message in messages)
