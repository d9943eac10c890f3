"""Replay: what is played, and a whole run between processes against offline matching."""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
import types

import cv2
import numpy as np
import pytest
import yaml
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Writer
from rosbags.typesys import Stores, get_typestore

from stereo_bp_ros import Calibration, MatcherConfig, StereoError, StereoMatcher
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import bags, metrics
from stereo_bp_ros.evaluation.scenes import sequence as scenes
from stereo_bp_ros.evaluation.sources import open_pairs
from stereo_bp_ros.replay import session
from stereo_bp_ros.replay.source import open_source
from test.cases import every

rclpy = pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')

pytestmark = pytest.mark.ros

MATCHER = {'disparity_range': 16, 'levels': 3, 'iterations': 4, 'subpixel': True}
SETTINGS = {**MATCHER, 'image_width': 160, 'image_height': 120, 'max_input_age': 0.0}


def all_is_well(frames, sent, *reasons):
    """Nothing is lost, and nothing dropped but what a busy machine does not come to."""
    assert frames['sent'] == sent
    assert frames['lost_in_transport'] == 0
    assert set(frames['dropped']) <= {'superseded', *reasons}, frames
    assert frames['published'] + sum(frames['dropped'].values()) == sent
    return frames['published'] > 0


@pytest.fixture(scope='module')
def recording(tmp_path_factory):
    """Twelve frames of a street at 10 Hz, with truth."""
    path = tmp_path_factory.mktemp('street') / 'bag'
    sequence = scenes.RoadSequence(width=160, height=120, max_disparity=14, frames=12)
    bags.write_bag(path, sequence.calibration, (
        (f.stamp_ns, f.left, f.right, f.disparity) for f in sequence))
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
    assert every(bags.stamp_of(e.data) == e.time_ns for e in events)


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


def test_a_bag_without_images_is_not_played_to_its_end_in_silence(tmp_path, capsys):
    bags.write_bag(tmp_path / 'bag', Calibration(100, 0.1, 0, 0, 0), ())
    for loops in ('1', '0'):
        assert main(['replay', str(tmp_path / 'bag'), '--loop', loops]) == 2
        assert 'has no stereo pairs: there is nothing to play' in capsys.readouterr().err


class Watch:
    """The module time of a machine that takes none: only sleeping lets it go on."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int(self.now * 1e9)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class WritesDown:
    """A node whose publishers write down (topic, bytes, when) in the order of publishing."""

    def __init__(self, watch: Watch) -> None:
        self.sent = []
        self._watch = watch

    def create_publisher(self, kind, topic, qos):
        def publish(data):
            self.sent.append((topic, bytes(data), self._watch.perf_counter()))

        return types.SimpleNamespace(publish=publish, topic_name=topic,
                                     wait_for_all_acked=lambda timeout: True)


@pytest.fixture
def played(monkeypatch):
    """Play a source from a time on: the report, what was sent, and the seconds that it took."""
    from stereo_bp_ros.replay import player

    def play(source, loops=1, now=0.0, **options):
        watch = Watch()
        watch.now = now
        monkeypatch.setattr(player, 'time', watch)
        node = WritesDown(watch)
        rclpy.init()
        try:
            report = player.Player(node, source, **options).play(loops)
        finally:
            rclpy.try_shutdown()
        return report, node.sent, watch.now - now

    return play


@pytest.mark.parametrize('rate', [0.5, 1.0, 4.0])
def test_the_clock_goes_at_the_rate_of_the_replay(folder, played, rate):
    _, sent, _ = played(open_source(folder, period_s=0.1), rate=rate, clock=True)
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


@pytest.mark.parametrize('clock', [True, False])
@pytest.mark.parametrize(('place', 'time_ns'), [
    (0, 0), (0, -5), (11, 2**62), (11, 15 * 10**17)])
def test_a_gap_or_a_damaged_time_of_a_recording_is_played_in_a_minute_and_said(
        folder, played, caplog, clock, place, time_ns):
    source = open_source(folder)
    events = list(source.events())
    events[place] = dataclasses.replace(events[place], time_ns=time_ns)
    report, _, seconds = played(dataclasses.replace(source, events=lambda: iter(events)),
                                now=1.8e9, clock=clock)
    assert report.pairs == 3
    assert sum(report.sent.values()) == 12
    assert 59 < seconds < 61
    assert report.skipped_s > 900
    assert sum('is shortened to 60 s (--longest-gap)' in text for text in caplog.messages) == 1
    assert sum('one of the two is damaged' in text for text in caplog.messages) == (
        0 if clock or place else 1)


@pytest.mark.parametrize(('longest_gap_s', 'played_s'), [(101, 100.2), (60, 60.1)])
def test_a_pause_of_a_recording_is_played_as_long_as_the_option_says(
        folder, played, caplog, longest_gap_s, played_s):
    source = open_source(folder)
    events = list(source.events())
    events[4:] = [dataclasses.replace(
        one, time_ns=one.time_ns + 10**11, data=bags.with_stamp(one.data, one.time_ns + 10**11))
        for one in events[4:]]
    report, sent, seconds = played(dataclasses.replace(source, events=lambda: iter(events)),
                                   longest_gap_s=longest_gap_s)
    assert seconds == pytest.approx(played_s, abs=0.3)
    assert report.skipped_s == pytest.approx(max(0, 100.1 - longest_gap_s))
    assert len(caplog.messages) == (longest_gap_s < 100)
    # Stamps are left out as their times are.
    stamps = [bags.stamp_of(data) for _, data, _ in sent]
    assert max(stamps) - min(stamps) == pytest.approx(played_s * 1e9, abs=3e8)


@pytest.mark.parametrize('period_s', [0.1, 0.0], ids=['0.4 s', 'one moment'])
def test_in_each_loop_the_clock_goes_back_before_the_first_stamp(folder, played, period_s):
    """Whatever the length of the source."""
    for path in folder.rglob('*.png'):      # numbered, not stamped
        path.rename(path.with_name(f'frame_{path.name}'))
    report, sent, _ = played(open_source(folder, period_s=period_s), 3, clock=True)
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


@pytest.mark.slow
def test_a_looped_run_is_reported_as_one(recording, tmp_path):
    """Stamps begin again with each loop: rate, truth and pictures follow them."""
    from stereo_bp_ros.cli import run_report
    from stereo_bp_ros.replay.session import run_session
    result = run_session(recording, tmp_path, SETTINGS, player_options=('--loop', '3'))
    recorded = run_report.judge('run', 'A run', lambda: open_pairs(recording)[1], result)
    frames = recorded.figures.frames
    assert all_is_well(frames, 36, 'clock jump')        # the last frame of a loop
    rate = recorded.figures.rate_hz
    assert rate <= 10.01
    assert rate == pytest.approx(10, abs=0.01) or frames['dropped']
    assert recorded.figures.score.bad_estimated(3.0) < 5
    shots = recorded.showing.worst_first()
    assert 8 <= len(shots) <= 16
    assert max(shot.place for shot in shots) > 24       # the third loop, too


@pytest.mark.slow
def test_every_loop_shorter_than_jump_threshold_is_matched(tmp_path, textured_pair):
    """The clock goes back by half a second, and nothing starves."""
    from stereo_bp_ros.replay.analysis import analyse, answers
    from stereo_bp_ros.replay.session import run_session
    frame_count, loops, period_ms, width, height = 10, 30, 50, 96, 64
    settings = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'correlation_window_size': 5,
                'image_width': width, 'image_height': height, 'max_input_age': 0.0}
    pairs = [textured_pair(width, height, 4, seed=k) for k in range(frame_count)]
    bags.write_bag(tmp_path / 'bag', Calibration(100, 0.1, width / 2, width / 2, height / 2), (
        (10**18 + k * period_ms * 10**6, *pair, None) for k, pair in enumerate(pairs)))
    (tmp_path / 'run').mkdir()
    result = run_session(tmp_path / 'bag', tmp_path / 'run', settings,
                         player_options=('--loop', str(loops)))
    frames = analyse(result).frames
    dropped = frames['dropped']
    lost = sum(dropped.values())
    assert frames['sent'] == frame_count * loops
    assert frames['published'] + lost == frame_count * loops
    assert 'duplicate stamp' not in dropped
    # A busy machine plays late, supersedes frames, and has not done the last ones of a loop.
    is_busy = 'superseded' in dropped or result.sent['worst_delay_ms'] > period_ms / 2
    assert lost - dropped.get('superseded', 0) <= (
        2 * loops if is_busy else 0.03 * frame_count * loops), frames
    # The end of a loop shows in the answers, unless as many frames as a loop has are dropped.
    stamps = [answer.stamp_ns for answer in answers(result.bag)]
    ends = sum(after <= before for before, after in itertools.pairwise(stamps))
    assert ends >= loops - 1 - lost // frame_count, frames


@pytest.mark.slow
def test_compressed_images_are_played_to_a_node_that_decompresses_them(recording, tmp_path):
    """image_transport follows the bag."""
    from stereo_bp_ros.replay.analysis import analyse
    from stereo_bp_ros.replay.session import run_session
    compress(recording, tmp_path / 'compressed')
    source = open_source(tmp_path / 'compressed')
    assert set(source.types) == {
        'left/image_rect/compressed', 'left/camera_info', 'right/image_rect/compressed',
        'right/camera_info'}
    (tmp_path / 'run').mkdir()
    figures = analyse(run_session(tmp_path / 'compressed', tmp_path / 'run', SETTINGS))
    assert all_is_well(figures.frames, 12)


@pytest.mark.slow
def test_a_ros_1_bag_is_played_to_the_node(recording, tmp_path):
    from stereo_bp_ros.replay.analysis import analyse
    from stereo_bp_ros.replay.session import run_session
    bag = tmp_path / 'old.bag'
    subprocess.run([sys.executable, '-m', 'rosbags.convert', '--src', str(recording), '--dst',
                    str(bag)], check=True, capture_output=True, timeout=60)
    assert bag.read_bytes().startswith(b'#ROSBAG V2.0')
    (tmp_path / 'run').mkdir()
    figures = analyse(run_session(bag, tmp_path / 'run', SETTINGS))
    assert all_is_well(figures.frames, 12)


def compress(source, target):
    """The same bag with its images as PNG."""
    store = get_typestore(Stores.ROS2_KILTED)
    with AnyReader([source]) as reader, Writer(target, version=9) as writer:
        connections = {}
        for connection, time_ns, data in reader.messages():
            topic, kind = connection.topic, connection.msgtype
            if kind == bags.IMAGE:
                message = reader.deserialize(data, kind)
                topic, kind = f'{topic}/compressed', bags.COMPRESSED_IMAGE
                _, png = cv2.imencode('.png', message.data.reshape(message.height, -1))
                data = store.serialize_cdr(store.types[kind](
                    store.types['std_msgs/msg/Header'](
                        store.types['builtin_interfaces/msg/Time'](
                            message.header.stamp.sec, message.header.stamp.nanosec),
                        message.header.frame_id), 'mono8; png compressed ', png.reshape(-1)), kind)
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(connections[topic], time_ns, data)


def test_the_verb_records_and_reports_what_a_node_answers_that_runs_already(
        recording, tmp_path, capfd, ros_environment, monkeypatch):
    for name, value in ros_environment.items():
        monkeypatch.setenv(name, value)
    parameters = tmp_path / 'node.yaml'
    parameters.write_text(yaml.safe_dump({'/**': {'ros__parameters': {
        **SETTINGS, 'use_sim_time': True, **session.reliable_overrides('/robot')}}}))
    node = subprocess.Popen(
        [sys.executable, '-m', 'stereo_bp_ros.node.main', '--ros-args', '-r', '__ns:=/robot',
         '--params-file', str(parameters)], env=ros_environment)
    reports = []
    try:
        for _ in range(2):          # what the node has done before is not counted again
            command = ['replay', str(recording), '--output', str(tmp_path / 'report'), '--json',
                       '--wait', '60', '--ros-args', '-r', '__ns:=/robot']
            status = main(command)
            out, err = capfd.readouterr()
            assert status == 0, err
            reports.append(json.loads(out)['runs']['replay'])
            assert node.poll() is None
    finally:
        node.kill()
        node.wait(10)
    for run in reports:
        assert all_is_well(run['frames'], 12)
        assert run['accuracy']['bad_3_estimated'] < 5
    page = (tmp_path / 'report/report.html').read_text()
    assert page.count('error and confidence of ') == 12
    assert not list((tmp_path / 'report').glob('*.png'))


def test_a_run_that_is_recorded_ends(recording, tmp_path, capsys):
    assert main(['replay', str(recording), '--output', str(tmp_path / 'r'), '--loop', '0']) == 2
    assert 'a run that is recorded has an end' in capsys.readouterr().err


@pytest.fixture(scope='module')
def session_result(recording, tmp_path_factory):
    from stereo_bp_ros.replay.session import run_session
    return run_session(recording, tmp_path_factory.mktemp('session'), SETTINGS)


def test_every_frame_of_a_run_is_accounted_for(session_result):
    from stereo_bp_ros.replay.analysis import analyse
    figures = analyse(session_result)
    frames = figures.frames
    assert session_result.node_status == 0
    assert all_is_well(frames, 12)
    assert len(figures.totals_ms) == frames['published']
    assert {'receive', 'pair', 'wait', 'messages', 'publish', 'total'} <= set(figures.latency_ms)
    for row in figures.latency_ms.values():
        assert row['p50'] <= row['p95'] <= row['p99'] <= row['p99.9'] <= row['max']


def test_what_came_back_over_dds_is_what_the_matcher_computes(session_result, recording):
    from stereo_bp_ros.replay.analysis import answers
    with bags.StereoBag(recording) as bag:
        pairs = {pair.stamp_ns: pair for pair in bag.read()}
    total = metrics.Score()
    count = 0
    with StereoMatcher(MatcherConfig(**MATCHER)) as matcher:
        for answer in answers(session_result.bag):
            pair = pairs[answer.stamp_ns]
            expected = matcher.compute(pair.left, pair.right, calibration=pair.calibration)
            assert np.array_equal(answer.disparity, expected.disparity)
            assert np.array_equal(answer.valid, expected.valid)
            total += metrics.score(answer.disparity, pair.truth, answer.valid)
            count += 1
    assert count == session_result.frames['published'] > 0
    assert total.bad_estimated(3.0) < 5


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
             '--wait', '60'], env=ros_environment, capture_output=True, text=True, timeout=120,
            check=True)
        stamps = json.loads(listener.communicate(timeout=60)[0])
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
