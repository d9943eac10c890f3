"""stereo_bp replay --output: what comes back over DDS is judged as evaluate judges, losses too."""

from __future__ import annotations

import itertools
import json
import logging
import os
import pathlib
import shlex
import sys
import types
from typing import Any

import numpy as np
import pytest
import yaml

from stereo_bp_ros import Calibration, MatcherConfig, StereoError, StereoMatcher, StereoStream
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation.results import totals_of
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.sources import bags
from stereo_bp_ros.sources.pairs import Pair, open_pairs
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from test.cli import recordings
from test.node.processes import NODE, running_node

pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')
pytest.importorskip('numba', reason='the CPU engine needs Numba')

from stereo_bp_ros.cli import replay_recorded
from stereo_bp_ros.replay import analysis, session
from stereo_bp_ros.replay.analysis import Answer, answers, judge

FAST = {'disparity_range': 16, 'levels': 3, 'iterations': 4, 'backend': 'cpu'}
SET = [word for name, value in FAST.items() for word in ('--set', f'{name}={value}')]
ROBOT = ['--ros-args', '-r', '__ns:=/robot']


def parameter_file(folder: pathlib.Path, **values: object) -> str:
    path = folder / 'mine.yaml'
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': {**FAST, **values}}}))
    return str(path)


def scenario(folder: pathlib.Path, inputs: object, *conditions: str) -> str:
    path = folder / 'held.yaml'
    path.write_text(yaml.safe_dump({'inputs': inputs, 'conditions': list(conditions),
                                    'repeat': 1}))
    return str(path)


def report_of(capsys, *arguments: str, status: int = 0) -> dict[str, Any]:
    verb, *others = arguments
    found = main([verb, '--json', *others])
    out, err = capsys.readouterr()
    assert found == status, err + out
    return json.loads(out)


def is_accounted_for(frames: dict[str, Any], sent: int, *reasons: str) -> bool:
    """Nothing is lost, and nothing dropped but what a busy machine does not come to."""
    assert frames['lost_in_transport'] == 0
    assert set(frames['dropped']) <= {'superseded', *reasons}, frames
    return (frames['sent'] == sent == frames['published'] + sum(frames['dropped'].values())
            and frames['published'] > 0)


def figures(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Of every frame, but for times, memory and other matchers."""
    times = ('times_ms', 'median_ms', 'stages_ms', 'device_ms', 'engine_bytes', 'process_bytes',
             'against')
    return {pair['name']: {key: value for key, value in pair.items() if key not in times}
            for pair in report['pairs']}


@pytest.mark.ros
def test_what_comes_back_over_dds_is_what_the_matcher_computes_and_evaluate_finds(
        recording, tmp_path, capsys, caplog, alone):
    mine = parameter_file(tmp_path, levels=5, disparty_range=16)
    with caplog.at_level(logging.WARNING):
        node = report_of(capsys, 'replay', str(recording), '--output', str(tmp_path / 'node'),
                         '--params-file', mine, '--set', 'levels=3')
    assert ('[stereo_bp]: there is no parameter disparty_range; did you mean disparity_range?'
            in caplog.messages)
    here = report_of(capsys, 'evaluate', str(recording), '--repeat', '1', *SET)
    assert node.keys() == here.keys()
    run = node['runs']['replay']
    assert is_accounted_for(run['frames'], 6)
    assert len(node['pairs']) == run['frames']['published']
    expected = figures(here)
    assert figures(node) == {name: expected[name] for name in figures(node)}
    for pair in node['pairs']:
        assert {'score', 'filled', 'depth', 'regions'} <= pair.keys()
        assert pair['times_ms'][0] > pair['stages_ms']['messages'] > 0
    assert (node['matcher'], node['backend']) == ('node', 'cpu')
    assert node['devices']['node'][0]['device'] == here['devices']['bp'][0]['device']
    assert node['searched'] == [{'matcher': 'node', 'input': '', 'disparities': 16,
                                 'pairs': run['frames']['published']}]
    assert node['BasicPerformanceMetrics.NUM_FRAMES_SENT'] == 6
    assert node['BasicPerformanceMetrics.NUM_MISSED_FRAMES'] == 6 - run['frames']['recorded']
    assert node['BasicPerformanceMetrics.MEAN_FRAME_RATE'] == run['rate_hz']
    # What the node itself says that it ran with.
    assert node['settings'] == here['settings']
    assert {'receive', 'pair', 'wait', 'messages', 'publish', 'total'} <= set(
        node['latency_ms'])
    for row in node['latency_ms'].values():
        assert row['p50'] <= row['p95'] <= row['p99'] <= row['p99.9'] <= row['max']
    page = (tmp_path / 'node/report.html').read_text()
    for text in ('Overview', 'lost to node', 'Wrong pixels by distance', 'Times', 'p99.9',
                 'disparities searched', 'matched by'):
        assert text in page
    with bags.StereoBag(recording) as bag:
        pairs = {pair.stamp_ns: pair for pair in bag.read()}
    with StereoMatcher(MatcherConfig(**FAST)) as matcher:
        for answer in answers(tmp_path / 'node/replay/output'):
            pair = pairs.pop(answer.stamp_ns)
            matched = matcher.compute(pair.left, pair.right, calibration=pair.calibration)
            assert np.array_equal(answer.disparity, matched.disparity)
            assert np.array_equal(answer.valid, matched.valid)
    assert len(pairs) == 6 - run['frames']['published']


@pytest.mark.ros
def test_frames_too_fast_for_a_node_that_runs_already_are_counted_and_fail_their_condition(
        tmp_path, textured_pair, capsys, alone):
    """At 40 Hz some frames are superseded, and nothing is lost on the way."""
    parameters = parameter_file(tmp_path, iterations=400, use_sim_time=True,
                                **session.reliable_overrides('/robot'))
    street = {'width': 160, 'height': 120, 'max_disparity': 14, 'frames': 6, 'pitch_deg': 0.1}
    path = scenario(tmp_path, [{'rendered': street}], 'delivery.lost <= 0',
                    'delivery.superseded >= 1', 'delivery.published >= 6',
                    'mean.sky.coverage >= 0.1', 'mean.filled.bad_3_all <= 100')
    # Before the street, whose first stamp is 1 s; its clock begins 0.2 s before.
    bags.write_bag(tmp_path / 'bag', Calibration(100, 0.1, 80, 80, 60), [
        ((k + 2) * 10**8, *textured_pair(160, 120, 6), None) for k in range(6)])
    with running_node(tmp_path, {}, *ROBOT[1:], '--params-file', str(parameters), wait='',
                      code=NODE, qos={}, domain=int(os.environ['ROS_DOMAIN_ID'])) as node:
        # What the node has done for others is not counted.
        assert main(['replay', str(tmp_path / 'bag'), '--clock', '--wait', '60', '--json',
                     *ROBOT]) == 0
        assert json.loads(capsys.readouterr().out)['pairs'] == 6
        report = report_of(capsys, 'replay', '--scenario', path, '--output',
                           str(tmp_path / 'out'), '--rate', '4', *ROBOT, status=1)
        assert node.process.poll() is None
    frames = report['runs']['replay']['frames']
    # At four times the speed /clock is 0.1 s behind where a busy machine delivers it 25 ms late.
    assert is_accounted_for(frames, 6, 'future')
    assert len(report['pairs']) == frames['published']
    lost, superseded, published, sky, bad = report['conditions']
    assert (lost['value'], lost['passed']) == (0, True)
    assert superseded['value'] == frames['dropped']['superseded'] >= 1
    assert superseded['passed']
    assert (published['value'], published['limit']) == (frames['published'], 6)
    assert not published['passed']
    # The street's own masks, which no bag has.
    assert sky['frames'] == bad['frames'] == frames['published']
    assert report['passed'] is False
    page = (tmp_path / 'out/report.html').read_text()
    assert page.count('error and confidence of ') == frames['published']
    assert not list((tmp_path / 'out').glob('*.png'))


def test_an_answer_has_the_issues_that_a_stream_has_of_the_same_pair(monkeypatch):
    config = MatcherConfig(**FAST)
    drive = RoadSequence(width=160, height=120, max_disparity=14, frames=12)
    frames = list(drive)
    pairs = [Pair(str(frame.stamp_ns), frames[min(number, 3)].left, frame.right, frame.disparity,
                  calibration=drive.calibration, stamp_ns=frame.stamp_ns)
             for number, frame in enumerate(frames)]
    expected, found = [], []
    with StereoStream(config) as stream:
        for pair in pairs:
            result = stream.add(*pair.images, stamp=1e-9 * pair.stamp_ns,
                                calibration=pair.calibration)
            frame = result.frame
            expected.append(result.issues)
            found.append(Answer(pair.stamp_ns, frame.disparity, frame.valid, frame.min_disparity,
                                frame.max_disparity, {'total': 1.0}))
    monkeypatch.setattr(analysis, 'answers', lambda bag: iter(found))
    judged = judge('run', 'A run', lambda: iter(pairs), types.SimpleNamespace(
        recorded={'disparity': len(pairs)}, bag=None, sent={}, frames={}, node_status=0,
        settings=config.to_mapping(), device={}, is_lossless=True))
    assert [list(one.issues) for one in judged.results] == expected
    assert any(one.code == IssueCode.FROZEN for issues in expected for one in issues)


@pytest.mark.ros
@pytest.mark.slow
def test_a_command_starts_the_node_and_is_stopped_with_all_that_it_has_started(
        recording, tmp_path, capsys, alone):
    parameters = parameter_file(tmp_path, use_sim_time=True,
                                **session.reliable_overrides('/robot'))
    script = tmp_path / 'launch.sh'
    script.write_text(f'{shlex.quote(sys.executable)} -m stereo_bp_ros.node.main '
                      f'{shlex.join(ROBOT)} --params-file {parameters} &\n'
                      f'echo $! > {tmp_path}/pid\nwait\n')
    path = scenario(tmp_path, str(recording), 'delivery.lost <= 0',
                    'mean.score.bad_3_estimated <= 5')
    report = report_of(capsys, 'replay', '--scenario', path, '--output', str(tmp_path / 'out'),
                       '--start', f'sh {script}', *SET, *ROBOT)
    assert report['runs']['replay']['frames']['sent'] == 6
    assert report['passed'] is True
    state = pathlib.Path(f'/proc/{int((tmp_path / "pid").read_text())}/stat')
    assert not state.exists() or state.read_text().rpartition(')')[2].split()[0] == 'Z'


@pytest.mark.ros
@pytest.mark.slow
def test_a_looped_run_is_reported_as_one(recording, tmp_path):
    """Stamps begin again with each loop, by less than jump_threshold; all follows them."""
    result = session.run_session(recording, tmp_path, FAST, player_options=('--loop', '6'))
    judged = judge('run', 'A run', lambda: open_pairs(recording)[1], result)
    frames, rate = judged.frames, judged.rate_hz
    assert is_accounted_for(frames, 36, 'clock jump')       # the last frame of a loop
    assert frames['dropped'].get('clock jump', 0) <= 6
    assert rate <= 10.01
    assert rate == pytest.approx(10, abs=0.01) or frames['dropped']
    assert totals_of(judged.results).own.pooled.whole.published.bad_estimated(3.0) < 5
    shots = judged.showing.worst_first()
    assert 8 <= len(shots) <= 16
    assert max(shot.place for shot in shots) > 24       # later loops, too
    stamps = [answer.stamp_ns for answer in answers(result.bag)]
    ends = sum(after <= before for before, after in itertools.pairwise(stamps))
    assert ends >= 5 - (36 - frames['published']) // 6      # none where a whole loop is dropped


@pytest.mark.ros
@pytest.mark.slow
def test_a_ros_1_bag_of_compressed_images_is_played_to_a_node_that_decompresses_them(
        tmp_path, textured_pair):
    path = recordings.write(tmp_path / 'old', [
        message for k in range(6) for message in recordings.pair(
            10**18 + k * 10**8, *textured_pair(96, 48, 6, seed=k),
            Calibration(100, 0.1, 48, 48, 24), coded='png')], 'ros1')
    (tmp_path / 'run').mkdir()
    assert is_accounted_for(session.run_session(path, tmp_path / 'run', FAST).frames, 6)


def test_a_command_that_is_not_there_is_named(recording, tmp_path):
    with pytest.raises(StereoError, match='no_such_launcher cannot be started'):
        session.run_command(recording, tmp_path, ['no_such_launcher'])


def test_a_node_with_other_settings_than_the_scenario_is_refused():
    replay_recorded._check_settings({'levels': 3}, {'levels': 3, 'iterations': 4})
    replay_recorded._check_settings({'levels': 3}, {})
    with pytest.raises(StereoError, match='the node has levels 4, but the scenario is about 3'):
        replay_recorded._check_settings({'levels': 3}, {'levels': 4})


@pytest.mark.parametrize(('arguments', 'words'), [
    ([], 'nothing to play'), (['bag', '--start', 'x'], '--start needs --output'),
    (['bag', '--set', 'levels=3'], '--set needs --output'),
    (['bag', '--set', 'queue_size=9', '--output', 'o'], 'put it into a file for --params-file'),
    (['bag', '--output', 'o', '--loop', '0'], 'a run that is recorded has an end'),
    (['--scenario', 'held.yaml'], '--scenario needs --output'),
    (['bag', '--scenario', 'held.yaml', '--output', 'o'], 'a path and --scenario exclude'),
    (['bag', '--start', 'x', '--preset', 'road', '--output', 'o'], '--start and settings'),
    (['bag', '--preset', 'road', '--output', 'o', *ROBOT], '--ros-args'),
    (['--scenario', 'held.yaml', '--output', 'o'], 'has limit, which a run through the node'),
    (['--scenario', 'trusted.yaml', '--output', 'o'], 'has conditions on sparsification')])
def test_a_mistake_is_one_line_and_writes_nothing(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'held.yaml').write_text('inputs: bag\nlimit: 3\nconditions: delivery.lost <= 0\n')
    (tmp_path / 'trusted.yaml').write_text(
        'inputs: bag\nconditions: mean.sparsification.mae.ause <= 1\n')
    assert main(['replay', *arguments]) == 2
    out, error = capsys.readouterr()
    assert words in error
    assert (out, error.count('\n')) == ('', 1)
    assert not (tmp_path / 'o').exists()
