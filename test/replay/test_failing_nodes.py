"""stereo_bp replay --output to a node that cannot become active, or that warns."""

from __future__ import annotations

import pathlib
import subprocess
import time
import types

import pytest
import yaml

from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import bags
from stereo_bp_ros.evaluation.scenes import sequence as scenes

pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')
pytest.importorskip('numba', reason='the CPU engine needs Numba')

from stereo_bp_ros.replay import frames, session

FAST = {'disparity_range': 16, 'levels': 3, 'iterations': 4, 'backend': 'cpu'}
#: Its memory is too small for its images.
FAILING = {**FAST, 'memory_limit': 1000, 'max_partitions': 1, 'image_width': 160,
           'image_height': 120}
SENTENCE = 'configuring failed: the memory plan needs'


@pytest.fixture
def recording(tmp_path, ros_environment, monkeypatch) -> str:
    """Six frames of a street at 10 Hz, in a domain of their own."""
    for name in ('ROS_DOMAIN_ID', 'ROS_AUTOMATIC_DISCOVERY_RANGE'):
        monkeypatch.setenv(name, ros_environment[name])
    drive = scenes.RoadSequence(width=160, height=120, max_disparity=14, frames=6)
    bags.write_bag(tmp_path / 'bag', drive.calibration,
                   ((f.stamp_ns, f.left, f.right, f.disparity) for f in drive))
    return str(tmp_path / 'bag')


def parameter_file(folder: pathlib.Path, values: dict) -> str:
    path = folder / 'mine.yaml'
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': values}}))
    return str(path)


@pytest.mark.ros
def test_a_node_that_fails_to_configure_is_waited_for_no_longer(recording, tmp_path, capfd):
    start = time.monotonic()
    assert main(['replay', recording, '--output', str(tmp_path / 'out'), '--params-file',
                 parameter_file(tmp_path, FAILING)]) == 2
    assert time.monotonic() - start < session.START_LIMIT_S
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith(f'stereo_bp replay: /stereo_bp: {SENTENCE}')
    assert last.endswith('node.log')


@pytest.mark.ros
def test_so_is_one_that_others_have_started_but_not_for_that_of_another_namespace(
        recording, tmp_path, capfd, ros_environment, monkeypatch):
    node = subprocess.Popen(
        [*session.node_command(), '--ros-args', '-r', '__ns:=/robot', '--params-file',
         parameter_file(tmp_path, {**FAILING, 'use_sim_time': True})], env=ros_environment)
    command = ['replay', recording, '--output', str(tmp_path / 'out')]
    try:
        assert main([*command, '--ros-args', '-r', '__ns:=/robot']) == 2
        assert f'/robot/stereo_bp: {SENTENCE}' in capfd.readouterr().err.splitlines()[-1]
        monkeypatch.setattr(session, 'START_LIMIT_S', 4.0)
        assert main(command) == 2
        assert 'nobody subscribes to /left/image_rect' in capfd.readouterr().err
        assert node.poll() is None
    finally:
        node.kill()
        node.wait(10)


@pytest.mark.ros
def test_what_the_node_warns_of_is_said_by_replay(recording, tmp_path, caplog, capfd):
    main(['replay', recording, '--output', str(tmp_path / 'out'), '--params-file',
          parameter_file(tmp_path, {**FAST, 'disparty_range': 16})])
    assert ('[stereo_bp]: there is no parameter disparty_range; did you mean disparity_range?'
            in [record.getMessage() for record in caplog.records]), capfd.readouterr().err


def test_a_warning_is_said_once_whatever_launch_writes_before_it(tmp_path):
    log = tmp_path / 'node.log'
    assert session.warnings_of(log) == []
    log.write_text('[stereo_bp_node-1] [WARN] [12.5] [robot.stereo_bp]: slow\n'
                   '[INFO] [12.6] [stereo_bp]: not [WARN]\n'
                   '[WARN] [12.7] [robot.stereo_bp]: slow\n[WARN] [12.8] [stereo_bp]: hot\n')
    assert session.warnings_of(log) == ['[robot.stereo_bp]: slow', '[stereo_bp]: hot']


def test_a_failure_is_that_of_a_transition_and_gone_with_the_next():
    def told(text: str) -> dict[str, str]:
        return frames.failures(types.SimpleNamespace(status=[
            types.SimpleNamespace(name=f'/robot/stereo_bp: {name}', message=text)
            for name in ('input', 'device')]))
    assert told('configuring failed: why') == {'/robot/stereo_bp': 'configuring failed: why'}
    assert told('matching failed: why') == told('active on cpu') == {'/robot/stereo_bp': ''}
