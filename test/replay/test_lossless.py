"""A recorded run loses nothing where the machine is busy: a process that stands still, a reader
that does not come to its queue, a subscriber that never acknowledges."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.evaluation import bags
from stereo_bp_ros.replay import session
from stereo_bp_ros.replay.source import open_source

rclpy = pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')

pytestmark = pytest.mark.ros

FRAMES, PERIOD_S = 60, 0.02

#: Counts left images until it is told to end; says when it has a publisher.
COUNTING = """
import sys, rclpy, threading
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image
rclpy.init()
node, stamps = rclpy.create_node('counting'), set()
node.create_subscription(Image, 'left/image_rect', lambda m: stamps.add(str(m.header.stamp)),
                         QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE))
threading.Thread(target=rclpy.spin, args=(node,), daemon=True).start()
for line in sys.stdin:
    print(len(stamps), flush=True)
"""


@pytest.fixture
def recording(tmp_path: pathlib.Path) -> pathlib.Path:
    """Sixty black pairs at 50 Hz: more than the 16 MiB that shared memory holds."""
    image = np.zeros((480, 640), np.uint8)
    bags.write_bag(tmp_path / 'bag', Calibration(100, 0.1, 320, 320, 240), (
        (10**18 + round(k * PERIOD_S * 1e9), image, image, None) for k in range(FRAMES)))
    return tmp_path / 'bag'


@pytest.fixture
def context(ros_environment: dict[str, str]) -> Iterator[Any]:
    """The default context of rclpy, in a domain of its own."""
    rclpy.init(domain_id=int(ros_environment['ROS_DOMAIN_ID']))
    yield
    rclpy.try_shutdown()


def wait_for(player: Any, topic: str) -> None:
    deadline = time.monotonic() + 30
    while any(p.topic_name == topic and not p.get_subscription_count()
              for p in player._publishers.values()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_process_that_stands_still_gets_every_image_when_it_goes_on(
        recording: pathlib.Path, context: Any, ros_environment: dict[str, str]) -> None:
    from stereo_bp_ros.replay.player import Player
    player = Player(rclpy.create_node('player'), open_source(recording), clock=True)
    child = subprocess.Popen([sys.executable, '-c', COUNTING], env=ros_environment, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        wait_for(player, '/left/image_rect')
        child.send_signal(signal.SIGSTOP)
        timer = threading.Timer(2.0, child.send_signal, (signal.SIGCONT,))
        timer.start()
        report = player.play()
        timer.join()
        count, deadline = 0, time.monotonic() + 20
        while count < FRAMES and time.monotonic() < deadline:
            time.sleep(0.05)
            child.stdin.write('\n')
            child.stdin.flush()
            count = int(child.stdout.readline())
    finally:
        child.kill()
        child.communicate()
    assert count == report.pairs == FRAMES
    assert report.waited_s > 0.5        # which the report of a run tells


def test_a_node_that_does_not_come_to_its_callbacks_for_a_second_loses_no_image(
        recording: pathlib.Path, context: Any) -> None:
    """Its middleware has acknowledged them: it is the queue that has to be deep."""
    from sensor_msgs.msg import Image

    from stereo_bp_ros.node import qos
    from stereo_bp_ros.replay.player import Player
    parameters = [rclpy.Parameter(name, value=value)
                  for name, value in session.reliable_overrides().items()]
    node, stamps = rclpy.create_node('node', parameter_overrides=parameters), set()
    node.create_subscription(
        Image, 'left/image_rect', lambda m: stamps.add(str(m.header.stamp)),
        qos.subscription(False), qos_overriding_options=qos.overriding_options())
    player = Player(rclpy.create_node('player'), open_source(recording), clock=True)
    wait_for(player, '/left/image_rect')
    player.play()
    deadline = time.monotonic() + 20
    while len(stamps) < FRAMES and time.monotonic() < deadline:
        rclpy.spin_once(node, timeout_sec=0.5)
    assert len(stamps) == FRAMES


@pytest.mark.parametrize('clock', [True, False], ids=['/clock', 'as a camera'])
def test_a_subscriber_that_never_acknowledges_holds_a_recorded_run_up_once_and_no_camera(
        recording: pathlib.Path, monkeypatch: pytest.MonkeyPatch, context: Any, clock: bool
        ) -> None:
    from stereo_bp_ros.replay import player
    now = [0.0]
    sent: list[tuple[str, float]] = []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def acknowledged(timeout: Any) -> bool:
        sleep(1e-6 + timeout.nanoseconds / 1e9)
        return False

    def publisher(_: Any, topic: str, qos: Any) -> Any:
        return types.SimpleNamespace(
            publish=lambda data: sent.append((topic, now[0])), topic_name=topic,
            wait_for_all_acked=acknowledged)

    monkeypatch.setattr(player, 'time', types.SimpleNamespace(
        perf_counter=lambda: now[0], time_ns=lambda: round(now[0] * 1e9), sleep=sleep))
    node: Any = types.SimpleNamespace(create_publisher=publisher)
    report = player.Player(node, open_source(recording), clock=clock).play()
    assert report.pairs == FRAMES
    assert report.waited_s == pytest.approx(player.ACKNOWLEDGE_LIMIT_S if clock else 0, rel=1e-3)
    times = [when for topic, when in sent if topic == 'left/image_rect']
    steps = np.diff(times)
    assert np.count_nonzero(steps > 2 * PERIOD_S) == clock
    assert np.median(steps) == pytest.approx(PERIOD_S, rel=0.01)
    if clock:       # nothing goes on meanwhile, the clock neither
        wait = int(np.argmax(steps))
        assert wait + 1 == player.DEPTH
        clocks = [when for topic, when in sent if topic == '/clock']
        assert not [when for when in clocks if times[wait] + 0.1 < when < times[wait + 1] - 0.1]
