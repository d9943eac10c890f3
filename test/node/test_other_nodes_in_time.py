"""Synchronisers of message_filters pair the results of a frame with each other and its images.

Those of C++ are repeated from their rules. Those of Python are run where they are installed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')

from stereo_bp_ros.node.publishing import TOPICS
from test.cases import every
from test.node.client import stamp_of
from test.other_nodes import package

pytestmark = pytest.mark.ros

W, H = 160, 120
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0,
              'correlation_window_size': 11}
FRAMES, PERIOD = 9, 33_000_000
#: This frame has no right image: the camera's others have no partner.
WITHOUT = 4
#: What a synchroniser keeps of a topic by default in depth_image_proc and stereo_image_proc.
QUEUE = 5
RESULTS = tuple(topic for topic in TOPICS if 'ompressed' not in topic)      # those are skipped

#: A synchroniser of so many topics, a queue of so many: its ``add(topic, message)``, and the sets.
Made = tuple[Callable[[int, Any], None], list[tuple[Any, ...]]]


class ExactTime:
    """``sync_policies::ExactTime`` of C++: sets of messages of one stamp.

    It keeps so many stamps that are not complete, and of these none before the last set.
    """

    def __init__(self, topics: int, size: int) -> None:
        self.sets: list[tuple[Any, ...]] = []
        self._topics, self._size = topics, size
        self._waiting: dict[int, dict[int, Any]] = {}

    def add(self, topic: int, message: Any) -> None:
        stamp = stamp_of(message)
        waiting = self._waiting.setdefault(stamp, {})
        waiting[topic] = message
        if len(waiting) == self._topics:
            self.sets.append(tuple(waiting[i] for i in range(self._topics)))
            self._waiting = {s: kept for s, kept in self._waiting.items() if s > stamp}
        while len(self._waiting) > self._size:
            del self._waiting[min(self._waiting)]


class ApproximateTime:
    """``sync_policies::ApproximateTime`` of C++ by its rules.

    A message is in one set at most, and sets do not cross. Each is the narrowest in time around
    its pivot, the newest of the oldest messages. It comes when no later message can make it
    narrower. So many messages of a topic are kept.
    """

    def __init__(self, topics: int, size: int) -> None:
        self.sets: list[tuple[Any, ...]] = []
        self._size = size
        self._queues: list[list[Any]] = [[] for _ in range(topics)]

    def add(self, topic: int, message: Any) -> None:
        self._queues[topic].append(message)
        while all(self._queues) and (best := self._best()):
            self.sets.append(best)
            for queue, one in zip(self._queues, best, strict=True):
                del queue[:[kept is one for kept in queue].index(True) + 1]
        if len(self._queues[topic]) > self._size:
            del self._queues[topic][0]

    def _best(self) -> tuple[Any, ...] | None:
        pivot = max(stamp_of(queue[0]) for queue in self._queues)
        ends = {stamp_of(one) for queue in self._queues for one in queue}
        best = min((self._up_to(end) for end in sorted(ends) if end >= pivot), key=width)
        seen = min(stamp_of(queue[-1]) for queue in self._queues)
        # Whatever is still to come is later than ``seen``, and in a set with the pivot.
        return best if width(best) <= max(0, seen - pivot) else None

    def _up_to(self, end: int) -> tuple[Any, ...]:
        return tuple([one for one in queue if stamp_of(one) <= end][-1] for queue in self._queues)


def width(messages: Sequence[Any]) -> int:
    stamps = [stamp_of(one) for one in messages]
    return max(stamps) - min(stamps)


def exact_time(topics: int, size: int) -> Made:
    found = ExactTime(topics, size)
    return found.add, found.sets


def approximate_time(topics: int, size: int) -> Made:
    found = ApproximateTime(topics, size)
    return found.add, found.sets


def of_python(name: str, *options: Any) -> Callable[[int, int], Made]:
    """A synchroniser of the Python of message_filters."""
    def make(topics: int, size: int) -> Made:
        message_filters = package('message_filters')
        inputs = [message_filters.SimpleFilter() for _ in range(topics)]
        found: list[tuple[Any, ...]] = []
        synchronizer = getattr(message_filters, name)(inputs, size, *options)
        synchronizer.registerCallback(lambda *messages: found.append(messages))
        return lambda topic, message: inputs[topic].signalMessage(message), found

    return make


EXACT = {'C++ ExactTime': exact_time, 'Python TimeSynchronizer': of_python('TimeSynchronizer')}
APPROXIMATE = {'C++ ApproximateTime': approximate_time,
               'Python ApproximateTimeSynchronizer': of_python('ApproximateTimeSynchronizer',
                                                               0.01)}
ALL = {**EXACT, **APPROXIMATE}


def paired(make: Callable[[int, int], Made], streams: Sequence[Sequence[Any]], seed: int,
           ahead: int = QUEUE - 1) -> list[tuple[Any, ...]]:
    """The sets that a synchroniser makes of topics which arrive mixed at random.

    Each keeps its order, and none is more than ``ahead`` messages of its own before the slowest.
    """
    add, found = make(len(streams), QUEUE)
    draw, given = random.Random(seed), [0] * len(streams)
    while any(k < len(stream) for k, stream in zip(given, streams, strict=True)):
        left = [i for i, stream in enumerate(streams) if given[i] < len(stream)]
        slowest = min(given[i] for i in left)
        topic = draw.choice([i for i in left if given[i] < slowest + ahead])
        add(topic, streams[topic][given[topic]])
        given[topic] += 1
    return found


class Camera:
    """Stamped images and camera_infos of both sides, and what the node has made of them."""

    def __init__(self, client: Any, right_later_ns: int = 0) -> None:
        noise = np.random.default_rng(3).integers(0, 256, (H, W + 8), np.uint8)
        pixels = cv2.GaussianBlur(noise, (0, 0), 1.5)
        # After those of an earlier camera, and never ahead of the clock.
        begin = max([client.now_ns() - 3 * 10**9, *(last + PERIOD for last in client.stamps())])
        self.sent: dict[str, list[Any]] = {
            f'{side}/{what}': [] for side in ('left', 'right') for what in ('image', 'info')}
        self.stamps = []
        for frame in range(FRAMES):
            stamp = begin + frame * PERIOD
            for side, columns in (('left', slice(0, W)), ('right', slice(8, None))):
                if (side, frame) == ('right', WITHOUT):
                    continue
                own = stamp + right_later_ns * (side == 'right')
                info = client.info(side, W, H)
                image = client.image(pixels[:, columns], frame_id=info.header.frame_id)
                client.send_info(side, info, own)
                client.send_image(side, image, own)
                self.sent[f'{side}/image'].append(image)
                self.sent[f'{side}/info'].append(info)
            if frame != WITHOUT:
                self.stamps.append(stamp)
                client.result('disparity', stamp)
        self.results = {topic: [client.result(topic, stamp) for stamp in self.stamps]
                        for topic in RESULTS}


@pytest.fixture(scope='module')
def subscribed(client: Any) -> Any:
    for topic in RESULTS:
        if topic not in client.subscriptions:
            client.subscribe(topic)
    return client


@pytest.fixture(scope='module')
def camera(subscribed: Any) -> Camera:
    return Camera(subscribed)


@pytest.fixture(scope='module')
def uneven(subscribed: Any) -> Iterator[Camera]:
    """A camera whose right images are 4 ms later."""
    try:
        assert subscribed.set_parameters(approximate_sync=True)[0].successful
        yield Camera(subscribed, right_later_ns=4_000_000)
    finally:
        subscribed.set_parameters(approximate_sync=False)


@pytest.mark.parametrize('name', ALL)
def test_all_results_of_a_frame_are_one_set(camera: Camera, name: str) -> None:
    for seed in range(20):
        sets = paired(ALL[name], list(camera.results.values()), seed)
        assert [stamp_of(one[0]) for one in sets] == camera.stamps
        for messages in sets:
            assert every(one.header == messages[0].header for one in messages)
            assert messages[0].header.frame_id == 'left_camera'


@pytest.mark.parametrize('name', ALL)
def test_results_are_paired_with_the_images_and_camera_infos_of_their_frame(
        camera: Camera, name: str) -> None:
    """As point_cloud_node, stereo_view and disparity of depth_image_proc do it; also after a
    frame that had no partner."""
    streams = [*camera.sent.values(), camera.results['disparity'],
               camera.results['depth/image_rect']]
    for seed in range(20):
        sets = paired(ALL[name], streams, seed)
        assert [[stamp_of(one) for one in messages] for messages in sets] == [
            [stamp] * len(streams) for stamp in camera.stamps]


@pytest.mark.parametrize('name', ALL)
def test_a_queue_has_to_hold_the_images_that_come_before_their_result(camera: Camera, name: str
                                                                      ) -> None:
    images, results = camera.sent['left/image'], camera.results['disparity']
    for late, is_found in ((QUEUE - 1, True), (QUEUE, False)):
        add, found = ALL[name](2, QUEUE)
        for image in images[:1 + late]:
            add(0, image)
        add(1, results[0])
        assert bool(found) is is_found


@pytest.mark.parametrize('name', ALL)
def test_results_have_the_stamp_of_the_left_image_where_the_right_one_is_later(
        uneven: Camera, name: str) -> None:
    left = [uneven.sent['left/image'], uneven.results['disparity'], uneven.results['points2']]
    assert len(paired(ALL[name], left, seed=1)) == FRAMES - 1
    sets = paired(ALL[name], [uneven.sent['right/info'], *left], seed=1)
    if name in EXACT:
        assert sets == []
    else:
        stamps = [[stamp_of(one) for one in messages] for messages in sets]
        # The newest set is certain with the message after it, for which C++ waits.
        assert stamps in ([[s + 4_000_000, s, s, s] for s in uneven.stamps],
                          [[s + 4_000_000, s, s, s] for s in uneven.stamps[:-1]])


def test_subscribers_of_message_filters_are_called_with_whole_frames(subscribed: Any) -> None:
    """In Python, over ROS."""
    message_filters = package('message_filters')
    topics = ('disparity', 'depth/image_rect', 'depth/camera_info', 'points2')
    subscribers = [message_filters.Subscriber(subscribed.node, TOPICS[topic].kind, topic)
                   for topic in topics]
    found: list[tuple[Any, ...]] = []
    synchronizer = message_filters.TimeSynchronizer(subscribers, FRAMES)
    synchronizer.registerCallback(lambda *messages: found.append(messages))
    subscribed.wait_until_known()
    try:
        stamps = Camera(subscribed).stamps
        subscribed.wait_until(lambda: len(found) == len(stamps), what='every frame as a set')
    finally:
        for one in subscribers:
            subscribed.node.destroy_subscription(one.sub)
    assert [stamp_of(messages[0]) for messages in found] == stamps
    assert every(one.header == messages[0].header for messages in found for one in messages)
