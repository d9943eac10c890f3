"""What nav2's voxel layer and depthimage_to_laserscan make of results, repeated in NumPy.

From the sources of nav2_costmap_2d 1.5.0 and depthimage_to_laserscan 2.5.1.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

pytest.importorskip('rclpy')

from rclpy.qos import (
    QoSCompatibility,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
    qos_profile_sensor_data,
)

from stereo_bp_ros.cameras.rectification import rectified_info
from stereo_bp_ros.node import qos
from test import other_nodes, raw_cameras

pytestmark = pytest.mark.ros

W, H, DISPARITY = 160, 120, 8
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0,
              'correlation_window_size': 11}
DEPTH = 500 * 0.1 / DISPARITY       # metres, of the cameras of ``Client.info``

#: From the optical frame to one with x forward and z up, 1 m above the ground.
TO_BASE, HEIGHT_M = np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]]), 1.0


@pytest.fixture(scope='module')
def results(client: Any, textured_pair: Callable[..., Any]) -> dict[str, Any]:
    """By topic, the messages of one frame of a wall."""
    topics = ('depth/image_rect', 'depth/camera_info', 'points2')
    for topic in topics:
        client.subscribe(topic)
    pair = [cv2.GaussianBlur(image, (0, 0), 1.5) for image in textured_pair(W, H, DISPARITY)]
    stamp = client.send_frame(*pair)
    return {topic: client.result(topic, stamp) for topic in topics}


# nav2_costmap_2d: ObservationBuffer and VoxelLayer

def observed(cloud: Any, lowest: float, highest: float) -> np.ndarray:
    """The points that a source reads, N x 3 in the frame with z up."""
    points = np.stack([other_nodes.channel(cloud, name) for name in 'xyz'], -1).reshape(-1, 3)
    in_base = points @ TO_BASE.T + (0, 0, HEIGHT_M)
    with np.errstate(invalid='ignore'):
        return in_base[(in_base[:, 2] <= highest) & (in_base[:, 2] >= lowest)]


def test_a_voxel_layer_reads_every_point_at_its_place_and_no_gap(results: dict[str, Any]) -> None:
    cloud = results['points2']
    assert {field.name: (field.datatype, field.count) for field in cloud.fields
            if field.name in 'xyz'} == dict.fromkeys('xyz', (field_type(cloud), 1))
    assert len(cloud.data) == cloud.height * cloud.width * cloud.point_step
    there = np.isfinite(other_nodes.channel(cloud, 'z')).sum()
    assert 0 < there < cloud.height * cloud.width
    points = observed(cloud, -9.0, 9.0)
    assert len(points) == there
    assert np.median(points[:, 0]) == pytest.approx(DEPTH, rel=0.02)       # ahead
    # As high as the camera sees at that distance, half of it above the camera.
    assert np.abs(points[:, 2] - HEIGHT_M).max() < 1.1 * DEPTH * H / 2 / 500
    assert 0.3 < (points[:, 2] > HEIGHT_M).mean() < 0.7
    # The default of a source's max_obstacle_height.
    assert len(observed(cloud, 0.0, 0.0)) == 0


def field_type(cloud: Any) -> int:
    return int(type(cloud.fields[0]).FLOAT32)


def test_a_cloud_is_of_the_stamp_and_frame_of_the_depth_image(results: dict[str, Any]) -> None:
    headers = [message.header for message in results.values()]
    assert headers[0].frame_id == 'left_camera'
    assert headers[1:] == headers[:-1]


# depthimage_to_laserscan

def places_in_scan(info: Any, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The place of each column of the image among the ranges, and its angle."""
    k, r, p = (np.reshape(values, (3, -1)).astype(float) for values in (info.k, info.r, info.p))
    ends = np.array([[[0.0, p[1, 2]]], [[width - 1.0, p[1, 2]]]])
    if any(info.d):
        ends = cv2.undistortPoints(ends, k, np.array(info.d), R=r, P=p)
    last, first = -np.arctan((ends[:, 0, 0] - p[0, 2]) / p[0, 0])
    angles = -np.arctan((np.arange(width) - p[0, 2]) / p[0, 0])
    return ((angles - first) / ((last - first) / (width - 1)) + 1e-9).astype(int), angles


def scan(depth: np.ndarray, info: Any, rows: int, nearest: float, farthest: float) -> np.ndarray:
    """Ranges, NaN = none."""
    places, angles = places_in_scan(info, depth.shape[1])
    top = int(info.p[6] - rows / 2)
    found = np.full(depth.shape[1], np.nan)
    for row in depth[top:top + rows]:
        for place, angle, z in zip(places, angles, row, strict=True):
            length = z / np.cos(angle)
            if nearest <= length <= farthest and not length >= found[place]:
                found[place] = length
    return found


def test_a_scan_has_the_ranges_of_the_depth_at_angles_of_the_camera(results: dict[str, Any]
                                                                    ) -> None:
    image, info = results['depth/image_rect'], results['depth/camera_info']
    assert image.encoding == '32FC1'
    assert image.step == 4 * image.width                # read as whole rows of float32
    assert (info.width, info.height) == (image.width, image.height)
    depth = other_nodes.pixels(image)
    places, _ = places_in_scan(info, W)
    assert (places.min(), places.max()) == (0, W - 1)
    ranges = scan(depth, info, 10, 0.4, 10.0)
    known = np.isfinite(ranges)
    assert known.sum() > W // 2
    assert np.nanmedian(ranges) == pytest.approx(DEPTH, rel=0.02)
    # What the left margin of the image lacks stays without a range.
    assert not known[W - 10:].any()


def test_the_camera_info_of_a_node_that_rectifies_keeps_a_scan_inside_its_bounds() -> None:
    raw = raw_cameras.camera_info(d=(0.3, 0.0, 0.0, 0.0))
    found = raw_cameras.rectification(d=(0.3, 0.0, 0.0, 0.0))
    info = rectified_info(raw, found, 'left')
    assert not any(info.d)
    places, _ = places_in_scan(info, raw_cameras.WIDTH)
    assert (places.min(), places.max()) == (0, raw_cameras.WIDTH - 1)
    raw.r = raw_cameras.rotation(0.0, 0.0, 0.0)
    outside, _ = places_in_scan(raw, raw_cameras.WIDTH)
    assert outside.min() < 0
    assert outside.max() >= raw_cameras.WIDTH


# Both

def test_their_subscriptions_fit_the_qos_of_the_results() -> None:
    nav2 = QoSProfile(depth=50, reliability=qos_profile_sensor_data.reliability)
    for theirs in (nav2, QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)):
        assert qos_check_compatible(qos.publisher(), theirs)[0] != QoSCompatibility.ERROR


def test_the_page_names_topics_and_types_as_they_are(repository: pathlib.Path,
                                                    results: dict[str, Any]) -> None:
    page = (repository / 'docs/howto/navigation.md').read_text(encoding='utf-8')
    block, = re.findall(r'```yaml\n(.*?)```', page, re.DOTALL)
    layer = yaml.safe_load(block)['local_costmap']['local_costmap']['ros__parameters'][
        'voxel_layer']
    source = layer[layer['observation_sources']]
    assert source['data_type'] == type(results['points2']).__name__
    topics = {source['topic'], *re.findall(r'depth\w*:=(/\S+)', page)}
    assert topics == {f'/stereo/{topic}' for topic in results}
    assert source['min_obstacle_height'] < layer['min_obstacle_height']
    assert layer['z_voxels'] * layer['z_resolution'] == pytest.approx(
        layer['max_obstacle_height'])
