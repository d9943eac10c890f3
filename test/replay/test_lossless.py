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
        timers = [threading.Timer(after_s, child.send_signal, (what,))
                  for after_s, what in ((0.4, signal.SIGSTOP), (2.4, signal.SIGCONT))]
        for timer in timers:
            timer.start()
        report = player.play()
        timers[1].join()
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


class Played:
    """A play to a subscriber that acknowledges nothing at some times, on a clock of its own.

    :param silent: seconds from when on, and until when, nothing is acknowledged.
    """

    def __init__(self, recording: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
                 silent: tuple[float, float], clock: bool = True) -> None:
        from stereo_bp_ros.replay import player
        self.now = 0.0
        self.sent: list[tuple[str, float]] = []
        self.silent = silent
        monkeypatch.setattr(player, 'time', types.SimpleNamespace(
            perf_counter=lambda: self.now, time_ns=lambda: round(self.now * 1e9),
            sleep=self.sleep))
        node: Any = types.SimpleNamespace(create_publisher=self.publisher)
        self.report = player.Player(node, open_source(recording), clock=clock).play()
        assert self.report.pairs == FRAMES
        self.times = [when for topic, when in self.sent if topic == 'left/image_rect']
        steps = np.diff(self.times)
        assert np.median(steps) == pytest.approx(PERIOD_S, rel=0.01)
        #: Images that were published before each pause, and how long it was.
        self.pauses = [(int(place) + 1, float(steps[place]))
                       for place in np.flatnonzero(steps > 2 * PERIOD_S)]

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def publisher(self, _: Any, topic: str, qos: Any) -> Any:
        return types.SimpleNamespace(
            publish=lambda data: self.sent.append((topic, self.now)), topic_name=topic,
            wait_for_all_acked=self.acknowledged)

    def acknowledged(self, timeout: Any) -> bool:
        start, end = self.silent
        if not start <= self.now < end:
            return True
        self.sleep(1e-6 + timeout.nanoseconds / 1e9)
        return False


def test_a_recorded_run_stands_still_before_it_overwrites_what_is_on_its_way(
        recording: pathlib.Path, monkeypatch: pytest.MonkeyPatch, context: Any) -> None:
    from stereo_bp_ros.replay import player
    played = Played(recording, monkeypatch, (0.5, 2.5))
    (count, pause), = played.pauses
    missing = sum(0.5 <= when < 0.5 + PERIOD_S * (player.DEPTH + 1)
                  for when in played.times[:count])
    assert player.DEPTH // 2 <= missing <= player.DEPTH
    assert played.report.waited_s == pytest.approx(pause, abs=2 * PERIOD_S)
    begin, end = played.times[count - 1] + 0.1, played.times[count] - 0.1
    assert not [when for topic, when in played.sent if topic == '/clock' and begin < when < end]


def test_one_message_goes_alone_until_the_subscriber_knows_the_publisher(
        recording: pathlib.Path, monkeypatch: pytest.MonkeyPatch, context: Any) -> None:
    """Discovery has two directions; that it takes a while is not the fault of the machine."""
    played = Played(recording, monkeypatch, (0, 3))
    assert [count for count, _ in played.pauses] == [1]
    assert played.report.waited_s == 0


@pytest.mark.parametrize('clock', [True, False], ids=['/clock', 'as a camera'])
@pytest.mark.parametrize('start', [0, 0.5])
def test_a_subscriber_that_stops_for_good_holds_a_recorded_run_up_once_and_a_camera_never(
        recording: pathlib.Path, monkeypatch: pytest.MonkeyPatch, context: Any, clock: bool,
        start: float) -> None:
    from stereo_bp_ros.replay import player
    played = Played(recording, monkeypatch, (start, 1e9), clock)
    assert len(played.pauses) == clock
    assert played.report.waited_s == pytest.approx(
        player.ACKNOWLEDGE_LIMIT_S if clock else 0, rel=1e-3)
