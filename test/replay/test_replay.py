"""Replay: what is played, and a whole run between processes against offline matching."""

from __future__ import annotations

import json
import subprocess
import sys

import cv2
import numpy as np
import pytest

from stereo_bp_ros import Calibration, MatcherConfig, StereoError, StereoMatcher
from stereo_bp_ros.evaluation import bags, metrics, scenes
from stereo_bp_ros.replay.source import open_source

pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')

pytestmark = pytest.mark.ros

SETTINGS = {'disparity_range': 16, 'levels': 3, 'iterations': 4, 'image_width': 160,
            'image_height': 120, 'subpixel': True}


@pytest.fixture(scope='module')
def recording(tmp_path_factory):
    """Twelve frames of a street at 10 Hz, with truth."""
    path = tmp_path_factory.mktemp('street') / 'bag'
    sequence = scenes.RoadSequence(width=160, height=120, max_disparity=14, frames=12)
    calibration = Calibration(sequence.focal_px, sequence.baseline_m, sequence.cx, sequence.cx,
                              sequence.cy)
    bags.write_bag(path, calibration, ((f.stamp_ns, f.left, f.right, f.disparity)
                                       for f in sequence))
    return path


@pytest.fixture
def folder(tmp_path, textured_pair):
    """Three stamped pairs with projection matrices."""
    for index in range(3):
        for side, image in zip(('left', 'right'), textured_pair(64, 32, 4, seed=index),
                               strict=True):
            (tmp_path / 'pairs' / side).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(tmp_path / 'pairs' / side / f'{10**18 + index * 10**8}.png'), image)
    for side, offset in (('left', 0), ('right', -20)):
        (tmp_path / 'pairs' / f'P_{side}.txt').write_text(f'100 0 32 {offset} 0 100 16 0 0 0 1 0')
    return tmp_path / 'pairs'


def test_a_bag_is_played_byte_by_byte_on_the_nodes_topics(recording):
    source = open_source(recording)
    events = list(source.events())
    assert source.pairs == 12
    assert len(events) == 48
    assert {e.topic for e in events} == set(source.types) == {
        'left/image_rect', 'left/camera_info', 'right/image_rect', 'right/camera_info'}
    assert all(bags.stamp_of(e.data) == e.time_ns for e in events)


def test_a_folder_is_played_with_the_stamps_of_its_files_and_its_calibration(folder):
    events = [e for e in open_source(folder).events() if e.topic == 'right/camera_info']
    assert [e.time_ns for e in events] == [10**18 + i * 10**8 for i in range(3)]


def test_a_folder_without_calibration_asks_for_one(tmp_path, textured_pair):
    for side, image in zip(('left', 'right'), textured_pair(64, 32, 4), strict=True):
        cv2.imwrite(str(tmp_path / f'{side}.png'), image)
    with pytest.raises(StereoError, match='no calibration'):
        list(open_source(tmp_path).events())
    known = Calibration(100, 0.1, 0, 0, 0)
    assert len(list(open_source(tmp_path, calibration=known).events())) == 4


@pytest.fixture(scope='module')
def session_result(recording, tmp_path_factory):
    from stereo_bp_ros.replay.session import run_session
    return run_session(recording, tmp_path_factory.mktemp('session'), SETTINGS)


@pytest.mark.slow
def test_every_frame_of_a_run_is_accounted_for(session_result):
    from stereo_bp_ros.replay.analysis import analyse
    figures = analyse(session_result)
    frames = figures.frames
    assert session_result.node_status == 0
    assert frames['sent'] == 12
    assert frames['lost_in_transport'] == 0
    assert frames['published'] + sum(frames['dropped'].values()) == 12
    assert frames['published'] >= 6
    assert len(figures.totals_ms) == frames['published']
    assert {'receive', 'pair', 'wait', 'messages', 'publish', 'total'} <= set(figures.latency_ms)
    for row in figures.latency_ms.values():
        assert row['p50'] <= row['p95'] <= row['p99'] <= row['max']


@pytest.mark.slow
def test_what_came_back_over_dds_is_what_the_matcher_computes(session_result, recording):
    from stereo_bp_ros.replay.analysis import answers
    settings = {k: v for k, v in SETTINGS.items() if not k.startswith('image_')}
    with bags.StereoBag(recording) as bag:
        pairs = {pair.stamp_ns: pair for pair in bag.read()}
    total = metrics.Score()
    count = 0
    with StereoMatcher(MatcherConfig(**settings)) as matcher:
        for answer in answers(session_result.bag):
            pair = pairs[answer.stamp_ns]
            expected = matcher.compute(pair.left, pair.right, calibration=pair.calibration)
            assert np.array_equal(answer.disparity, expected.disparity)
            assert np.array_equal(answer.valid, expected.valid)
            total += metrics.score(answer.disparity, pair.disparity, answer.valid)
            count += 1
    assert count >= 6
    assert total.bad_estimated(3.0) < 5


@pytest.mark.slow
def test_the_verb_publishes_at_the_time_of_publishing(folder, ros_environment):
    """Without --clock stamps are now, equal on both sides, and as far apart as recorded."""
    script = """
import json, sys, threading, rclpy
from sensor_msgs.msg import CameraInfo, Image
rclpy.init()
node = rclpy.create_node('listener')
stamps = {'left': [], 'right': []}
def on(side, m):
    stamps[side].append(m.header.stamp.sec * 10**9 + m.header.stamp.nanosec)
for side in stamps:
    node.create_subscription(Image, f'{side}/image_rect', lambda m, s=side: on(s, m), 10)
    node.create_subscription(CameraInfo, f'{side}/camera_info', lambda m: None, 10)
while min(map(len, stamps.values())) < 3:
    rclpy.spin_once(node, timeout_sec=1)
print(json.dumps(stamps), flush=True)
"""
    listener = subprocess.Popen([sys.executable, '-c', script], stdout=subprocess.PIPE, text=True,
                                env=ros_environment)
    try:
        done = subprocess.run(
            [sys.executable, '-m', 'stereo_bp_ros.cli.main', 'replay', str(folder), '--json',
             '--wait', '20'], env=ros_environment, capture_output=True, text=True, timeout=60,
            check=True)
        stamps = json.loads(listener.communicate(timeout=20)[0])
    finally:
        listener.kill()
    assert json.loads(done.stdout)['pairs'] == 3
    assert stamps['left'] == stamps['right']
    steps = np.diff(stamps['left'])
    assert np.allclose(steps, 1e8, atol=1e3)
    assert stamps['left'][0] > 1.7e18


def test_a_source_that_breaks_off_is_reported_by_the_player():
    from stereo_bp_ros.replay.player import _prefetched
    from stereo_bp_ros.replay.source import Event

    def broken():
        yield Event('left/image_rect', 0, b'')
        raise OSError('disk gone')

    events = _prefetched(broken())
    assert next(events).topic == 'left/image_rect'
    with pytest.raises(StereoError, match='disk gone'):
        next(events)
