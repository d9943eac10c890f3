"""Malformed messages: a clear error, counted by reason, nothing published, the next frame fine."""

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
NAN = float('nan')


@pytest.fixture(scope='module')
def pair(textured_pair: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    return textured_pair(W, H, 5)


def good(client: Any, pair: Any) -> None:
    """The node goes on: a good pair is matched, whatever came before."""
    message = client.match(*pair)
    assert np.frombuffer(message.image.data, '<f4').max() >= 5


def expect_refusal(client: Any, reason: str, images: Any, **cameras: Any) -> str:
    """A frame is refused for a reason, by name, and nothing is published for it."""
    after = client.reports
    stamp = client.send_frame(*images, cameras=client.infos(**{
        'width': W, 'height': H, **cameras}))
    status = client.wait_for_status(
        'input', lambda s: f'bad input: {reason}: ' in s.message, after=after)
    assert status.level == 2
    assert int(status.values[f'bad input: {reason}']) > 0
    assert stamp not in client.stamps()
    return str(status.message)


#: One of each reason; test/core/test_images.py has the others.
IMAGES = {
    'short data': ('short data', {'data': array.array('B', bytes(W * H - 1))}),
    'absurd width': ('too large', {'width': 2**32 - 1, 'step': 2**32 - 1}),
    'no pixels': ('bad size', {'width': 0, 'height': 0}),
    'step too small': ('bad step', {'step': W - 1}),
    'no unicode': ('unknown encoding', {'encoding': 'b\u00e4yer'}),
}


@pytest.mark.parametrize('name', IMAGES)
def test_malformed_images(client: Any, pair: Any, name: str) -> None:
    reason, fields = IMAGES[name]
    text = expect_refusal(client, reason, (client.image(pair[0], **fields), pair[1]))
    if reason == 'unknown encoding':
        assert 'yuv422_yuy2' in text
    good(client, pair)


def test_sizes_that_differ(client: Any, pair: Any) -> None:
    expect_refusal(client, 'size mismatch', (pair[0], pair[1][:-1]))
    good(client, pair)


def test_images_that_are_not_of_the_size_in_camera_info(client: Any, pair: Any) -> None:
    text = expect_refusal(client, 'camera_info size', (pair[0][:32], pair[1][:32]))
    assert '96 x 32' in text
    assert '96 x 64' in text
    good(client, pair)


def test_an_image_that_needs_more_memory_than_allowed(client: Any, pair: Any) -> None:
    good(client, pair)
    large = np.zeros((300, 400), np.uint8)
    text = expect_refusal(client, 'too large', (large, large), width=400, height=300)
    assert 'are allowed (memory_limit' in text
    good(client, pair)


CALIBRATIONS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    'no baseline': ('zero baseline', {}, {'baseline': 0.0}),
    'negative baseline': ('swapped cameras', {}, {'baseline': -0.1}),
    'NaN': ('bad calibration', {'p': [NAN] * 12}, {}),
    'focal length beyond float32': ('bad calibration', {'focal': 1e39}, {'focal': 1e39}),
}


@pytest.mark.parametrize('name', CALIBRATIONS)
def test_malformed_calibrations(client: Any, pair: Any, name: str) -> None:
    reason, left, right = CALIBRATIONS[name]
    expect_refusal(client, reason, pair, left=left, right=right)
    good(client, pair)


def test_everything_refused_is_accounted_for_and_the_log_is_not_flooded(client: Any, pair: Any
                                                                        ) -> None:
    good(client, pair)
    before = client.settled()
    left, right = client.image(pair[0], encoding='flood'), client.image(pair[1])
    began = time.monotonic()
    for _ in range(50):
        client.send_frame(left, right)
    values = client.settled()
    dropped = values['dropped pairs: bad input'] - before['dropped pairs: bad input']
    reason = 'bad input: unknown encoding'
    assert dropped == values[reason] - before.get(reason, 0) > 0
    # Once, and every 10 s with the count of what has come since; others may have flooded before.
    assert client.log().count("'flood'") <= 1 + (time.monotonic() - began) / 10
    assert client.node_process.process.poll() is None
    assert 'Traceback' not in client.log()
