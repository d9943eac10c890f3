"""rviz2 and diagnostic_aggregator beside the node, run by the real launch and launch_ros."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from test.launch.bench import Bench, parameter_files, remappings

pytestmark = pytest.mark.ros


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
    ('left_namespace:=/front/left', '/front/left/image_raw')])
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
