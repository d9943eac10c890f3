"""Starts the stereo matching node.

Only what is set on the command line is passed on: a default here would silently override the
parameter file. The node runs as a process of its own (Python nodes have no intra-process
transport): start it on the machine that the cameras are connected to.
"""

from __future__ import annotations

import os
import pathlib

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from stereo_bp_ros.parameter_files import preset_names

#: The camera's process needs this profile too, see the README.
FAST_DDS_PROFILE = (pathlib.Path(__file__).resolve().parent.parent / 'config'
                    / 'fastdds_large_images.xml')

RESPAWN_DELAY_S = 2.0

UNSET_OR_BOOL = ['', 'true', 'false']

ARGUMENTS = (
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
        'use_sim_time', default_value='', choices=UNSET_OR_BOOL,
        description='take the time from /clock'),
    DeclareLaunchArgument(
        'log_level', default_value='', choices=['', 'debug', 'info', 'warn', 'error', 'fatal'],
        description='least severity that is logged'),
    DeclareLaunchArgument(
        'autostart', default_value='', choices=UNSET_OR_BOOL,
        description='configure and activate the node without being asked'),
    DeclareLaunchArgument(
        'respawn', default_value='true', choices=['true', 'false'],
        description=f'start the node again {RESPAWN_DELAY_S:g} s after it has ended'),
)


def generate_launch_description() -> LaunchDescription:
    """The arguments, and a node made of those that are set."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start_node)])


def start_node(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """The node's process, with what the user has set and nothing else."""
    given = {argument.name: LaunchConfiguration(argument.name).perform(context)
             for argument in ARGUMENTS}
    parameters: list[object] = [given['params_file']] if given['params_file'] else []
    values: dict[str, object] = {name: given[name] == 'true'
                                 for name in ('use_sim_time', 'autostart') if given[name]}
    if given['preset']:
        values['preset'] = given['preset']
    if values:
        parameters.append(values)
    optional = {name: given[name] for name in ('namespace', 'name') if given[name]}
    node = Node(
        package='stereo_bp_ros', executable='stereo_bp_node', output='screen',
        emulate_tty=True, parameters=parameters,
        remappings=camera_remappings(given['left_namespace'], given['right_namespace']),
        ros_arguments=['--log-level', given['log_level']] if given['log_level'] else [],
        respawn=given['respawn'] == 'true', respawn_delay=RESPAWN_DELAY_S, **optional)
    return [*fast_dds_profile(), node]


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
