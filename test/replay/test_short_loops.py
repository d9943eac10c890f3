"""A recording shorter than ``jump_threshold`` that loops: the clock goes back, nothing starves."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.evaluation import bags

pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')

pytestmark = [pytest.mark.ros, pytest.mark.slow]

W, H = 96, 64
FRAMES, LOOPS = 10, 30
SETTINGS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'correlation_window_size': 5,
            'image_width': W, 'image_height': H}


def test_every_loop_of_half_a_second_is_matched(
        tmp_path: pathlib.Path, textured_pair: Callable[..., Any]) -> None:
    from stereo_bp_ros.replay.analysis import analyse
    from stereo_bp_ros.replay.session import run_session
    pairs = [textured_pair(W, H, 4, seed=k) for k in range(FRAMES)]
    bags.write_bag(tmp_path / 'bag', Calibration(100, 0.1, W / 2, W / 2, H / 2), (
        (10**18 + k * 50_000_000, left, right, None) for k, (left, right) in enumerate(pairs)))
    (tmp_path / 'run').mkdir()
    result = run_session(tmp_path / 'bag', tmp_path / 'run', SETTINGS,
                         player_options=('--loop', str(LOOPS)))
    frames = analyse(result).frames
    assert frames['sent'] == FRAMES * LOOPS
    assert frames['published'] + sum(frames['dropped'].values()) == FRAMES * LOOPS
    assert frames['published'] >= 0.97 * FRAMES * LOOPS, frames
    assert 'duplicate stamp' not in frames['dropped']
