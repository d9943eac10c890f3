"""A recorded run loses nothing where the machine is busy: a process that stands still, a reader
that does not come to its queue, a subscriber that never acknowledges."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.replay import session
from stereo_bp_ros.replay.source import open_source
from stereo_bp_ros.sources import bags

pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')
import rclpy
from sensor_msgs.msg import Image

from stereo_bp_ros.node import qos
from stereo_bp_ros.replay import player
from test.node.processes import LIMIT

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


def write(path: pathlib.Path, image: np.ndarray) -> pathlib.Path:
    """A bag of sixty pairs of the same image at 50 Hz."""
    bags.write_bag(path, Calibration(100, 0.1, 320, 320, 240), (
        (10**18 + round(k * PERIOD_S * 1e9), image, image, None) for k in range(FRAMES)))
    return path


@pytest.fixture(scope='module')
def recording(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """More than the 16 MiB that shared memory holds."""
    return write(tmp_path_factory.mktemp('large') / 'bag', np.zeros((480, 640), np.uint8))


@pytest.fixture
def context(ros_environment: dict[str, str]) -> Iterator[Any]:
    """The default context of rclpy, in a domain of its own."""
    rclpy.init(domain_id=int(ros_environment['ROS_DOMAIN_ID']))
    yield
    rclpy.try_shutdown()


def wait_for(playing: player.Player, topic: str) -> None:
    deadline = time.monotonic() + LIMIT
    while any(p.topic_name == topic and not p.get_subscription_count()
              for p in playing._publishers.values()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_process_that_stands_still_gets_every_image_when_it_goes_on(
        recording: pathlib.Path, context: Any, ros_environment: dict[str, str]) -> None:
    playing = player.Player(rclpy.create_node('player'), open_source(recording), clock=True)
    child = subprocess.Popen([sys.executable, '-c', COUNTING], env=ros_environment, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        wait_for(playing, '/left/image_rect')
        timers = [threading.Timer(after_s, child.send_signal, (what,))
                  for after_s, what in ((0.4, signal.SIGSTOP), (2.4, signal.SIGCONT))]
        for timer in timers:
            timer.start()
        report = playing.play()
        timers[1].join()
        count, deadline = 0, time.monotonic() + LIMIT
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
    parameters = [rclpy.Parameter(name, value=value)
                  for name, value in session.reliable_overrides().items()]
    node, stamps = rclpy.create_node('node', parameter_overrides=parameters), set()
    node.create_subscription(
        Image, 'left/image_rect', lambda m: stamps.add(str(m.header.stamp)),
        qos.subscription(False), qos_overriding_options=qos.overriding_options())
    playing = player.Player(rclpy.create_node('player'), open_source(recording), clock=True)
    wait_for(playing, '/left/image_rect')
    playing.play()
    deadline = time.monotonic() + LIMIT
    while len(stamps) < FRAMES and time.monotonic() < deadline:
        rclpy.spin_once(node, timeout_sec=0.5)
    assert len(stamps) == FRAMES


@pytest.fixture
def paused(play: Callable[..., Any], tmp_path: pathlib.Path) -> Callable[..., Any]:
    """Plays to a subscriber that acknowledges nothing within some seconds.

    Gives the report, times of /clock and of left images, and for each pause how many images came
    before it, and how long it was.
    """
    source = open_source(write(tmp_path / 'bag', np.zeros((16, 32), np.uint8)))

    def paused(silent: tuple[float, float], clock: bool = True) -> Any:
        report, sent, _ = play(source, silent=silent, clock=clock)
        assert report.pairs == FRAMES
        told, times = ([when for topic, _, when in sent if topic == name]
                       for name in ('/clock', 'left/image_rect'))
        steps = np.diff(times)
        assert np.median(steps) == pytest.approx(PERIOD_S, rel=0.01)
        return report, told, times, [(place + 1, float(steps[place]))
                                     for place in np.flatnonzero(steps > 2 * PERIOD_S)]

    return paused


def test_a_recorded_run_stands_still_before_it_overwrites_what_is_on_its_way(
        paused: Callable[..., Any]) -> None:
    report, clock, times, ((count, pause),) = paused((0.5, 2.5))
    missing = sum(0.5 <= when < 0.5 + PERIOD_S * (player.DEPTH + 1) for when in times[:count])
    assert player.DEPTH // 2 <= missing <= player.DEPTH
    assert report.waited_s == pytest.approx(pause, abs=2 * PERIOD_S)
    begin, end = times[count - 1] + 0.1, times[count] - 0.1
    assert not [when for when in clock if begin < when < end]


def test_one_message_goes_alone_until_the_subscriber_knows_the_publisher(
        paused: Callable[..., Any]) -> None:
    """Discovery has two directions; that it takes a while is not the fault of the machine."""
    report, _, _, ((count, _),) = paused((0, 3))
    assert (count, report.waited_s) == (1, 0)


@pytest.mark.parametrize('start', [0, 0.5])
def test_a_subscriber_that_stops_for_good_holds_a_recorded_run_up_once_and_a_camera_never(
        paused: Callable[..., Any], start: float) -> None:
    for clock in (True, False):
        report, _, _, pauses = paused((start, 1e9), clock)
        assert len(pauses) == clock
        assert report.waited_s == pytest.approx(
            player.ACKNOWLEDGE_LIMIT_S if clock else 0, rel=1e-3)
