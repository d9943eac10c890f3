"""Starts the stereo matching node and plays a bag or a folder of pairs to it.

All arguments of stereo_bp.launch.py may be given too. With use_sim_time:=true the recorded stamps
stay and /clock is published; else every stamp becomes the time of publishing.
"""

from __future__ import annotations

import pathlib

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

NODE_LAUNCH_FILE = pathlib.Path(__file__).parent / 'stereo_bp.launch.py'

ARGUMENTS = (
    DeclareLaunchArgument(
        'bag', default_value='',
        description='rosbag2 folder or ROS 1 bag with both images and camera_info'),
    DeclareLaunchArgument(
        'images', default_value='',
        description='folder of pairs (left/*.png, right/*.png), instead of a bag'),
    DeclareLaunchArgument(
        'rate', default_value='1.0',
        description='speed, 1.0 = as recorded'),
    DeclareLaunchArgument(
        'loop', default_value='1',
        description='how often to play it, 0 = until interrupted'),
    DeclareLaunchArgument(
        'exit_at_end', default_value='true', choices=['true', 'false'],
        description='end the node too when everything has been played'),
)


def generate_launch_description() -> LaunchDescription:
    """The node as stereo_bp.launch.py starts it, and the player."""
    node = IncludeLaunchDescription(PythonLaunchDescriptionSource(str(NODE_LAUNCH_FILE)))
    return LaunchDescription([*ARGUMENTS, node, OpaqueFunction(function=start_player)])


def start_player(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """``stereo_bp replay`` in the node's namespace, on the cameras' topics."""
    given = {name: LaunchConfiguration(name).perform(context) for name in (
        'bag', 'images', 'rate', 'loop', 'exit_at_end', 'namespace', 'left_namespace',
        'right_namespace', 'use_sim_time')}
    if bool(given['bag']) == bool(given['images']):
        raise ValueError('set bag:=<path> or images:=<folder>, one of the two')
    player = Node(
        package='stereo_bp_ros', executable='stereo_bp', output='screen', emulate_tty=True,
        arguments=['replay', given['bag'] or given['images'], '--rate', given['rate'],
                   '--loop', given['loop'],
                   *(['--clock'] if given['use_sim_time'] == 'true' else [])],
        remappings=[(f'{side}/{topic}', f'{given[f"{side}_namespace"]}/{topic}')
                    for side in ('left', 'right') if given[f'{side}_namespace']
                    for topic in ('image_rect', 'image_rect/compressed', 'camera_info')],
        **({'namespace': given['namespace']} if given['namespace'] else {}))
    if given['exit_at_end'] == 'false':
        return [player]
    return [player, RegisterEventHandler(OnProcessExit(
        target_action=player,
        on_exit=[EmitEvent(event=Shutdown(reason='everything has been played'))]))]
