"""A right camera that is bumped while a real node runs; one that drifts is in the soak."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
from test.soak.camera import corners, lowered

pytestmark = pytest.mark.ros

W, H, DISPARITY, FOCAL = 320, 240, 8, 300.0
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'correlation_window_size': 3,
              'row_correction': 'correct', 'max_input_age': 5.0}
PERIOD_S = 0.05

#: Share of pixels with the disparity where rows match, and where they miss by a pixel and more.
MATCHED, MISSED = 0.9, 0.6

#: Seconds that a loaded machine may add to what the node takes.
LOAD_S = 2.0


class MovingCamera:
    """Sends pairs at 20 Hz whose right image lies ``rows`` lower."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.left, self._right = corners(DISPARITY, W, H)
        self.rows, self.since = 0.0, time.monotonic()
        self.behind_ns = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> MovingCamera:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def move(self, rows: float) -> None:
        """From now on lie so many rows lower."""
        self.since, self.rows = time.monotonic(), rows

    def right(self) -> np.ndarray:
        return lowered(self._right, self.rows)

    def _run(self) -> None:
        infos = self.client.infos(W, H, focal=FOCAL)
        while not self._stop.wait(PERIOD_S):
            stamp = self.client.now_ns() - self.behind_ns
            for side, info in infos.items():
                self.client.send_info(side, info, stamp)
            self.client.send_pair(self.client.image(self.left), self.client.image(self.right()),
                                  stamp)


@pytest.fixture
def camera(client: Any) -> Iterator[MovingCamera]:
    client.start_over(PARAMETERS)
    with MovingCamera(client) as camera:
        yield camera


def matched(client: Any) -> float:
    """Share of pixels of the latest result that have the disparity of the scene."""
    results = client.received['disparity']
    if not results:
        return 0.0
    image = results[-1].image
    pixels = np.frombuffer(image.data, np.float32).reshape(image.height, image.width)
    return float((np.abs(pixels[16:-16, 32:-16] - DISPARITY) < 0.75).mean())


def test_a_bump_is_corrected_within_seconds_and_told_as_a_camera_info(
        client: Any, camera: MovingCamera) -> None:
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from sensor_msgs.msg import CameraInfo
    client.wait_until(lambda: matched(client) > MATCHED, what='a result')
    status = client.wait_for_status('input', lambda s: 'row correction' in s.values)
    assert status.values['row correction'].startswith('none: ')
    time.sleep(1.5)                             # of the moved camera nothing is known yet
    camera.move(1.5)
    client.wait_until(lambda: matched(client) < MISSED, what='rows that miss')
    client.wait_until(lambda: matched(client) > MATCHED, what='rows that match again')
    assert time.monotonic() - camera.since < 2 + LOAD_S
    status = client.wait_for_status(
        'input', lambda s: s.values.get('row correction', '').startswith('up to 1.5'))
    assert float(status.values['vertical offset px']) == pytest.approx(1.5, abs=0.1)
    assert float(status.values['row correction remaining px']) < 0.15
    # For whoever subscribes now, too.
    infos: list[Any] = []
    subscription = client.node.create_subscription(
        CameraInfo, 'right/corrected_camera_info', infos.append,
        QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    try:
        client.wait_until(lambda: infos, what='right/corrected_camera_info')
    finally:
        client.node.destroy_subscription(subscription)
    assert infos[-1].r[7] == pytest.approx(1.5 / FOCAL, rel=0.1)
    assert infos[-1].p[3] == pytest.approx(-FOCAL * 0.1)
    # A clock that goes back begins anew, and so does a new activation.
    for restart in (lambda: setattr(camera, 'behind_ns', 2 * 10**9),
                    lambda: (client.set_state('inactive'), client.set_state('active'))):
        since = status.values['row correction since s']
        restart()
        status = client.wait_for_status('input', lambda s, since=since: (
            s.values.get('row correction', '').startswith('up to 1.5')
            and s.values['row correction since s'] != since))
