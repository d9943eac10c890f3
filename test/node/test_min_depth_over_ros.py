"""``min_depth`` over DDS: the disparities of a running node follow the camera_infos."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros

W, H = 96, 64
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 8, 'correlation_window_size': 5,
              'min_depth': 2.0, 'max_input_age': 0.0}


def last_disparity(client: Any, pair: Any, **calibration: float) -> float:
    """``max_disparity`` of a pair with this calibration."""
    message = client.match(*pair, cameras=client.infos(W, H, **calibration))
    assert message.t == pytest.approx(calibration['baseline'])
    return float(message.max_disparity)


def test_a_node_searches_as_far_as_min_depth_is_with_every_calibration_and_parameter(
        client: Any, textured_pair: Any) -> None:
    images = textured_pair(W, H, 5)

    def wait_for(text: str) -> None:
        client.wait_for_status('device', lambda status: status.values.get('disparities') == text)

    wait_for('0 to 7: min_depth 2 m waits for a calibration')
    # 500 px x B over 2 m, and whole chunks of 8 labels.
    assert last_disparity(client, images, baseline=0.06) == 15
    assert last_disparity(client, images, baseline=0.055) == 15
    assert last_disparity(client, images, baseline=0.1) == 31
    assert client.log().count('ready for 96 x 64') == 2     # the same search needs no new engine
    wait_for('0 to 31: as far as min_depth 2 m')
    result, = client.set_parameters(min_depth=0.05)
    assert not result.successful
    assert 'set it to at least 0.098' in result.reason
    assert client.set_parameters(min_depth=1.0)[0].successful
    wait_for('0 to 55: as far as min_depth 1 m')
    assert last_disparity(client, images, baseline=0.1) == 55
