"""Starts the stereo matching node.

Every parameter of the node is an argument, too, as for stereo_image_proc: disparity_range:=128.
Only what is set on the command line is passed on: a default here would silently override the
parameter file. The node runs as a process of its own (Python nodes have no intra-process
transport): start it on the machine that the cameras are connected to.
"""

from __future__ import annotations

import os
import pathlib
import sys

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

from stereo_bp_ros.config import all_settings
from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.node import launching

#: The camera's process needs this profile too, see the README.
FAST_DDS_PROFILE = (pathlib.Path(__file__).resolve().parent.parent / 'config'
                    / 'fastdds_large_images.xml')

RESPAWN_DELAY_S = 2.0

OWN_ARGUMENTS = (
    DeclareLaunchArgument(
        'namespace', default_value='',
        description='namespace of the node and all its topics'),
    DeclareLaunchArgument(
        'name', default_value='',
        description='name of the node; not set: stereo_bp'),
    DeclareLaunchArgument(
        'left_namespace', default_value='',
        description='namespace of image_rect and camera_info of the left camera; not set: left'),
    DeclareLaunchArgument(
        'right_namespace', default_value='',
        description='namespace of image_rect and camera_info of the right camera; not set: '
        'right'),
    DeclareLaunchArgument(
        'params_file', default_value='',
        description='YAML file of parameters'),
    DeclareLaunchArgument(
        'preset', default_value='', choices=['', *preset_names()],
        description='shipped set of settings that all defaults come from; values in params_file '
        'win over it'),
    DeclareLaunchArgument(
        'use_sim_time', default_value='',
        description='take the time from /clock: true or false'),
    DeclareLaunchArgument(
        'log_level', default_value='', choices=['', 'debug', 'info', 'warn', 'error', 'fatal'],
        description='least severity that is logged'),
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
    """The arguments, and a node made of those that are set."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start_node)])


def start_node(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """The node's process, with what the user has set and nothing else."""
    given = {argument.name: context.launch_configurations[argument.name]
             for argument in ARGUMENTS}
    for sentence in launching.unknown_arguments(pathlib.Path(__file__).name, sys.argv,
                                                context.argv, given):
        get_logger('stereo_bp').warning(sentence)
    parameters: list[object] = [*launching.parameter_file(given['params_file'])]
    values = launching.parameter_values(given)
    if values:
        parameters.append(values)
    optional = {name: given[name] for name in ('namespace', 'name') if given[name]}
    node = Node(
        package='stereo_bp_ros', executable='stereo_bp_node', output='screen',
        emulate_tty=True, parameters=parameters,
        remappings=camera_remappings(given['left_namespace'], given['right_namespace']),
        ros_arguments=['--log-level', given['log_level']] if given['log_level'] else [],
        respawn=launching.parse_boolean('respawn', given['respawn']),
        respawn_delay=RESPAWN_DELAY_S,
        on_exit=lambda event, context: stay_down(node, event), **optional)
    return [*fast_dds_profile(), node]


def stay_down(node: Node, event: ProcessExited) -> list[LaunchDescriptionEntity]:
    """Ends the waiting to respawn: launch respawns whatever the exit status."""
    reason = launching.refusal(event.returncode)
    if not reason:
        return []
    get_logger('stereo_bp').error(reason)
    return [EmitEvent(event=ShutdownProcess(process_matcher=matches_action(node)))]


def camera_remappings(left_namespace: str, right_namespace: str) -> list[tuple[str, str]]:
    """From the node's topics to those of two cameras; '' keeps the node's own."""
    return [(f'{side}/{topic}', f'{namespace}/{topic}')
            for side, namespace in (('left', left_namespace), ('right', right_namespace))
            if namespace
            for topic in ('image_rect', 'camera_info')]


def fast_dds_profile() -> list[SetEnvironmentVariable]:
    """Room for large images in Fast DDS's shared memory, unless the user has a profile."""
    names = ('FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE')
    if any(os.environ.get(name) for name in names):
        return []
    # Humble's Fast DDS knows the old name only; newer ones warn about it.
    name = names[1] if os.environ.get('ROS_DISTRO') == 'humble' else names[0]
    return [SetEnvironmentVariable(name, str(FAST_DDS_PROFILE))]
