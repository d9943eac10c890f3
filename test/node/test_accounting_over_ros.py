"""Pairing between processes: whatever is lost, late, repeated or started over is accounted for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
from stereo_bp_ros.node.camera_infos import JUDGED

pytestmark = pytest.mark.ros

W, H = 64, 48
MS = 1_000_000
PERIOD = 20 * MS
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 8, 'correlation_window_size': 5,
              'max_input_age': 0.0, 'queue_size': 4}


@pytest.fixture(scope='module')
def client(client: Any) -> Any:
    client.base = client.now_ns() - 100_000_000 * MS
    return client


@pytest.fixture(scope='module')
def images(client: Any, textured_pair: Callable[..., Any]) -> dict[str, Any]:
    left, right = textured_pair(W, H, 3)
    return {'left': client.image(left), 'right': client.image(right)}


@pytest.fixture
def start(client: Any, images: dict[str, Any]) -> Iterator[int]:
    """A stamp after the last published; the camera_info is known and nothing waits."""
    for side in images:
        client.send_info(side, client.info(side, W, H))
    client.base += 100_000 * MS
    # A jump back empties the queues. After so many images without a camera_info of their stamps,
    # as others may have had them, none waits for one.
    for stamp in (*(client.base + 10_000 * MS + k * PERIOD for k in range(JUDGED)), client.base):
        send_and_wait(client, images, stamp)
    # A result is out a moment before it counts as published.
    client.wait_for_status('pairing', lambda status: status.values['held'] == '0')
    yield client.base + PERIOD
    client.set_parameters(max_input_age=0.0, max_latency=0.0, approximate_sync=False)


def send(client: Any, images: dict[str, Any], side: str, stamp: int) -> None:
    client.send_image(side, images[side], stamp)


def send_and_wait(client: Any, images: dict[str, Any], stamp: int) -> None:
    client.send_pair(images['left'], images['right'], stamp)
    client.result('disparity', stamp)


def test_losses_reordering_and_duplicates_on_both_sides(client: Any, images: dict[str, Any],
                                                        start: int) -> None:
    before = client.counts()
    stamps = [start + k * PERIOD for k in range(20)]
    lost = {'left': {3, 4, 9, 15}, 'right': {0, 9, 10}}
    complete = set(range(20)) - lost['left'] - lost['right']
    for k, stamp in enumerate(stamps):
        for side in ('right', 'left') if k % 3 else ('left', 'right'):
            for _ in range(2 if k in (5, 6) else 1):        # duplicates of two images
                if k not in lost[side]:
                    send(client, images, side, stamp)
        if k in complete:
            client.result('disparity', stamp)
    client.expect(before, {
        'received left': 16 + 2, 'received right': 17 + 2, 'pairs': len(complete),
        'published': len(complete),
        # 0 and 10 have no right image, 3, 4 and 15 no left one; the queue keeps four.
        'waiting left': 2, 'waiting right': 3,
        'dropped left: duplicate stamp': 2, 'dropped right: duplicate stamp': 2})


def test_partners_that_never_come_are_unmatched(client: Any, images: dict[str, Any], start: int
                                                ) -> None:
    before = client.counts()
    for k in range(10):
        send(client, images, 'left', start + k * PERIOD)
        time.sleep(0.005)
    after = client.expect(before, {
        'received left': 10, 'waiting left': 4, 'dropped left: unmatched': 6})
    status = client.status('pairing')
    assert after['waiting left'] == 4
    assert status.values['waiting left'] == '4'


def test_a_bag_that_loops_starts_over_and_loses_nothing(client: Any, images: dict[str, Any],
                                                        start: int) -> None:
    before = client.counts()
    stamps = [start + k * 60 * MS for k in range(30)]      # 1.8 s, over the threshold
    for _ in range(3):
        for stamp in stamps:
            seen = len(client.received['disparity'])
            client.send_pair(images['left'], images['right'], stamp)
            client.wait_until(lambda seen=seen: len(client.received['disparity']) > seen)
    assert client.stamps()[-90:] == stamps * 3
    client.expect(before, {
        'received left': 90, 'received right': 90, 'pairs': 90, 'published': 90,
        'clock jumps': 2})
    assert 'stamps went back' in client.log()


def test_stamps_within_the_tolerance_pair_approximately(client: Any, images: dict[str, Any],
                                                        start: int) -> None:
    assert client.set_parameters(atomically=True, approximate_sync=True,
                                 approximate_sync_tolerance_seconds=0.005)[0].successful
    before = client.counts()
    for k in range(4):
        left = start + k * PERIOD
        send(client, images, 'left', left)
        send(client, images, 'right', left + 4 * MS)
        client.result('disparity', left)            # the left stamp
    send(client, images, 'left', start + 10 * PERIOD)
    send(client, images, 'right', start + 10 * PERIOD + 6 * MS)
    client.expect(before, {'received left': 5, 'received right': 5, 'pairs': 4, 'published': 4,
                           'waiting left': 1, 'waiting right': 1})


def test_zero_stamps_are_refused_by_name(client: Any, images: dict[str, Any], start: int
                                         ) -> None:
    before = client.counts()
    for side in images:
        send(client, images, side, 0)
    client.expect(before, {
        'received left': 1, 'received right': 1, 'dropped left: bad input': 1,
        'dropped right: bad input': 1, 'bad input: zero stamp': 2})


def test_stale_future_and_late_pairs_are_told_apart(client: Any, images: dict[str, Any],
                                                    start: int) -> None:
    send_and_wait(client, images, client.now_ns() - 5000 * MS)
    client.set_parameters(max_input_age=0.5)
    before = client.counts()
    seen = client.reports
    client.send_pair(images['left'], images['right'], client.now_ns() - 800 * MS)
    before = client.expect(before, {'received left': 1, 'received right': 1, 'pairs': 1,
                                    'dropped pairs: stale': 1})
    status = client.find_status('input', lambda s: 'max_input_age' in s.message, seen)
    assert status is not None
    assert status.level > 0
    client.send_pair(images['left'], images['right'], client.now_ns() + 300_000 * MS)
    before = client.expect(before, {'received left': 1, 'received right': 1, 'pairs': 1,
                                    'dropped pairs: future': 1})
    client.set_parameters(max_input_age=0.0, max_latency=0.3)
    client.send_pair(images['left'], images['right'], client.now_ns() - 700 * MS)
    # Back from the future by more than the threshold: also a jump.
    client.expect(before, {'received left': 1, 'received right': 1, 'pairs': 1,
                           'clock jumps': 1, 'dropped pairs: late': 1})


def test_frames_faster_than_they_are_matched_are_superseded_never_queued(
        client: Any, images: dict[str, Any], start: int) -> None:
    assert client.set_parameters(atomically=True, stereo_algorithm='bp', disparity_range=64,
                                 iterations=200)[0].successful
    try:
        client.wait_for_algorithm('bp')
        send_and_wait(client, images, start)
        before = client.counts()
        for k in range(1, 61):
            client.send_pair(images['left'], images['right'], start + k * PERIOD)
            time.sleep(0.001)
        send_and_wait(client, images, start + 61 * PERIOD)
        after = client.settled()
        assert after['pairs'] - before['pairs'] == 61
        published = after['published'] - before['published']
        dropped = (after['dropped pairs: superseded'] - before['dropped pairs: superseded'])
        assert after['pairs'] - before['pairs'] == published + dropped
        assert dropped > 0
        assert client.stamps()[-published:] == sorted(client.stamps()[-published:])
    finally:
        client.set_parameters(atomically=True, stereo_algorithm='sad', disparity_range=8,
                              iterations=7)


def test_results_are_strictly_newer_except_after_a_jump(client: Any, images: dict[str, Any],
                                                        start: int) -> None:
    random = np.random.default_rng(5)
    before = client.counts()
    seen = len(client.received['disparity'])
    order = [start + int(k) * PERIOD for k in random.integers(0, 40, 120)]
    for stamp in order:
        client.send_pair(images['left'], images['right'], stamp)
        time.sleep(0.002)
    after = client.settled()
    published = after['published'] - before['published']
    client.wait_until(lambda: len(client.received['disparity']) == seen + published)
    stamps = client.stamps()[seen:]
    assert stamps == sorted(set(stamps))
    assert after['clock jumps'] == before['clock jumps']
    assert published > 0
    assert after['received left'] - before['received left'] == len(order)
