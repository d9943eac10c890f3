"""stereo_bp replay --output to a node that cannot become active, and what nodes say of it."""

from __future__ import annotations

import os
import time
import types

import numpy as np
import pytest
import yaml

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.sources import bags

pytest.importorskip('rclpy', reason='replay over ROS needs rclpy')
pytest.importorskip('numba', reason='the CPU engine needs Numba')

from stereo_bp_ros.replay import frames, session
from test.node.processes import running_node

SENTENCE = 'configuring failed: the memory plan needs'


@pytest.mark.ros
def test_a_node_that_fails_to_configure_is_waited_for_no_longer_but_one_of_another_namespace(
        tmp_path, capfd, alone, monkeypatch):
    image = np.zeros((32, 64), np.uint8)
    bags.write_bag(tmp_path / 'bag', Calibration(400, 0.1, 32, 32, 16),
                   [(10**18, image, image, None)])
    command = ['replay', str(tmp_path / 'bag'), '--output', str(tmp_path / 'out')]
    path = tmp_path / 'mine.yaml'
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': {    # too little memory
        'disparity_range': 16, 'backend': 'cpu', 'memory_limit': 1000, 'max_partitions': 1,
        'image_width': 160, 'image_height': 120, 'use_sim_time': True}}}))
    parameters, start = ['--params-file', str(path)], time.monotonic()
    assert main([*command, *parameters]) == 2
    assert time.monotonic() - start < session.START_LIMIT_S
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith(f'stereo_bp replay: /stereo_bp: {SENTENCE}')
    assert last.endswith('node.log')
    # Nor is one that others have started.
    robot = ['--ros-args', '-r', '__ns:=/robot']
    with running_node(tmp_path, {}, *robot[1:], *parameters, wait='', qos={},
                      domain=int(os.environ['ROS_DOMAIN_ID'])) as node:
        assert main([*command, *robot]) == 2
        assert f'/robot/stereo_bp: {SENTENCE}' in capfd.readouterr().err.splitlines()[-1]
        # Nor where nothing is recorded.
        assert main(['replay', command[1], '--wait', '600', *robot]) == 2
        assert f'/robot/stereo_bp: {SENTENCE}' in capfd.readouterr().err.splitlines()[-1]
        assert main(['replay', command[1], '--wait', '2.5']) == 0
        assert 'nobody subscribes to /left/image_rect' in capfd.readouterr().err
        monkeypatch.setattr(session, 'START_LIMIT_S', 2.5)
        assert main(command) == 2
        assert 'nobody subscribes to /left/image_rect' in capfd.readouterr().err
        assert node.process.poll() is None


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
