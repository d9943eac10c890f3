"""What /diagnostics and the log say of a real node: the cause, while it lasts, and no longer."""

from __future__ import annotations

import pathlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros

W, H = 96, 64
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'correlation_window_size': 5}
PERIOD = 0.05

#: Reports, of which this node makes five a second, within which a condition ends with its cause:
#: two seconds, and as long for the machine to bring the end to the node.
ENDS_WITHIN = 20

#: Another engine takes it 1.8 s to build, and every frame 0.25 s from then on.
SLOW_NODE = """
import sys, time
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher
from stereo_bp_ros.node import main, node
node.Ticker = lambda period_s, tick, of=node.Ticker: of(period_s / 5, tick)
class Slow(StereoMatcher):
    pause = 0.0
    def reconfigure(self, config, calibration=None):
        is_new = super().reconfigure(config, calibration)
        if is_new:
            time.sleep(1.8)
            Slow.pause = 0.25
        return is_new
    def compute(self, *arguments, **options):
        time.sleep(Slow.pause)
        return super().compute(*arguments, **options)
sys.exit(main.main(matcher_factory=Slow))
"""


class Camera:
    """Publishes pairs at 20 Hz until it is told to stop; attributes may change meanwhile."""

    def __init__(self, client: Any, left: np.ndarray, right: np.ndarray) -> None:
        self.client = client
        self.images = {'left': client.image(left), 'right': client.image(right)}
        self.infos = client.infos(left.shape[1], left.shape[0])
        self.behind = {'left': 0.0, 'right': 0.0}
        #: Every so many images of a side are sent.
        self.every = {'left': 1, 'right': 1}
        self._rounds = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Camera:
        self._thread.start()
        self.client.wait_for_status('pairing', self._is_flowing)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    @staticmethod
    def _is_flowing(status: Any) -> bool:
        number, _, published = status.message.partition(' pairs ')
        return bool(status.level == 0 and published and int(number) > 0.1 / PERIOD)

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            k, stamp = self._rounds, self.client.now_ns()
            for side, message in self.images.items():
                if not k % 5:
                    self.client.send_info(side, self.infos[side], stamp)
                if not k % self.every[side]:
                    self.client.send_image(side, message, stamp - int(self.behind[side] * 1e9))
            self._rounds += 1

    def ends_in_time(self, name: str, text: str) -> None:
        """The cause has ended: a status no longer has a text soon after that has been sent."""
        end = self._rounds + 6          # a camera_info goes with every fifth pair
        self.client.wait_until(lambda: self._rounds >= end, what='the camera')
        ends_in_time(self.client, name, text)


def ends_in_time(client: Any, name: str, text: str) -> None:
    before = client.reports
    client.wait_for_status(name, lambda status: text not in status.message)
    reports = client.reports - before
    assert reports <= ENDS_WITHIN, f'{text!r} took {reports} reports to end'


@pytest.fixture
def camera(client: Any, textured_pair: Callable[..., Any]) -> Iterator[Camera]:
    with Camera(client, *textured_pair(W, H, 5)) as camera:
        yield camera


def test_a_side_that_falls_behind_silent_or_is_lost_is_an_error_that_ends_with_the_cause(
        client: Any, camera: Camera, repository: pathlib.Path) -> None:
    def error(text: str) -> str:
        status = client.wait_for_status('pairing', lambda s: s.level == 2 and text in s.message)
        assert status.message.startswith('nothing published for ')
        return str(status.message)

    camera.behind['left'] = 10.0
    text = 'the stamps of left images are '
    seconds = float(error(text).split(text)[1].split()[0])
    assert seconds == pytest.approx(10.0, abs=0.3)
    camera.behind['left'] = 0.0
    camera.ends_in_time('pairing', 'nothing published')
    camera.every['left'] = 10**6
    error('no left images')
    assert 'both sides' not in client.status('pairing').message
    assert 'nothing on /left/image_rect for' in client.status('input').message
    camera.every['left'] = 3
    # A report counts the images since the one before: some of the first one's may all have come.
    status = client.wait_for_status('pairing', lambda s: 0.5 < lost_part(s.message) < 0.8)
    assert 'see Large images and Fast DDS in the README' in status.message
    assert '### Large images and Fast DDS' in (repository / 'README.md').read_text()
    assert 'approximate_sync' not in status.message
    camera.every['left'] = 1
    camera.ends_in_time('pairing', 'do not arrive')
    assert 'nothing published for' in client.log()


def lost_part(message: str) -> float:
    """The part of the left images that a status says to be missing; 0 where it says nothing."""
    match = re.search('left images do not arrive: ([0-9]+) of ([0-9]+) are missing', message)
    return int(match[1]) / int(match[2]) if match else 0.0


def test_a_calibration_fault_ends_with_it_or_when_nobody_wants_a_result_any_more(
        client: Any, camera: Camera) -> None:
    good = camera.infos['right']
    turned = [500.0, 0, 48.0, -50.0, 0, 500.0, 36.0, 0, 0, 0, 1.0, 0]
    camera.infos['right'] = client.info('right', W, H, p=turned)
    client.wait_for_status('input', lambda s: 'rows do not match' in s.message)
    camera.infos['right'] = good
    camera.ends_in_time('input', 'rows do not match')
    camera.infos['right'] = client.info('right', W, H, baseline=0.0)
    client.wait_for_status('input', lambda s: 'zero baseline' in s.message)
    for name in ('disparity', 'depth'):
        client.unsubscribe(name)
    try:
        ends_in_time(client, 'input', 'zero baseline')
        assert client.status('pairing').message == 'idle: no subscribers'
    finally:
        camera.infos['right'] = good
        for name in ('disparity', 'depth'):
            client.subscribe(name)


def test_rows_that_do_not_match_are_measured_and_end_with_their_cause(
        client: Any, textured_pair: Callable[..., Any]) -> None:
    left, right = textured_pair(4 * W, 4 * H, 5)
    with Camera(client, left, right) as camera:
        status = client.wait_for_status('input', lambda s: 'vertical points' in s.values)
        assert abs(float(status.values['vertical offset px'])) < 0.1
        assert float(status.values['nearest m']) > 0
        camera.images['right'] = client.image(np.roll(right, 2, axis=0))
        status = client.wait_for_status('input', lambda s: 'vertical disparity' in s.message)
        assert status.level == 1
        assert float(status.values['vertical offset px']) == pytest.approx(2, abs=0.1)
        camera.images['right'] = client.image(right)
        client.wait_for_status('input', lambda s: 'vertical disparity' not in s.message)


def test_a_latency_over_the_budget_ends_with_the_frames(client: Any,
                                                        textured_pair: Callable[..., Any]) -> None:
    client.set_parameters(latency_budget_ms=0.001)
    with Camera(client, *textured_pair(W, H, 5)):
        client.wait_for_status('latency', lambda s: s.level == 1)
    ends_in_time(client, 'latency', 'over latency_budget_ms')
    client.set_parameters(latency_budget_ms=0.0)


def test_an_incompatible_qos_ends_when_the_other_end_has_gone(client: Any) -> None:
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
    from sensor_msgs.msg import Image
    from stereo_msgs.msg import DisparityImage

    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    other = client.node.create_subscription(DisparityImage, 'disparity', print, latched)
    status = client.wait_for_status('input', lambda s: 'incompatible QoS' in s.message)
    assert client.node.get_name() in status.message
    # It stays for as long as the other end is there.
    for _ in range(3):
        assert ('a subscription of /disparity has an incompatible QoS (durability)'
                in client.status('input').message)
    client.node.destroy_subscription(other)
    ends_in_time(client, 'input', 'incompatible QoS')
    best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = client.node.create_publisher(Image, 'left/image_rect', best_effort)
    client.wait_for_status('input', lambda s: (
        'a publisher of /left/image_rect has an incompatible QoS (reliability)' in s.message))
    client.node.destroy_publisher(publisher)
    ends_in_time(client, 'input', 'incompatible QoS')


def test_two_nodes_of_one_name_are_said_until_one_has_gone(client: Any) -> None:
    import rclpy

    other = rclpy.create_node('stereo_bp', context=client.context)
    text = '2 nodes are named /stereo_bp'
    try:
        status = client.wait_for_status('device', lambda s: text in s.message)
        assert status.level == 1
    finally:
        other.destroy_node()
    ends_in_time(client, 'device', text)
    assert text in client.log()


def test_a_rebuild_is_a_warning_and_no_error_also_where_it_leaves_4_hz(
        start: Any, textured_pair: Callable[..., Any]) -> None:
    client = start({**PARAMETERS, 'max_input_age': 60.0}, code=SLOW_NODE)
    with Camera(client, *textured_pair(W, H, 5)):
        assert client.set_parameters(disparity_range=32)[0].successful
        status = client.wait_for_status(
            'pairing', lambda one: 'a new engine is being built' in one.message)
        assert status.level == 1
        client.wait_for_status('pairing', lambda one: 'nothing published' not in one.message)
        published = int(client.status('pairing').values['published'])
        client.wait_for_status(
            'pairing', lambda one: int(one.values['published']) >= published + 4)
    assert not re.findall(r'\[ERROR\].*', client.log())
    assert 'nothing published for' in client.log()
