"""A recording shorter than ``jump_threshold`` that loops: the clock goes back, nothing starves."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.evaluation import bags

pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')

pytestmark = [pytest.mark.ros, pytest.mark.slow]

W, H = 96, 64
FRAMES, LOOPS, PERIOD_MS = 10, 30, 50
SETTINGS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'correlation_window_size': 5,
            'image_width': W, 'image_height': H, 'max_input_age': 0.0}


def test_every_loop_of_half_a_second_is_matched(
        tmp_path: pathlib.Path, textured_pair: Callable[..., Any]) -> None:
    from stereo_bp_ros.replay.analysis import analyse, answers
    from stereo_bp_ros.replay.session import run_session
    pairs = [textured_pair(W, H, 4, seed=k) for k in range(FRAMES)]
    bags.write_bag(tmp_path / 'bag', Calibration(100, 0.1, W / 2, W / 2, H / 2), (
        (10**18 + k * PERIOD_MS * 10**6, *pair, None) for k, pair in enumerate(pairs)))
    (tmp_path / 'run').mkdir()
    result = run_session(tmp_path / 'bag', tmp_path / 'run', SETTINGS,
                         player_options=('--loop', str(LOOPS)))
    frames = analyse(result).frames
    dropped = frames['dropped']
    lost = sum(dropped.values())
    assert frames['sent'] == FRAMES * LOOPS
    assert frames['published'] + lost == FRAMES * LOOPS
    assert 'duplicate stamp' not in dropped
    # A busy machine plays late, supersedes frames, and has not done the last ones of a loop.
    is_busy = 'superseded' in dropped or result.sent['worst_delay_ms'] > PERIOD_MS / 2
    assert lost - dropped.get('superseded', 0) <= (
        2 * LOOPS if is_busy else 0.03 * FRAMES * LOOPS), frames
    # The end of a loop shows in the answers, unless as many frames as a loop has are dropped.
    stamps = [answer.stamp_ns for answer in answers(result.bag)]
    ends = sum(after <= before for before, after in itertools.pairwise(stamps))
    assert ends >= LOOPS - 1 - lost // FRAMES, frames
