"""Large best-effort images reach the node when the camera's process uses the shipped profile."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros

PAIRS = 20

#: A camera of 1280 x 720 at 20 Hz.
CAMERA = f"""
import array, time, rclpy
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image
rclpy.init()
node = rclpy.create_node('camera')
images = dict()
for side in ('left', 'right'):
    message = Image(height=720, width=1280, step=1280, encoding='mono8')
    message.data = array.array('B', bytes(1280 * 720))
    images[side] = (
        message, node.create_publisher(Image, side + '/image_rect', qos_profile_sensor_data))
publishers = [publisher for _, publisher in images.values()]
while not all(publisher.get_subscription_count() for publisher in publishers):
    time.sleep(0.05)
time.sleep(0.5)
for _ in range({PAIRS}):
    stamp = node.get_clock().now().to_msg()
    for message, publisher in images.values():
        message.header.stamp = stamp
        publisher.publish(message)
    time.sleep(0.05)
time.sleep(0.5)
"""


def test_no_large_image_is_lost_with_the_shipped_dds_profile(
        run_node: Any, client_class: Any, repository: pathlib.Path, tmp_path: pathlib.Path
        ) -> None:
    profile = repository / 'config' / 'fastdds_large_images.xml'
    with run_node(tmp_path, {'stereo_algorithm': 'sad', 'disparity_range': 16}) as node, \
            contextlib.closing(client_class(node.domain, ('/diagnostics',))) as client:
        subprocess.run(
            [sys.executable, '-c', CAMERA], check=True, timeout=60,
            env={**os.environ, 'ROS_DOMAIN_ID': str(node.domain),
                 'FASTDDS_DEFAULT_PROFILES_FILE': str(profile),
                 'FASTRTPS_DEFAULT_PROFILES_FILE': str(profile)})
        values = client.counts()
    # Without the profile most are lost.
    for side in ('left', 'right'):
        assert values[f'received {side}'] >= PAIRS - 1
    assert values['pairs'] >= PAIRS - 1
