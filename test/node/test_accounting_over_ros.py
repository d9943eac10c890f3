"""Pairing between processes: whatever is lost, late, repeated or started over is accounted for.

Calibrations may change meanwhile: no frame mixes two of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip('rclpy')
from stereo_bp_ros.node.camera_infos import JUDGED
from test.node.client import stamp_of

pytestmark = pytest.mark.ros

W, H = 64, 48
MS = 1_000_000
HOUR = 3_600_000 * MS
PERIOD = 20 * MS
#: Of cameras whose calibration changes. Beside a busy core, messages without common stamps may
#: come late, but not by as much as it lasts.
RATE, FRAMES, SECONDS_PER_CALIBRATION = 20.0, 40, 0.25
#: How far the principal points move with a calibration: what half a change shifts disparities by.
MOVED = 40.0
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
    client.set_parameters(max_input_age=0.0, max_latency=0.0)


def send_and_wait(client: Any, images: dict[str, Any], stamp: int) -> None:
    client.send_pair(images['left'], images['right'], stamp)
    client.result('disparity', stamp)


def test_losses_reordering_duplicates_and_zero_stamps_on_both_sides(
        client: Any, images: dict[str, Any], start: int) -> None:
    before = client.counts()
    seen = client.reports
    stamps = [start + k * PERIOD for k in range(20)]
    lost = {'left': {3, 4, 9, 15}, 'right': {0, 9, 10}}
    complete = set(range(20)) - lost['left'] - lost['right']
    for k, stamp in enumerate(stamps):
        for side in ('right', 'left') if k % 3 else ('left', 'right'):
            for _ in range(2 if k in (5, 6) else 1):        # duplicates of two images
                if k not in lost[side]:
                    client.send_image(side, images[side], stamp)
        if k in complete:
            client.result('disparity', stamp)
    for side in images:
        client.send_image(side, images[side], 0)
    client.expect(before, {
        'received left': 16 + 2 + 1, 'received right': 17 + 2 + 1, 'pairs': len(complete),
        'published': len(complete),
        # 0 and 10 have no right image, 3, 4 and 15 no left one; the queue keeps four.
        'waiting left': 2, 'waiting right': 3,
        'dropped left: duplicate stamp': 2, 'dropped right: duplicate stamp': 2,
        'dropped left: bad input': 1, 'dropped right: bad input': 1, 'bad input: zero stamp': 2})
    for words, level in (('bad input: zero stamp: images have the stamp 0', 2),
                         ('images have the stamp of another image of their side', 1)):
        status = client.find_status(
            'input', lambda s, words=words: words in s.message, seen)
        assert status is not None
        assert status.level >= level


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


def stream(client: Any, images: dict[str, Any], order: str, info_offset: int) -> dict[int, int]:
    """Publish frames in an order; returns each stamp with the number of its calibration."""
    begin, start_ns = time.monotonic(), client.now_ns()
    numbers = {}
    for frame in range(FRAMES):
        time.sleep(max(0.0, begin + frame / RATE - time.monotonic()))
        stamp = start_ns + round(frame / RATE * 1e9)
        numbers[stamp] = number = int(frame / RATE / SECONDS_PER_CALIBRATION)
        for message in order.split():
            side, what = message.split('/')
            if what == 'image':
                client.send_image(side, images[side], stamp)
            else:
                info = client.info(side, W, H, focal=500.0 + number,
                                   cx=W / 2 + MOVED * (number % 2))
                client.send_info(side, info, stamp + info_offset)
    return numbers


@pytest.mark.parametrize(('order', 'is_stamped'), [
    ('left/image right/image left/info right/info', True),
    ('left/image left/info right/info right/image', False)])
def test_no_frame_mixes_the_calibrations_of_its_sides(
        client: Any, images: dict[str, Any], order: str, is_stamped: bool) -> None:
    seen, superseded = len(client.received['disparity']), 'dropped pairs: superseded'
    before = client.counts()
    numbers = stream(client, images, order, 0 if is_stamped else HOUR)
    dropped = client.settled()[superseded] - before[superseded]
    messages = client.received['disparity'][seen:]
    assert len(messages) > 0.5 * (FRAMES - dropped) > 0     # a busy machine supersedes some
    # Equal principal points shift nothing: half a change would shift by MOVED.
    assert {message.min_disparity for message in messages} == {0.0}
    matched = [(stamp_of(message), round(message.f - 500)) for message in messages]
    if is_stamped:
        assert [pair for pair in matched if pair[1] != numbers[pair[0]]] == []
    else:
        most = 0.5 * len(set(numbers.values()))
        assert len({number for _, number in matched}) > most * (1 - dropped / FRAMES)
