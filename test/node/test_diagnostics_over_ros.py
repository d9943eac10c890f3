"""What /diagnostics and the log say of a real node: the cause, while it lasts, and no longer."""

from __future__ import annotations

import pathlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from test.cases import every, slow

pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros

W, H = 96, 64
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'correlation_window_size': 5}
PERIOD = 0.05

#: Reports, of which this node makes five a second, within which a condition ends with its cause:
#: two seconds, and as long for the machine to bring the end to the node.
ENDS_WITHIN = 20


#: Another engine takes it 2.5 s to build, and every frame 0.25 s from then on.
SLOW_NODE = """
import sys, time
from stereo_bp_ros.matcher import StereoMatcher
from stereo_bp_ros.node import main
class Slow(StereoMatcher):
    pause = 0.0
    def reconfigure(self, config, calibration=None):
        is_new = super().reconfigure(config, calibration)
        if is_new:
            time.sleep(2.5)
            Slow.pause = 0.25
        return is_new
    def compute(self, *arguments, **options):
        time.sleep(Slow.pause)
        return super().compute(*arguments, **options)
sys.exit(main.main(matcher_factory=Slow))
"""


class Camera:
    """Publishes pairs at 20 Hz until it is told to stop; attributes may change meanwhile."""

    def __init__(self, client: Any, textured_pair: Callable[..., Any], width: int = W,
                 height: int = H) -> None:
        self.client = client
        self.images = {side: client.image(pixels) for side, pixels in zip(
            ('left', 'right'), textured_pair(width, height, 5), strict=True)}
        self.infos = {side: client.info(side, width, height) for side in self.images}
        self.behind = {'left': 0.0, 'right': 0.0}
        self.standing = False
        #: Of each side, which of the images are sent.
        self.sends: dict[str, Callable[[int], bool]] = dict.fromkeys(self.images,
                                                                      lambda k: True)
        self.before_sending: Callable[[], None] = lambda: None
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

    def wait_until_sent(self) -> None:
        """Until all that is to be sent has been sent as it is to be by now."""
        end = self._rounds + 6          # a camera_info goes with every fifth pair
        self.client.wait_until(lambda: self._rounds >= end, what='the camera')

    def _run(self) -> None:
        stamp = 0
        while not self._stop.wait(PERIOD):
            k = self._rounds
            if not self.standing:
                stamp = self.client.now_ns()
            self.before_sending()
            for side, message in self.images.items():
                if not k % 5:
                    self.client.send_info(side, self.infos[side], stamp)
                if self.sends[side](k):
                    self.client.send_image(side, message,
                                           stamp - int(self.behind[side] * 1e9))
            self._rounds += 1


@pytest.fixture
def camera(client: Any, textured_pair: Callable[..., Any]) -> Iterator[Camera]:
    with Camera(client, textured_pair) as camera:
        yield camera


def ends_in_time(client: Any, name: str, text: str, camera: Camera | None = None) -> None:
    """A status no longer has a text soon after the cause has ended, which the camera sends."""
    if camera is not None:
        camera.wait_until_sent()
    before = client.reports
    client.wait_for_status(name, lambda status: text not in status.message)
    reports = client.reports - before
    assert reports <= ENDS_WITHIN, f'{text!r} took {reports} reports to end'


def nothing_published(client: Any) -> Any:
    status = client.wait_for_status('pairing', lambda s: s.level == 2)
    assert status.message.startswith('nothing published for ')
    return status


def test_stamps_that_stand_still_are_an_error_with_the_cause(client: Any, camera: Camera) -> None:
    camera.standing = True
    status = nothing_published(client)
    assert 'stamps stand still' in status.message
    assert 'duplicate stamp' in status.message
    camera.standing = False
    ends_in_time(client, 'pairing', 'nothing published', camera)
    assert 'nothing published for' in client.log()


@pytest.mark.parametrize(('late', 'other'), [('left', 'right'), *slow(('right', 'left'))])
def test_a_side_that_falls_behind_is_an_error_with_the_difference(
        client: Any, camera: Camera, late: str, other: str) -> None:
    camera.behind[late] = 10.0
    status = nothing_published(client)
    expected = f'the stamps of {late} images are '
    status = client.wait_for_status('pairing', lambda s: expected in s.message)
    assert status.level == 2
    assert f' s behind those of {other} ones' in status.message
    seconds = float(status.message.split(expected)[1].split()[0])
    assert seconds == pytest.approx(10.0, abs=0.3)
    camera.behind[late] = 0.0
    ends_in_time(client, 'pairing', 'nothing published', camera)


def test_a_side_that_falls_silent_is_named_by_both_statuses(client: Any, camera: Camera) -> None:
    camera.sends['left'] = lambda k: False
    status = client.wait_for_status('pairing', lambda s: 'no left images' in s.message)
    assert status.level == 2
    for status in [client.status('pairing') for _ in range(2)]:
        assert 'both sides' not in status.message
        assert 'no left images' in status.message
    assert 'nothing on /left/image_rect for' in client.status('input').message
    camera.sends['left'] = lambda k: True
    ends_in_time(client, 'pairing', 'nothing published', camera)


def lost_part(status: Any, side: str) -> float:
    """The part of a side's images that a status says to be missing; 0 where it says nothing."""
    found = re.search(f'{side} images do not arrive: ([0-9]+) of ([0-9]+) are missing',
                      status.message)
    return int(found[1]) / int(found[2]) if found else 0.0


def test_images_lost_on_the_way_are_said_instead_of_advice_on_tolerances(
        client: Any, camera: Camera, repository: pathlib.Path) -> None:
    camera.sends['left'] = lambda k: not k % 3
    # A report counts the images since the one before: some of the first one's may all have come.
    status = client.wait_for_status('pairing', lambda s: 0.5 < lost_part(s, 'left') < 0.8)
    assert 'see Large images and Fast DDS in the README' in status.message
    assert '### Large images and Fast DDS' in (repository / 'README.md').read_text()
    assert 'approximate_sync' not in status.message
    camera.sends['left'] = lambda k: True
    ends_in_time(client, 'pairing', 'do not arrive', camera)


def test_a_calibration_fault_ends_with_it(client: Any, camera: Camera) -> None:
    good = dict(camera.infos)
    for faulty, text in (({'baseline': 0.0}, 'zero baseline'),
                         ({'p': [500.0, 0, 48.0, -50.0, 0, 500.0, 36.0, 0, 0, 0, 1.0, 0]},
                          'rows do not match')):
        camera.infos['right'] = client.info('right', W, H, **faulty)
        client.wait_for_status('input', lambda s, text=text: text in s.message)
        camera.infos['right'] = good['right']
        ends_in_time(client, 'input', text, camera)


def test_rows_that_do_not_match_are_measured_and_end_with_their_cause(
        client: Any, textured_pair: Callable[..., Any]) -> None:
    left, right = textured_pair(4 * W, 4 * H, 5)
    with Camera(client, lambda *_: (left, right), 4 * W, 4 * H) as camera:
        status = client.wait_for_status('input', lambda s: 'vertical points' in s.values)
        assert abs(float(status.values['vertical offset px'])) < 0.1
        assert float(status.values['nearest m']) > 0
        camera.images['right'] = client.image(np.roll(right, 2, axis=0))
        status = client.wait_for_status('input', lambda s: 'calibrate' in s.message)
        assert status.level == 1
        assert float(status.values['vertical offset px']) == pytest.approx(2, abs=0.1)
        camera.images['right'] = client.image(right)
        client.wait_for_status('input', lambda s: 'calibrate' not in s.message)


def test_a_calibration_fault_ends_when_nobody_wants_a_result_any_more(
        client: Any, camera: Camera) -> None:
    good = camera.infos['right']
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


def test_a_latency_over_the_budget_ends_with_the_frames(client: Any,
                                                        textured_pair: Callable[..., Any]) -> None:
    client.set_parameters(latency_budget_ms=0.001)
    with Camera(client, textured_pair):
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
    time.sleep(1.0)                         # it stays for as long as the other end is there
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


def test_texts_in_messages_flood_neither_the_log_nor_the_diagnostics(client: Any, camera: Camera
                                                                     ) -> None:
    """100 kB of encoding, another one in every image, for 3 s; more would get lost."""
    before = len(client.log())
    count = 0

    def other_text() -> None:
        nonlocal count
        count += 1
        for side, message in camera.images.items():
            message.encoding = f'{side} {count} \n\x1b[2J' + chr(ord('a') + count % 26) * 100_000

    camera.before_sending = other_text
    time.sleep(3)
    status = client.status('input')
    assert 'bad input: unknown encoding: ' in status.message
    assert len(status.message) < 1000
    assert every(len(text) < 200 for text in status.values.values())
    assert '\n' not in status.message
    assert nothing_published(client).message
    camera.before_sending = lambda: None
    for message in camera.images.values():
        message.encoding = 'mono8'
    ends_in_time(client, 'input', 'bad input', camera)
    logged = client.log()[before:]
    assert len(logged) < 5000
    client.wait_until(lambda: ' more in ' in client.log()[before:], what='the count')


def test_a_rebuild_that_leaves_4_hz_is_a_warning_and_no_error(
        start: Any, textured_pair: Callable[..., Any]) -> None:
    client = start({**PARAMETERS, 'max_input_age': 60.0}, code=SLOW_NODE)
    with Camera(client, textured_pair):
        assert client.set_parameters(disparity_range=32)[0].successful
        status = client.wait_for_status(
            'pairing', lambda one: 'a new engine is being built' in one.message)
        assert status.level == 1
        client.wait_for_status('pairing', lambda one: 'nothing published' not in one.message)
        published = int(client.status('pairing').values['published'])
        client.wait_for_status(
            'pairing', lambda one: int(one.values['published']) >= published + 8)
    assert not re.findall(r'\[ERROR\].*', client.log())
    assert 'nothing published for' in client.log()
    assert client.node_process.end() == 0
