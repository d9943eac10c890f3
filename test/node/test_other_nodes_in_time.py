"""Synchronisers of message_filters pair the results of a frame with each other and its images.

``ExactTime`` of C++ is repeated from its rules. Those of Python are run where they are installed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
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

#: A synchroniser of so many topics: its ``add(topic, message)``, and the sets.
Made = tuple[Callable[[int, Any], None], list[tuple[Any, ...]]]


def exact_time(topics: int) -> Made:
    """``sync_policies::ExactTime`` of C++: sets of messages of one stamp.

    It keeps ``QUEUE`` stamps that are not complete, and of these none before the last set.
    """
    sets: list[tuple[Any, ...]] = []
    waiting: dict[int, dict[int, Any]] = {}

    def add(topic: int, message: Any) -> None:
        stamp = stamp_of(message)
        found = waiting.setdefault(stamp, {})
        found[topic] = message
        if len(found) == topics:
            sets.append(tuple(found[i] for i in range(topics)))
            for old in [one for one in waiting if one <= stamp]:
                del waiting[old]
        while len(waiting) > QUEUE:
            del waiting[min(waiting)]

    return add, sets


def of_python(name: str, *options: Any) -> Callable[[int], Made]:
    """A synchroniser of the Python of message_filters."""
    def make(topics: int) -> Made:
        message_filters = package('message_filters')
        inputs = [message_filters.SimpleFilter() for _ in range(topics)]
        found: list[tuple[Any, ...]] = []
        synchronizer = getattr(message_filters, name)(inputs, QUEUE, *options)
        synchronizer.registerCallback(lambda *messages: found.append(messages))
        return lambda topic, message: inputs[topic].signalMessage(message), found

    return make


SYNCHRONIZERS = {
    'C++ ExactTime': exact_time, 'Python TimeSynchronizer': of_python('TimeSynchronizer'),
    'Python ApproximateTimeSynchronizer': of_python('ApproximateTimeSynchronizer', 0.01)}


def paired(make: Callable[[int], Made], streams: Sequence[Sequence[Any]], seed: int
           ) -> list[tuple[Any, ...]]:
    """The sets that a synchroniser makes of topics which arrive mixed at random.

    Each keeps its order, and none is ``QUEUE`` messages of its own before the slowest.
    """
    add, found = make(len(streams))
    draw, given = random.Random(seed), [0] * len(streams)
    while any(k < len(stream) for k, stream in zip(given, streams, strict=True)):
        left = [i for i, stream in enumerate(streams) if given[i] < len(stream)]
        slowest = min(given[i] for i in left)
        topic = draw.choice([i for i in left if given[i] < slowest + QUEUE - 1])
        add(topic, streams[topic][given[topic]])
        given[topic] += 1
    return found


class Camera:
    """Stamped images and camera_infos of both sides, and what the node has made of them."""

    def __init__(self, client: Any) -> None:
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
                info = client.info(side, W, H)
                image = client.image(pixels[:, columns], frame_id=info.header.frame_id)
                client.send_info(side, info, stamp)
                client.send_image(side, image, stamp)
                self.sent[f'{side}/image'].append(image)
                self.sent[f'{side}/info'].append(info)
            if frame != WITHOUT:
                self.stamps.append(stamp)
                client.result('disparity', stamp)
        self.results = {topic: [client.result(topic, stamp) for stamp in self.stamps]
                        for topic in RESULTS}


@pytest.fixture(scope='module')
def camera(client: Any) -> Camera:
    for topic in RESULTS:
        if topic not in client.subscriptions:
            client.subscribe(topic)
    return Camera(client)


@pytest.mark.parametrize('name', SYNCHRONIZERS)
def test_results_are_paired_with_each_other_and_with_the_images_of_their_frame(
        camera: Camera, name: str) -> None:
    """As point_cloud_node, stereo_view and disparity of depth_image_proc do it; also after a
    frame that had no partner."""
    results = list(camera.results.values())
    mixed = [*camera.sent.values(), camera.results['disparity'],
             camera.results['depth/image_rect']]
    for seed in range(20):
        sets = paired(SYNCHRONIZERS[name], results, seed)
        assert [stamp_of(one[0]) for one in sets] == camera.stamps
        for messages in sets:
            assert every(one.header == messages[0].header for one in messages)
            assert messages[0].header.frame_id == 'left_camera'
        sets = paired(SYNCHRONIZERS[name], mixed, seed)
        assert [[stamp_of(one) for one in messages] for messages in sets] == [
            [stamp] * len(mixed) for stamp in camera.stamps]


def test_results_have_the_stamp_of_the_left_image_where_the_right_one_is_later(
        client: Any, camera: Camera) -> None:
    assert client.set_parameters(approximate_sync=True)[0].successful
    try:
        left, right = camera.sent['left/image'][0], camera.sent['right/image'][0]
        stamp = max(client.now_ns(), camera.stamps[-1] + PERIOD)
        for side in ('left', 'right'):
            client.send_info(side, client.info(side, W, H), stamp + 4_000_000 * (side == 'right'))
        client.send_image('left', left, stamp)
        client.send_image('right', right, stamp + 4_000_000)
        for topic in RESULTS:
            client.result(topic, stamp)
    finally:
        client.set_parameters(approximate_sync=False)


def test_subscribers_of_message_filters_are_called_with_whole_frames(client: Any, camera: Camera
                                                                     ) -> None:
    """In Python, over ROS."""
    message_filters = package('message_filters')
    topics = ('disparity', 'depth/image_rect', 'depth/camera_info', 'points2')
    subscribers = [message_filters.Subscriber(client.node, TOPICS[topic].kind, topic)
                   for topic in topics]
    found: list[tuple[Any, ...]] = []
    synchronizer = message_filters.TimeSynchronizer(subscribers, FRAMES)
    synchronizer.registerCallback(lambda *messages: found.append(messages))
    client.wait_until_known()
    try:
        stamps = Camera(client).stamps
        client.wait_until(lambda: len(found) == len(stamps), what='every frame as a set')
    finally:
        for one in subscribers:
            client.node.destroy_subscription(one.sub)
    assert [stamp_of(messages[0]) for messages in found] == stamps
    assert every(one.header == messages[0].header for messages in found for one in messages)
