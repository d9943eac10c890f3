"""Large images where the camera has the profile; /dev/shm without room; the node's memory."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip('rclpy')

from stereo_bp_ros.system import transport
from test.node.processes import LIMIT

pytestmark = pytest.mark.ros

FAST = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0}
PAIRS = 20

#: A camera at 20 Hz, with best effort: number of 1280 x 720 mono8 pairs.
CAMERA = """
import array, sys, time, rclpy
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image
width, height = 1280, 720
qos = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
rclpy.init()
node = rclpy.create_node('camera')
images = dict()
for side in ('left', 'right'):
    message = Image(height=height, width=width, step=width, encoding='mono8')
    message.data = array.array('B', bytes(width * height))
    images[side] = message, node.create_publisher(Image, side + '/image_rect', qos)
publishers = [publisher for _, publisher in images.values()]
while not all(publisher.get_subscription_count() for publisher in publishers):
    time.sleep(0.05)
time.sleep(0.5)
for _ in range(int(sys.argv[1])):
    stamp = node.get_clock().now().to_msg()
    for message, publisher in images.values():
        message.header.stamp = stamp
        publisher.publish(message)
    time.sleep(0.05)
time.sleep(0.5)
"""


def python_path(repository: pathlib.Path) -> dict[str, str]:
    return {'PYTHONPATH': os.pathsep.join([str(repository), os.environ.get('PYTHONPATH', '')])}


def test_no_image_is_lost_when_one_line_gave_the_camera_the_profile(
        start: Any, repository: pathlib.Path) -> None:
    line = f'eval "$({sys.executable} -m stereo_bp_ros.system.transport)"'
    # As in a vehicle, but for the depth, so that a busy node takes late what has arrived.
    parameters = {**FAST, **{
        f'qos_overrides./{side}/image_rect.subscription.depth': PAIRS
        for side in ('left', 'right')}}
    client = start(parameters, qos={}, client={'topics': ()})
    environment = {name: value for name, value in os.environ.items()
                   if 'PROFILES_FILE' not in name}
    subprocess.run(
        ['sh', '-c', f'{line} && exec "$@"', 'sh', sys.executable, '-c', CAMERA, str(PAIRS)],
        env={**environment, **python_path(repository),
             'ROS_DOMAIN_ID': str(client.node_process.domain)}, check=True, timeout=LIMIT)
    values = client.settled()
    for side in ('left', 'right'):
        assert values[f'received {side}'] >= PAIRS - 1
    assert values['pairs'] >= PAIRS - 1


def test_a_huge_camera_info_takes_no_memory_and_locked_memory_is_locked_or_said_not_to_be(
        start: Any, textured_pair: Any) -> None:
    client = start({**FAST, 'lock_memory': True})
    process = client.node_process.process.pid
    status = client.status('device')
    kib = int(re.search(r'VmLck:\s+(\d+) kB',
                        pathlib.Path(f'/proc/{process}/status').read_text())[1])
    if transport._capabilities() >> transport.CAP_IPC_LOCK & 1:
        assert kib > 50_000
        assert status.level == 0
    else:
        assert 'memory is not locked' in status.message
        assert status.level == 1
    before = peak_memory(process)
    for width, height in ((8192, 8192), (96, 64)):      # 3.6 GiB for the first
        for side in ('left', 'right'):
            client.send_info(side, client.info(side, width, height))
        client.wait_until_known()
        client.status('input')
    client.match(*textured_pair(96, 64, 5))
    assert peak_memory(process) - before < 200


def peak_memory(process: int) -> int:
    """The most that a process has held, in MiB."""
    status = pathlib.Path(f'/proc/{process}/status').read_text()
    return int(re.search(r'VmHWM:\s+(\d+) kB', status)[1]) // 1024


#: Replaces the process by the node, with a /dev/shm of so many kB, all of it taken or free.
NODE = """
import os, sys
os.execvp('unshare', ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs -o size={kilobytes}k '
    'none /dev/shm && {{ {fill}; }} && exec "$@"', 'sh', sys.executable, '-m',
    'stereo_bp_ros.{module}', *sys.argv[1:]])
"""
FULL = 'head -c 4096 /dev/zero > /dev/shm/other'


def may_mount() -> bool:
    return bool(shutil.which('unshare')) and not subprocess.run(
        ['unshare', '--mount', 'mount', '-t', 'tmpfs', 'none', '/dev/shm'],
        capture_output=True, timeout=20).returncode


needs_namespace = pytest.mark.skipif(not may_mount(), reason='no mount namespace is allowed here')


@needs_namespace
def test_a_node_without_room_for_images_says_so_and_goes_on_with_udp(
        start: Any, textured_pair: Callable[..., Any]) -> None:
    # One pair is sent; the silence after it is no fault here.
    client = start({**FAST, 'input_timeout': 60.0},
                   code=NODE.format(kilobytes=256, fill='true', module='node.main'))
    text = '/dev/shm has 0.2 MiB free, but a process takes up to 18 MiB of it for images'
    assert text in client.log()
    assert 'going on with UDP alone' in client.log()
    client.match(*textured_pair(96, 64, 5))
    # A report from before the pair may be the latest yet.
    client.wait_for_status('input', lambda status: status.level == 1 and text in status.message)
    assert client.node_process.end() == 0


@needs_namespace
@pytest.mark.parametrize(('module', 'arguments', 'name'), [
    ('node.main', [], 'stereo_bp_node'),
    ('cli.main', ['replay', '.'], 'stereo_bp replay')])
def test_a_process_that_would_be_killed_by_sigbus_ends_with_words_and_a_status(
        tmp_path: pathlib.Path, repository: pathlib.Path, module: str, arguments: list[str],
        name: str) -> None:
    code = NODE.format(kilobytes=4, fill=FULL, module=module)
    process = subprocess.run([sys.executable, '-c', code, *arguments], cwd=tmp_path,
                             env={**os.environ, **python_path(repository)}, capture_output=True,
                             text=True)
    assert process.returncode == 2, process.stderr
    line, = process.stderr.splitlines()
    assert line.startswith(f'{name}: /dev/shm has 0.0 MiB free')
    assert 'SIGBUS' in line
