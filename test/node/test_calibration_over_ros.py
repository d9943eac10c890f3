"""Calibrations that change while images stream in, over DDS: no frame mixes two of them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from test.cases import slow

pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros

W, H = 64, 48
MS = 1_000_000
HOUR = 3_600_000 * MS
#: Beside a busy core, messages without common stamps may come late, but not by as much.
SECONDS_PER_CALIBRATION = 0.25
#: How far the principal points move with a calibration: what half a change shifts disparities by.
MOVED = 40.0
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 8, 'correlation_window_size': 5,
              'max_input_age': 0.0}

ORDERS = {
    'images first': (('left', 'image'), ('right', 'image'), ('left', 'info'), ('right', 'info')),
    'infos first': (('right', 'info'), ('left', 'info'), ('left', 'image'), ('right', 'image')),
    'side by side': (('left', 'image'), ('left', 'info'), ('right', 'info'), ('right', 'image')),
}


def stream(client: Any, textured_pair: Any, order: str, rate: float, frames: int,
           info_offsets: dict[str, int]) -> dict[int, int]:
    """Publish frames in an order; returns each stamp with the number of its calibration."""
    images = dict(zip(('left', 'right'), textured_pair(W, H, 3), strict=True))
    messages = {side: client.image(pixels) for side, pixels in images.items()}
    begin, start_ns = time.monotonic(), client.now_ns()
    numbers = {}
    for frame in range(frames):
        time.sleep(max(0.0, begin + frame / rate - time.monotonic()))
        stamp = start_ns + round(frame / rate * 1e9)
        numbers[stamp] = number = int(frame / rate / SECONDS_PER_CALIBRATION)
        for side, what in ORDERS[order]:
            if what == 'image':
                client.send_image(side, messages[side], stamp)
            else:
                info = client.info(side, W, H, focal=500.0 + number,
                                   cx=W / 2 + MOVED * (number % 2))
                client.send_info(side, info, stamp + info_offsets[side])
    return numbers


def results(client: Any, after: int) -> list[tuple[int, int, float]]:
    """Stamp, number of the right camera's calibration, and shift of each disparity message."""
    return [(m.header.stamp.sec * 10**9 + m.header.stamp.nanosec, round(m.f - 500),
             m.min_disparity) for m in client.received['disparity'][after:]]


@pytest.mark.parametrize(('rate', 'frames'), [(20.0, 60), *slow((60.0, 400))])
@pytest.mark.parametrize(('order', 'stamped'), [
    ('images first', 'both'), ('infos first', 'left'), ('side by side', 'neither')])
def test_no_frame_mixes_the_calibrations_of_its_sides(
        client: Any, textured_pair: Any, order: str, stamped: str, rate: float, frames: int
        ) -> None:
    offsets = {'both': {'left': 0, 'right': 0}, 'left': {'left': 0, 'right': -HOUR},
               'neither': {'left': HOUR, 'right': HOUR}}[stamped]
    seen, superseded = len(client.received['disparity']), 'dropped pairs: superseded'
    before = client.counts()
    numbers = stream(client, textured_pair, order, rate, frames, offsets)
    dropped = client.settled()[superseded] - before[superseded]
    found = results(client, seen)
    assert len(found) > 0.5 * (frames - dropped) > 0        # a busy machine supersedes some
    # Equal principal points shift nothing: half a change would shift by MOVED.
    assert [result for result in found if result[2] != 0.0] == []
    if stamped == 'both':
        assert [r for r in found if r[1] != numbers[r[0]]] == []
    else:
        most = 0.5 * len(set(numbers.values()))
        assert len({number for _, number, _ in found}) > most * (1 - dropped / frames)
