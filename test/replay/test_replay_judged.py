"""stereo_bp replay --output: what comes back over DDS is judged as evaluate judges, losses too."""

from __future__ import annotations

import json
import pathlib
import shlex
import sys

import pytest
import yaml

from stereo_bp_ros import StereoError
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import bags
from stereo_bp_ros.evaluation.scenes import sequence as scenes

pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')
pytest.importorskip('numba', reason='the CPU engine needs Numba')

from stereo_bp_ros.cli import replay_recorded
from stereo_bp_ros.replay import session

FAST = {'disparity_range': 16, 'levels': 3, 'iterations': 4, 'backend': 'cpu'}
SET = [word for name, value in FAST.items() for word in ('--set', f'{name}={value}')]
STREET = {'width': 160, 'height': 120, 'max_disparity': 14, 'frames': 6}


@pytest.fixture(scope='module')
def recording(tmp_path_factory) -> pathlib.Path:
    """Six frames of a street at 10 Hz, with truth."""
    path = tmp_path_factory.mktemp('street') / 'bag'
    drive = scenes.RoadSequence(**STREET)
    bags.write_bag(path, drive.calibration, (
        (f.stamp_ns, f.left, f.right, f.disparity) for f in drive))
    return path


@pytest.fixture
def alone(ros_environment, monkeypatch) -> None:
    for name in ('ROS_DOMAIN_ID', 'ROS_AUTOMATIC_DISCOVERY_RANGE'):
        monkeypatch.setenv(name, ros_environment[name])


def scenario(folder: pathlib.Path, inputs: object, *conditions: str, **settings) -> pathlib.Path:
    path = folder / 'held.yaml'
    path.write_text(yaml.safe_dump({'inputs': inputs, 'settings': FAST | settings,
                                    'conditions': list(conditions), 'repeat': 1}))
    return path


def report_of(capsys, *arguments: str, status: int = 0) -> dict:
    verb, *others = arguments
    found = main([verb, '--json', *others])
    out, err = capsys.readouterr()
    assert found == status, err + out
    return json.loads(out)


def figures(report: dict) -> dict[str, dict]:
    """Of every frame, but for times, memory and other matchers."""
    times = ('times_ms', 'median_ms', 'stages_ms', 'device_ms', 'engine_bytes', 'process_bytes',
             'against')
    return {pair['name']: {key: value for key, value in pair.items() if key not in times}
            for pair in report['pairs']}


@pytest.mark.ros
def test_the_figures_over_dds_are_those_of_evaluate(recording, tmp_path, capsys, alone):
    mine = tmp_path / 'mine.yaml'
    mine.write_text(yaml.safe_dump({'/**': {'ros__parameters': {**FAST, 'levels': 5}}}))
    node = report_of(capsys, 'replay', str(recording), '--output', str(tmp_path / 'node'),
                     '--params-file', str(mine), '--set', 'levels=3')
    here = report_of(capsys, 'evaluate', str(recording), '--repeat', '1', *SET)
    frames = node['runs']['replay']['frames']
    assert frames['sent'] == 6
    assert frames['lost_in_transport'] == 0
    assert len(node['pairs']) == frames['published'] > 0
    expected = figures(here)
    assert figures(node) == {name: expected[name] for name in figures(node)}
    for pair in node['pairs']:
        assert {'score', 'filled', 'depth', 'regions'} <= pair.keys()
        assert pair['times_ms'][0] > pair['stages_ms']['messages'] > 0
    assert (node['matcher'], node['backend']) == ('node', 'cpu')
    assert node['devices']['node'][0]['device'] == here['devices']['bp'][0]['device']
    assert node['searched'] == [{'matcher': 'node', 'input': '', 'disparities': 16,
                                 'pairs': frames['published']}]
    assert node['BasicPerformanceMetrics.NUM_FRAMES_SENT'] == 6
    assert node['BasicPerformanceMetrics.NUM_MISSED_FRAMES'] == 6 - frames['recorded']
    assert node['BasicPerformanceMetrics.MEAN_FRAME_RATE'] == node['runs']['replay']['rate_hz']
    assert {'p50', 'p99', 'p99.9'} <= node['runs']['replay']['latency_ms']['messages'].keys()
    # What the node itself says that it ran with.
    assert node['settings'] == here['settings']
    page = (tmp_path / 'node/report.html').read_text()
    for text in ('Overview', 'lost to node', 'Wrong pixels by distance', 'Times', 'p99.9',
                 'disparities searched', 'matched by'):
        assert text in page


@pytest.mark.ros
def test_frames_that_come_too_fast_are_counted_and_fail_their_condition(tmp_path, capsys, alone):
    """At 2 kHz nearly all frames are superseded, and nothing is lost on the way."""
    street = {**STREET, 'width': 320, 'height': 240, 'max_disparity': 30, 'pitch_deg': 0.1}
    path = scenario(tmp_path, [{'rendered': street}], 'delivery.lost <= 0',
                    'delivery.superseded >= 1', 'delivery.published >= 0.95 * delivery.sent',
                    'mean.sky.coverage >= 0.1', 'mean.filled.bad_3_known <= 100',
                    disparity_range=32, iterations=40)
    report = report_of(capsys, 'replay', '--scenario', str(path), '--output',
                       str(tmp_path / 'out'), '--rate', '200', status=1)
    frames = report['runs']['replay']['frames']
    assert frames['sent'] == frames['published'] + sum(frames['dropped'].values()) == 6
    assert frames['dropped']['superseded'] >= 1
    assert len(report['pairs']) == frames['published']
    lost, superseded, published, sky, bad = report['conditions']
    assert (lost['value'], lost['passed']) == (0, True)
    assert superseded['value'] == frames['dropped']['superseded']
    assert superseded['passed']
    assert (published['value'], published['limit']) == (frames['published'], 0.95 * 6)
    assert not published['passed']
    # The street's own masks, which no bag has.
    assert sky['frames'] == bad['frames'] == frames['published']
    assert report['passed'] is False


@pytest.mark.ros
@pytest.mark.slow
def test_a_command_starts_the_node_and_is_stopped_with_all_that_it_has_started(
        recording, tmp_path, capsys, alone):
    parameters = tmp_path / 'mine.yaml'
    parameters.write_text(yaml.safe_dump({'/**': {'ros__parameters': {
        **FAST, 'use_sim_time': True, **session.reliable_overrides('/robot')}}}))
    script = tmp_path / 'launch.sh'
    script.write_text(f'{shlex.quote(sys.executable)} -m stereo_bp_ros.node.main --ros-args '
                      f'-r __ns:=/robot --params-file {parameters} &\n'
                      f'echo $! > {tmp_path}/pid\nwait\n')
    path = scenario(tmp_path, str(recording), 'delivery.lost <= 0',
                    'mean.score.bad_3_estimated <= 5')
    report = report_of(capsys, 'replay', '--scenario', str(path), '--output',
                       str(tmp_path / 'out'), '--start', f'sh {script}', '--ros-args', '-r',
                       '__ns:=/robot')
    assert report['runs']['replay']['frames']['sent'] == 6
    assert report['passed'] is True
    state = pathlib.Path(f'/proc/{int((tmp_path / "pid").read_text())}/stat')
    assert not state.exists() or state.read_text().rpartition(')')[2].split()[0] == 'Z'


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
    (['--scenario', 'held.yaml'], '--scenario needs --output'),
    (['bag', '--scenario', 'held.yaml', '--output', 'o'], 'a path and --scenario exclude'),
    (['bag', '--start', 'x', '--preset', 'road', '--output', 'o'], '--start and settings'),
    (['bag', '--preset', 'road', '--output', 'o', '--ros-args', '-r', '__ns:=/a'], '--ros-args'),
    (['--scenario', 'held.yaml', '--output', 'o'], 'has limit, which a run through the node')])
def test_a_mistake_is_one_line_and_writes_nothing(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'held.yaml').write_text('inputs: bag\nlimit: 3\nconditions: delivery.lost <= 0\n')
    assert main(['replay', *arguments]) == 2
    out, error = capsys.readouterr()
    assert words in error
    assert (out, error.count('\n')) == ('', 1)
    assert not (tmp_path / 'o').exists()
