"""Starts the stereo matching node, plays a bag or a folder of pairs to it, and reports.

All arguments of stereo_bp.launch.py may be given too. What the node answers is recorded and
scored in the time of the bag: /clock is published, and use_sim_time is true. With output:=none or
loop:=0 nothing is recorded; then every stamp becomes the time of publishing, unless
use_sim_time:=true.
"""

from __future__ import annotations

import functools
import pathlib
import sys

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    IncludeLaunchDescription,
    OpaqueFunction,
    PopLaunchConfigurations,
    PushLaunchConfigurations,
    RegisterEventHandler,
    SetLaunchConfiguration,
    UnsetLaunchConfiguration,
)
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.events.process import ProcessExited
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.logging import get_logger
from launch_ros.actions import Node, SetParameter

from stereo_bp_ros.node import launching
from stereo_bp_ros.replay.launching import NO_OUTPUT, OUTPUT, Plan, plan

NODE_SOURCE = PythonLaunchDescriptionSource(
    str(pathlib.Path(__file__).parent / 'stereo_bp.launch.py'))

ARGUMENTS = (
    DeclareLaunchArgument(
        'bag', default_value='',
        description='rosbag2 folder, a file of one, or ROS 1 bag with both images and '
        'camera_info'),
    DeclareLaunchArgument(
        'images', default_value='',
        description='folder of pairs (left/*.png, right/*.png), instead of a bag'),
    DeclareLaunchArgument(
        'output', default_value='',
        description='folder of the report, which replaces an earlier report there; not set: '
        f'{OUTPUT}, or nothing with loop:=0 or use_sim_time:=false; {NO_OUTPUT}: nothing is '
        'recorded'),
    DeclareLaunchArgument(
        'rate', default_value='1.0',
        description='speed, 1.0 = as recorded'),
    DeclareLaunchArgument(
        'loop', default_value='1',
        description='how often to play it, 0 = until interrupted'),
    DeclareLaunchArgument(
        'exit_at_end', default_value='true',
        description='end the node too when everything has been played: true or false'),
    *(DeclareLaunchArgument(
        f'{side}_image', default_value='',
        description=f'topic of the {side} images in the bag; not set: found by its name')
      for side in ('left', 'right')),
    *(DeclareLaunchArgument(
        f'{side}_info', default_value='',
        description=f'topic of the camera_info of the {side} images; not set: beside them')
      for side in ('left', 'right')),
)


def generate_launch_description() -> LaunchDescription:
    """The node as stereo_bp.launch.py starts it, and the player."""
    return LaunchDescription([
        *ARGUMENTS,
        # What is set is for the node alone. A GroupAction would also take the environment back,
        # and with it the node's profile of Fast DDS.
        PushLaunchConfigurations(), OpaqueFunction(function=set_arguments),
        IncludeLaunchDescription(NODE_SOURCE), PopLaunchConfigurations(),
        OpaqueFunction(function=start_player)])


def set_arguments(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """What the node needs for this source and the user has not set; and what follows its end."""
    known = {argument.name for argument in (
        *ARGUMENTS, *NODE_SOURCE.get_launch_description(context).get_launch_arguments())}
    given = context.launch_configurations
    unknown = launching.unknown_arguments(
        pathlib.Path(__file__).name, sys.argv, context.argv, given, known)
    for sentence in unknown.values():
        get_logger('stereo_bp').warning(sentence)
    launching.parameter_file(given.get('params_file', ''))
    to_start = planned(context)
    on_exit = functools.partial(
        end_with_node, launching.parse_boolean('respawn', given.get('respawn', 'true')))
    return [RegisterEventHandler(OnProcessExit(on_exit=on_exit)),
            # The node's launch file need not say it again.
            *map(UnsetLaunchConfiguration, unknown),
            *(SetLaunchConfiguration(*item) for item in to_start.node.items()),
            *(SetParameter(*item) for item in to_start.parameters.items())]


def planned(context: LaunchContext) -> Plan:
    """How this replay is started, from all that is set so far."""
    given = context.launch_configurations
    return plan(given, launching.absolute_namespace(given, given.get('namespace', '')))


def start_player(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """``stereo_bp replay`` in the node's namespace, on the cameras' topics."""
    given, to_start = context.launch_configurations, planned(context)
    player = Node(
        package='stereo_bp_ros', executable='stereo_bp', output='screen',
        emulate_tty=False,      # a bar that is drawn again and again fills the log
        arguments=to_start.player, remappings=list(to_start.remappings.items()),
        **({'namespace': given['namespace']} if given.get('namespace') else {}))
    if not launching.parse_boolean('exit_at_end', given['exit_at_end']):
        return [player]
    return [player, RegisterEventHandler(OnProcessExit(
        target_action=player, on_exit=end_with_player))]


def end_with_player(event: ProcessExited, context: LaunchContext
                    ) -> list[LaunchDescriptionEntity]:
    """Everything ends when all has been played, or when the player fails.

    :raises RuntimeError: the player fails. With an exception launch ends with status 1.
    """
    if context.is_shutdown:
        return []
    if event.returncode:
        raise RuntimeError(f'the player has ended with status {event.returncode}')
    get_logger('stereo_bp').info('everything has been played')
    return [EmitEvent(event=Shutdown(reason='the player has ended'))]


def end_with_node(respawns: bool, event: ProcessExited, context: LaunchContext
                  ) -> list[LaunchDescriptionEntity]:
    """A node that is not started again leaves nothing to play to.

    :param respawns: whether one that has not refused to start is.
    :raises RuntimeError: it has failed, as of ``end_with_player``.
    """
    # Not by the command, which begins with --launch-prefix.
    is_node = (isinstance(event.action, Node) and event.action.node_package == 'stereo_bp_ros'
               and event.action.node_executable == 'stereo_bp_node')
    if context.is_shutdown or not is_node:
        return []
    if respawns and not launching.refusal(event.returncode):
        return []
    reason = f'the node has ended with status {event.returncode}: there is nothing to play to'
    if event.returncode:
        raise RuntimeError(reason)
    return [EmitEvent(event=Shutdown(reason=reason))]
