"""Starts the stereo matching node, or one for each camera of a file.

Every parameter of the node is an argument, too, as for stereo_image_proc: disparity_range:=128.
Only what is set on the command line is passed on: a default here would silently override the
parameter file. The node runs as a process of its own (Python nodes have no intra-process
transport): start it on the machine that the cameras are connected to.
"""

from __future__ import annotations

import os
import pathlib
import posixpath
import sys
from typing import Any

from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    OpaqueFunction,
    SetEnvironmentVariable,
)
from launch.events import matches_action
from launch.events.process import ProcessExited, ShutdownProcess
from launch.logging import get_logger
from launch_ros.actions import Node

from stereo_bp_ros.config.files import AUTO, NONE, preset_names
from stereo_bp_ros.config.mappings import all_settings
from stereo_bp_ros.node import launching
from stereo_bp_ros.system import distributions

CONFIG = pathlib.Path(__file__).resolve().parent.parent / 'config'

#: The camera's process needs this profile too, see the README.
FAST_DDS_PROFILE = CONFIG / 'fastdds_large_images.xml'

#: The image that the layout of rviz2 shows.
LAYOUT_IMAGE = 'left/image_rect'

RESPAWN_DELAY_S = 2.0

#: As ROS writes them, in small letters or in capitals.
LOG_LEVELS = ('debug', 'info', 'warn', 'error', 'fatal')

OWN_ARGUMENTS = (
    DeclareLaunchArgument(
        'namespace', default_value='',
        description='namespace of the node and all its topics'),
    DeclareLaunchArgument(
        'name', default_value='',
        description='name of the node; not set: stereo_bp'),
    DeclareLaunchArgument(
        'left_namespace', default_value='',
        description='namespace of image_rect (with rectify image_raw) and camera_info of the left '
        'camera; not set: left'),
    DeclareLaunchArgument(
        'right_namespace', default_value='',
        description='namespace of image_rect (with rectify image_raw) and camera_info of the '
        'right camera; not set: right'),
    DeclareLaunchArgument(
        'params_file', default_value='',
        description='YAML file of parameters'),
    DeclareLaunchArgument(
        'preset', default_value='', choices=['', AUTO, NONE, *preset_names()],
        description='set of settings, over which values in params_file win'),
    DeclareLaunchArgument(
        'use_sim_time', default_value='',
        description='take the time from /clock: true or false'),
    DeclareLaunchArgument(
        'cameras', default_value='',
        description='YAML file with a list of cameras: a node for each, with these arguments'),
    DeclareLaunchArgument(
        'log_level', default_value='', choices=['', *LOG_LEVELS, *map(str.upper, LOG_LEVELS)],
        description='least severity that is logged'),
    DeclareLaunchArgument(
        'view', default_value='', choices=['', 'rviz'],
        description='show images, disparity and points of each camera in rviz2'),
    DeclareLaunchArgument(
        'diagnostics', default_value='false',
        description='group the diagnostics by camera, on /diagnostics_agg: true or false'),
    DeclareLaunchArgument(
        'respawn', default_value='true',
        description=f'start the node again {RESPAWN_DELAY_S:g} s after it has ended, unless it '
        'has refused to start: true or false'),
)

ARGUMENTS = (*OWN_ARGUMENTS, *(
    DeclareLaunchArgument(name, default_value='',
                          description=f'parameter: {setting.meaning}; {setting.limit()}')
    for name, setting in all_settings().items()
    if name not in {argument.name for argument in OWN_ARGUMENTS}))


def generate_launch_description() -> LaunchDescription:
    """The arguments, and nodes made of those that are set."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start_nodes)])


def start_nodes(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """A process for each camera: one that ends or compiles leaves the others alone."""
    given = {argument.name: context.launch_configurations[argument.name]
             for argument in ARGUMENTS}
    unknown = launching.unknown_arguments(
        pathlib.Path(__file__).name, sys.argv, context.argv, context.launch_configurations, given)
    for sentence in unknown.values():
        get_logger('stereo_bp').warning(sentence)
    choices = {argument.name: argument.choices or () for argument in ARGUMENTS}
    cameras = launching.cameras(given, choices)
    return [*fast_dds_profile(), *map(node_process, cameras),
            *(map(viewer, cameras) if given['view'] and is_installed('rviz2', 'view') else ()),
            *([aggregator(context, cameras)]
              if launching.parse_boolean('diagnostics', given['diagnostics'])
              and is_installed('diagnostic_aggregator', 'diagnostics') else ())]


def node_process(given: dict[str, Any]) -> Node:
    """A node's process, with what the user has set and nothing else."""
    parameters: list[object] = [*launching.parameter_file(given['params_file'])]
    values = launching.parameter_values(given)
    if values:
        parameters.append(values)
    optional = {name: given[name] for name in ('namespace', 'name') if given[name]}
    node = Node(
        package='stereo_bp_ros', executable='stereo_bp_node', output='screen',
        emulate_tty=True, parameters=parameters, remappings=remappings(given),
        ros_arguments=['--log-level', given['log_level']] if given['log_level'] else [],
        respawn=launching.parse_boolean('respawn', given['respawn']),
        respawn_delay=RESPAWN_DELAY_S,
        on_exit=lambda event, context: stay_down(node, event), **optional)
    return node


def stay_down(node: Node, event: ProcessExited) -> list[LaunchDescriptionEntity]:
    """Ends the waiting to respawn: launch respawns whatever the exit status."""
    reason = launching.refusal(event.returncode)
    if not reason:
        return []
    get_logger('stereo_bp').error(reason)
    return [EmitEvent(event=ShutdownProcess(process_matcher=matches_action(node)))]


def viewer(given: dict[str, Any]) -> Node:
    """rviz2 on the topics of a node; their names in the layout are relative."""
    values, topics = launching.parameter_values(given), remappings(given)
    is_side_by_side = values.get('side_by_side', 'off') != 'off'
    image = ('' if is_side_by_side else 'left/') + (
        'image_raw' if values.get('rectify') else 'image_rect')
    if image != LAYOUT_IMAGE:       # then nobody publishes the image of the layout
        topics = [(LAYOUT_IMAGE, dict(reversed(topics)).get(image, image)), *topics]
    return Node(
        package='rviz2', executable='rviz2', arguments=['-d', str(CONFIG / 'stereo_bp.rviz')],
        parameters=[{'use_sim_time': True}] if values.get('use_sim_time') else [],
        remappings=topics,
        **({'namespace': given['namespace']} if given['namespace'] else {}))


def aggregator(context: LaunchContext, cameras: list[dict[str, Any]]) -> Node:
    """diagnostic_aggregator with a group for each camera."""
    names = [posixpath.join(
        launching.absolute_namespace(context.launch_configurations, given['namespace']),
        given['name'] or 'stereo_bp') for given in cameras]
    return Node(package='diagnostic_aggregator', executable='aggregator_node', output='screen',
                parameters=[launching.analyzers(names)])


def is_installed(package: str, argument: str) -> bool:
    """Whether a package is there that an argument asks for; says so where it is not."""
    try:
        get_package_prefix(package)
    except PackageNotFoundError:
        get_logger('stereo_bp').error(
            f'{argument} needs the package {package}, which is not installed; going on without '
            f'it (apt install ros-{os.environ.get("ROS_DISTRO", "DISTRO")}-'
            f'{package.replace("_", "-")})')
        return False
    return True


def remappings(given: dict[str, Any]) -> list[tuple[str, str]]:
    """From the node's topics to those of two cameras, and whatever a file of cameras has."""
    sides = [(side, given[f'{side}_namespace']) for side in ('left', 'right')]
    return [*((f'{side}/{topic}', f'{namespace}/{topic}') for side, namespace in sides
              if namespace for topic in ('image_rect', 'image_raw', 'camera_info')),
            *given.get('remappings', ())]


def fast_dds_profile() -> list[SetEnvironmentVariable]:
    """Room for large images in Fast DDS's shared memory, unless the user has a profile."""
    if any(os.environ.get(name) for name in distributions.PROFILE_VARIABLES):
        return []
    return [SetEnvironmentVariable(distributions.profile_variable(), str(FAST_DDS_PROFILE))]
