"""Replay: what is played, when, and with which stamps."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time

import cv2
import numpy as np
import pytest

from stereo_bp_ros import Calibration, StereoError
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.replay.source import Event, open_source
from stereo_bp_ros.sources import bags
from stereo_bp_ros.system import process
from test.cases import every
from test.node.processes import LIMIT

pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')
import rclpy
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import CameraInfo, Image

from stereo_bp_ros.replay import player

pytestmark = pytest.mark.ros

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


def test_a_source_is_played_on_the_nodes_topics_with_the_stamps_of_its_files(folder, recording):
    for path, pairs in ((recording, 6), (folder, 3)):
        source = open_source(path)
        events = list(source.events())
        assert source.pairs == pairs
        assert len(events) == 4 * pairs
        assert {event.topic for event in events} == set(source.types) == {
            'left/image_rect', 'left/camera_info', 'right/image_rect', 'right/camera_info'}
        assert every(bags.stamp_of(event.data) == event.time_ns for event in events)
    assert [event.time_ns for event in events[::4]] == [10**18 + i * 10**8 for i in range(3)]


def test_a_folder_without_calibration_asks_for_one(tmp_path, textured_pair):
    for side, image in zip(('left', 'right'), textured_pair(64, 32, 4), strict=True):
        cv2.imwrite(str(tmp_path / f'{side}.png'), image)
    with pytest.raises(StereoError, match='no calibration'):
        list(open_source(tmp_path).events())
    known = Calibration(100, 0.1, 0, 0, 0)
    assert len(list(open_source(tmp_path, calibration=known).events())) == 4


def test_a_bag_without_images_is_not_played_to_its_end_in_silence(tmp_path, capsys):
    bags.write_bag(tmp_path / 'bag', Calibration(100, 0.1, 0, 0, 0), ())
    for loops in ('1', '0'):
        assert main(['replay', str(tmp_path / 'bag'), '--loop', loops]) == 2
        assert ('no pair of left and right image topics among no topics; name the one to use '
                in (error := capsys.readouterr().err))
        assert 'Without a message are /ground_truth/disparity/compressed, /left/' in error


@pytest.mark.parametrize('rate', [0.5, 4.0])
def test_the_clock_goes_at_the_rate_of_the_replay(folder, play, rate):
    _, sent, _ = play(open_source(folder, period_s=0.1), rate=rate, clock=True)
    told = [(when, (bags.stamp_of(data) - 10**18) * 1e-9) for topic, data, when in sent
            if topic == '/clock']
    seconds = told[-1][0] - told[0][0]
    assert len(told) > 20
    assert told[-1][1] - told[0][1] == pytest.approx(rate * seconds, rel=1e-3)
    # All the way, not only where a message is due.
    steps = [(after - before) / (then - at)
             for (at, before), (then, after) in itertools.pairwise(told) if then - at > 1e-3]
    assert len(steps) > 10
    assert steps == pytest.approx([rate] * len(steps), rel=1e-2)


@pytest.mark.parametrize(('clock', 'place', 'time_ns'), [
    (True, 0, -5), (False, 0, 0), (True, 11, 15 * 10**17), (False, 11, 2**62)])
def test_a_gap_or_a_damaged_time_of_a_recording_is_played_in_a_minute_and_said(
        folder, play, caplog, clock, place, time_ns):
    source = open_source(folder)
    events = list(source.events())
    events[place] = dataclasses.replace(events[place], time_ns=time_ns)
    report, _, seconds = play(dataclasses.replace(source, events=lambda: iter(events)),
                                now=1.8e9, clock=clock)
    assert report.pairs == 3
    assert sum(report.sent.values()) == 12
    assert 59 < seconds < 61
    assert report.skipped_s > 900
    assert sum('is shortened to 60 s (--longest-gap)' in text for text in caplog.messages) == 1
    assert sum('off the times of recording' in text for text in caplog.messages) == (not clock)


@pytest.mark.parametrize(('longest_gap_s', 'played_s'), [(101, 100.2), (60, 60.1)])
def test_a_pause_of_a_recording_is_played_as_long_as_the_option_says(
        folder, play, caplog, longest_gap_s, played_s):
    source = open_source(folder)
    events = list(source.events())
    events[4:] = [dataclasses.replace(
        one, time_ns=one.time_ns + 10**11, data=bags.with_stamp(one.data, one.time_ns + 10**11))
        for one in events[4:]]
    report, sent, seconds = play(dataclasses.replace(source, events=lambda: iter(events)),
                                   longest_gap_s=longest_gap_s)
    assert seconds == pytest.approx(played_s, abs=0.3)
    assert report.skipped_s == pytest.approx(max(0, 100.1 - longest_gap_s))
    assert len(caplog.messages) == (longest_gap_s < 100)
    # Stamps are left out as their times are.
    stamps = [bags.stamp_of(data) for _, data, _ in sent]
    assert max(stamps) - min(stamps) == pytest.approx(played_s * 1e9, abs=3e8)


@pytest.mark.parametrize('clock_ns', [10**18 - 1, -9 * 10**17], ids=['since boot', 'ahead'])
@pytest.mark.parametrize('rate', [1, 4])
def test_stamps_of_any_clock_become_the_time_of_publishing_and_pairs_stay_pairs(
        folder, play, caplog, clock_ns, rate):
    """The right camera's stamps are 3 ms later than the left's, and recorded with a delay."""
    source, late_ns = open_source(folder), {'left': 0, 'right': 3 * 10**6}
    events = [dataclasses.replace(one, time_ns=one.time_ns + index % 7 * 10**7, data=(
        bags.with_stamp(one.data, one.time_ns - clock_ns + late_ns[one.topic.split('/')[0]])))
        for index, one in enumerate(source.events())]
    events.sort(key=lambda one: one.time_ns)
    _, sent, _ = play(dataclasses.replace(source, events=lambda: iter(events)), 2, now=1.8e9,
                      rate=rate)
    assert len(sent) == 24
    assert every(abs(bags.stamp_of(data) * 1e-9 - when) < 0.1 for _, data, when in sent)
    stamps = {topic: sorted(bags.stamp_of(data) for name, data, _ in sent if name == topic)
              for topic in source.types}
    assert stamps['left/image_rect'] == stamps['left/camera_info']
    assert np.diff(stamps['left/image_rect'])[[0, 1, 3, 4]] == pytest.approx(1e8 / rate, abs=1e3)
    assert np.subtract(stamps['right/image_rect'], stamps['left/image_rect']) == pytest.approx(
        3e6 / rate, abs=1e3)
    assert caplog.messages == []


def test_a_camera_clock_that_is_set_in_a_recording_is_followed_and_said(folder, play, caplog):
    source = open_source(folder)
    events = [one if index < 4 else dataclasses.replace(
        one, data=bags.with_stamp(one.data, one.time_ns - 9 * 10**17))
        for index, one in enumerate(source.events())]
    _, sent, _ = play(dataclasses.replace(source, events=lambda: iter(events)), now=1.8e9)
    assert every(abs(bags.stamp_of(data) * 1e-9 - when) < 1e-3 for _, data, when in sent)
    assert sum('off the times of recording' in text for text in caplog.messages) == 1
    for side in ('left', 'right'):
        assert [bags.stamp_of(data) for topic, data, _ in sent if topic == f'{side}/image_rect'
                ] == [bags.stamp_of(data) for topic, data, _ in sent if topic == 'left/image_rect']


@pytest.mark.parametrize('period_s', [0.1, 0.0], ids=['0.4 s', 'one moment'])
def test_in_each_loop_the_clock_goes_back_before_the_first_stamp(folder, play, period_s):
    """Whatever the length of the source."""
    for path in folder.rglob('*.png'):      # numbered, not stamped
        path.rename(path.with_name(f'frame_{path.name}'))
    report, sent, _ = play(open_source(folder, period_s=period_s), 3, clock=True)
    assert report.pairs == 9
    clock, loops = None, 0
    for topic, data, _ in sent:
        stamp = bags.stamp_of(data)
        if topic == '/clock':
            if clock is None or stamp < clock:
                loops, first = loops + 1, True
            clock = stamp
        else:
            # The clock of this loop was there before its first message, and is at its time.
            assert clock == stamp
            assert not first or stamp == 10**18
            first = False
    assert loops == 3
    starts = [when for topic, data, when in sent
              if topic == '/clock' and bags.stamp_of(data) < 10**18]
    firsts = [when for topic, data, when in sent
              if topic == 'left/camera_info' and bags.stamp_of(data) == 10**18]
    assert len(starts) >= 3
    assert firsts[0] - starts[0] > 0.04     # time to arrive first


def test_the_verb_publishes_at_the_time_of_publishing(folder, capsys, alone):
    """Without --clock stamps are now, equal on both sides, and as far apart as recorded."""
    stamps = {'left': [], 'right': []}

    def note(side, message):
        stamps[side].append(message.header.stamp.sec * 10**9 + message.header.stamp.nanosec)

    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node('listener', context=context)
    for side in stamps:
        node.create_subscription(Image, f'{side}/image_rect', functools.partial(note, side), 10)
        node.create_subscription(CameraInfo, f'{side}/camera_info', lambda _: None, 10)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    ended = threading.Event()

    def spin():
        while not ended.is_set():
            executor.spin_once(0.05)

    spinning = threading.Thread(target=spin)
    spinning.start()
    try:
        assert main(['replay', str(folder), '--json', '--wait', '60']) == 0
        deadline = time.monotonic() + 60
        while min(map(len, stamps.values())) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        ended.set()
        spinning.join()
        rclpy.try_shutdown(context=context)
    assert json.loads(capsys.readouterr().out)['pairs'] == 3
    assert stamps['left'] == stamps['right']
    steps = np.diff(stamps['left'])
    assert len(steps) == 2
    assert np.allclose(steps, 1e8, atol=1e3)
    assert stamps['left'][0] > 1.7e18


@pytest.mark.parametrize(('arguments', 'status'), [
    ((), process.INTERRUPTED), (('--ros-args', '-r', '__ns:=/robot'), 0)])
@pytest.mark.parametrize(('options', 'begun'), [
    (('--loop', '0', '--wait', '0'), 'nobody subscribes to'),
    (('--output', 'report'), 'waiting for a node')])
def test_an_interrupted_replay_ends_with_0_where_launch_may_have_started_it(
        folder, tmp_path, alone, options, begun, arguments, status):
    """launch, which writes --ros-args behind every command, would report its death."""
    child = subprocess.Popen(
        [sys.executable, '-m', 'stereo_bp_ros.cli.main', 'replay', str(folder), *options,
         *arguments], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})
    try:
        said = next(line for line in child.stderr if begun in line)
        child.send_signal(signal.SIGINT)
        rest = child.communicate(timeout=LIMIT)[1]
    finally:
        child.kill()
        child.wait()
    assert child.returncode == status, said + rest
    assert 'Traceback' not in rest


def test_a_source_that_breaks_off_is_reported_by_the_player():
    def broken():
        yield Event('left/image_rect', 0, b'')
        raise OSError('disk gone')

    events = player._prefetched(broken())
    assert next(events).topic == 'left/image_rect'
    with pytest.raises(StereoError, match='disk gone'):
        next(events)
