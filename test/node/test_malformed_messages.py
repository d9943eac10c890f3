"""Malformed messages: a clear error, counted by reason, nothing published, the next frame fine.

test_frames.py has every reason, without ROS.
"""

from __future__ import annotations

import array
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros

W, H = 96, 64
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0,
              'memory_limit': 1_000_000}


def test_whatever_is_refused_is_told_by_its_reason_and_the_next_good_pair_is_matched(
        client: Any, textured_pair: Callable[..., Any]) -> None:
    pair = textured_pair(W, H, 5)
    large = np.zeros((300, 400), np.uint8)
    client.match(*pair)
    for reason, words, images, cameras in (
            ('short data', '', ({'data': array.array('B', bytes(W * H - 1))}, {}), {}),
            ('too large', '', ({'width': 2**32 - 1, 'step': 2**32 - 1}, {}), {}),
            ('unknown encoding', 'yuv422_yuy2', ({'encoding': 'b\u00e4yer'}, {}), {}),
            ('too large', 'are allowed (memory_limit', (large, large),
             {'width': 400, 'height': 300}),
            ('bad calibration', '', ({}, {}), {'left': {'p': [float('nan')] * 12}}),
            ('bad calibration', '', ({}, {}), {'focal': 1e39})):
        after = client.reports
        stamp = client.send_frame(*(
            client.image(image, **fields) if isinstance(fields, dict) else fields
            for image, fields in zip(pair, images, strict=True)),
            cameras=client.infos(**{'width': W, 'height': H, **cameras}))
        status = client.wait_for_status('input', lambda s, reason=reason, words=words: (
            f'bad input: {reason}: ' in s.message and words in s.message), after=after)
        assert status.level == 2
        assert int(status.values[f'bad input: {reason}']) > 0
        assert stamp not in client.stamps()
        message = client.match(*pair)
        assert np.frombuffer(message.image.data, '<f4').max() >= 5


def test_everything_refused_is_accounted_for_and_the_log_is_not_flooded(
        client: Any, textured_pair: Callable[..., Any]) -> None:
    pair = textured_pair(W, H, 5)
    client.match(*pair)
    before = client.settled()
    left, right = client.image(pair[0], encoding='flood'), client.image(pair[1])
    began = time.monotonic()
    for _ in range(50):
        client.send_frame(left, right)
    values = client.settled()
    dropped = values['dropped pairs: bad input'] - before['dropped pairs: bad input']
    reason = 'bad input: unknown encoding'
    assert dropped == values[reason] - before.get(reason, 0) > 0
    # Once, and every 10 s.
    assert client.log().count("'flood'") <= 1 + (time.monotonic() - began) / 10
    assert 'Traceback' not in client.log()
