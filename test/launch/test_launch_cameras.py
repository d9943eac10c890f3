"""A file of cameras, run by the real launch and launch_ros."""

from __future__ import annotations

import os
import signal

import pytest
import yaml

from test.cases import every
from test.launch.bench import Bench, parameter_files, remappings

pytestmark = pytest.mark.ros


def test_each_camera_of_a_file_gets_a_process_with_its_own_settings(bench: Bench) -> None:
    bench.install_telling('stereo_bp_node')
    file = bench.directory / 'cameras.yaml'
    file.write_text(yaml.safe_dump([
        {'namespace': 'front', 'preset': 'road', 'num_threads': 1,
         'remappings': {'left/image_rect': '/infra1/image_rect_raw'}},
        {'namespace': 'rear', 'preset': 'sad_fast', 'respawn': False}]))
    with bench.running('stereo_bp.launch.py', f'cameras:={file}', 'log_level:=debug'):
        calls = [arguments for arguments, _ in bench.calls('stereo_bp_node', 2)]
        found = {remappings(arguments)['__ns']: arguments for arguments in calls}
        assert parameter_files(found['/front']) == [{'preset': 'road', 'num_threads': 1}]
        assert parameter_files(found['/rear']) == [{'preset': 'sad_fast'}]
    assert remappings(found['/front']) == {
        '__ns': '/front', 'left/image_rect': '/infra1/image_rect_raw'}
    assert every('--log-level' in arguments for arguments in calls)


def test_a_mistake_in_a_file_of_cameras_starts_nothing(bench: Bench) -> None:
    bench.install_telling('stereo_bp_node')
    file = bench.directory / 'cameras.yaml'
    file.write_text('- namespace: front\n- namespace: rear\n  preset: roda\n')
    with bench.running('stereo_bp.launch.py', f'cameras:={file}') as process:
        assert process.wait(30) != 0
    assert 'cameras.yaml, camera 2: preset is' in bench.log
    assert not list(bench.told.iterdir())


def test_the_nodes_of_a_file_are_active_side_by_side_and_end_with_the_launch(bench: Bench) -> None:
    bench.install_real('stereo_bp_node', 'stereo_bp_ros.node.main')
    file = bench.directory / 'cameras.yaml'
    file.write_text(yaml.safe_dump([
        {'namespace': name, 'preset': 'sad_fast', 'num_threads': 1,
         'remappings': {'right/image_rect': f'/{name}_driver/right/rect'}}
        for name in ('front', 'rear')]))
    with bench.running('stereo_bp.launch.py', f'cameras:={file}') as process:
        for name in ('front', 'rear'):
            bench.wait_for(f'active: waiting for /{name}/left/image_rect, '
                           f'/{name}_driver/right/rect')
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(15) == 0
    assert bench.log.count('process has finished cleanly') == 2
