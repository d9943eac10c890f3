"""Files of cameras, raw images, rviz2 and diagnostic_aggregator, run by the real launch."""

from __future__ import annotations

import os
import pathlib
import signal

import numpy as np
import pytest
import yaml
from rosbags.rosbag2 import Reader, Writer
from rosbags.typesys import Stores, get_typestore

from stereo_bp_ros import Calibration
from stereo_bp_ros.sources import bags
from test.cases import every
from test.launch.bench import Bench, parameter_files, remappings
from test.node.processes import LIMIT

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
        assert process.wait(LIMIT) != 0
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
        assert process.wait(LIMIT) == 0
    assert bench.log.count('process has finished cleanly') == 2
    assert 'escalating' not in bench.log


# Raw images

def test_raw_images_of_a_bag_are_played_to_a_node_that_rectifies_them(bench: Bench) -> None:
    for name in ('stereo_bp_node', 'stereo_bp'):
        bench.install_telling(name)
    bag = raw_bag(bench.directory)
    with bench.running('stereo_bp_replay.launch.py', f'bag:={bag}', 'rectify:=true',
                       'output:=none', 'namespace:=robot'):
        arguments, _ = bench.call('stereo_bp')
        assert parameter_files(bench.call('stereo_bp_node')[0]) == [{'rectify': True}]
    assert remappings(arguments) == {
        '__ns': '/robot', **{f'{side}/image_rect{end}': f'{side}/image_raw{end}'
                             for side in ('left', 'right') for end in ('', '/compressed')}}


def raw_bag(directory: pathlib.Path) -> pathlib.Path:
    """A bag of one pair of topics that are named as raw images are."""
    image = np.zeros((64, 96), np.uint8)
    bags.write_bag(directory / 'bag', Calibration(500, 0.1, 48, 48, 32),
                   [(10**18, image, image, None)])
    with (Reader(directory / 'bag') as reader,
          Writer(directory / 'raw', version=9) as writer):
        for connection, stamp, data in reader.messages():
            topic = connection.topic.replace('image_rect', 'image_raw')
            copied = writer.add_connection(topic, connection.msgtype,
                                           typestore=get_typestore(Stores.ROS2_KILTED))
            writer.write(copied, stamp, data)
    return directory / 'raw'


# Tools

@pytest.fixture
def tools(bench: Bench) -> Bench:
    """With all executables, each of which tells how it was called."""
    bench.install_telling('stereo_bp_node')
    bench.install_telling('rviz2', package='rviz2')
    bench.install_telling('aggregator_node', package='diagnostic_aggregator')
    return bench


def test_rviz_shows_the_topics_that_the_node_reads(tools: Bench) -> None:
    with tools.running('stereo_bp.launch.py', 'view:=rviz', 'namespace:=robot',
                       'left_namespace:=/front/left', 'use_sim_time:=true'):
        arguments, _ = tools.call('rviz2')
        assert parameter_files(arguments) == [{'use_sim_time': True}]
    assert pathlib.Path(arguments[arguments.index('-d') + 1]) == (
        tools.repository / 'config/stereo_bp.rviz')
    assert remappings(arguments) == {
        '__ns': '/robot', **{f'left/{topic}': f'/front/left/{topic}'
                             for topic in ('image_rect', 'image_raw', 'camera_info')}}


@pytest.mark.parametrize(('argument', 'raw'), [
    ('name:=stereo_bp', 'left/image_raw'),
    ('left_namespace:=/front/left', '/front/left/image_raw'),
    ('side_by_side:=right_left', 'image_raw')])
def test_rviz_shows_the_raw_image_of_a_node_that_rectifies(tools: Bench, argument: str, raw: str
                                                           ) -> None:
    with tools.running('stereo_bp.launch.py', 'view:=rviz', 'rectify:=true', argument):
        arguments, _ = tools.call('rviz2')
    # Of several rules for one name the first is applied.
    rules = [one for one in arguments if one.startswith('left/image_rect:=')]
    assert rules[0] == f'left/image_rect:={raw}'


def test_without_a_wish_for_tools_the_node_runs_alone(tools: Bench) -> None:
    with tools.running('stereo_bp.launch.py'):
        tools.call('stereo_bp_node')
        tools.wait_for('process started with pid')
    assert 'rviz2' not in tools.log
    assert 'aggregator_node' not in tools.log


@pytest.mark.parametrize(('argument', 'package'), [
    ('view:=rviz', 'rviz2'), ('diagnostics:=true', 'diagnostic-aggregator')])
def test_a_tool_that_is_not_installed_is_named_and_the_node_runs_all_the_same(
        bench: Bench, argument: str, package: str) -> None:
    bench.install_telling('stereo_bp_node')
    with bench.running('stereo_bp.launch.py', argument, ROS_DISTRO='jazzy') as process:
        bench.call('stereo_bp_node')
        assert process.poll() is None
    assert f'apt install ros-jazzy-{package}' in bench.log
    assert f'{argument.partition(":")[0]} needs the package' in bench.log


def test_diagnostics_are_grouped_by_camera(tools: Bench) -> None:
    file = tools.directory / 'cameras.yaml'
    file.write_text(yaml.safe_dump([{'namespace': 'front'},
                                    {'namespace': '/rear', 'name': 'matcher'}]))
    with tools.running('stereo_bp.launch.py', f'cameras:={file}', 'namespace:=robot',
                       'diagnostics:=true'):
        arguments, _ = tools.call('aggregator_node')
        parameters, = parameter_files(arguments)
    assert {key: value for key, value in parameters.items() if key.endswith('prefix')} == {
        'camera0.find_and_remove_prefix': ('/robot/front/stereo_bp: ',),
        'camera1.find_and_remove_prefix': ('/rear/matcher: ',)}
    assert {key: value for key, value in parameters.items() if key.endswith('path')} == {
        'path': 'stereo_bp', 'camera0.path': 'robot/front/stereo_bp',
        'camera1.path': 'rear/matcher'}


def test_diagnostics_are_found_in_the_namespace_that_another_file_pushes(tools: Bench) -> None:
    parent = tools.directory / 'bringup.launch.py'
    parent.write_text(f"""
from launch import LaunchDescription
from launch.actions import GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import PushRosNamespace
def generate_launch_description():
    return LaunchDescription([GroupAction([
        PushRosNamespace('robot'), IncludeLaunchDescription(PythonLaunchDescriptionSource(
            {str(tools.repository / 'launch/stereo_bp.launch.py')!r}),
            launch_arguments=[('diagnostics', 'true')])])])
""")
    with tools.running(str(parent)):
        arguments, _ = tools.call('aggregator_node')
        parameters, = parameter_files(arguments)
        node, _ = tools.call('stereo_bp_node')
    assert parameters['camera0.find_and_remove_prefix'] == ('/robot/stereo_bp: ',)
    assert remappings(node)['__ns'] == '/robot'
