"""What stereo_bp_replay.launch.py makes of launch, with stand-ins for launch."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.sources import bags
from test.launch import stand_ins

pytest.importorskip('rclpy', reason='the launch files import what plays bags over ROS')
from stereo_bp_ros.replay import session


@pytest.fixture
def replay(repository: pathlib.Path) -> Any:
    return stand_ins.load(repository / 'launch/stereo_bp_replay.launch.py')


@pytest.fixture
def given(tmp_path: pathlib.Path, replay: Any) -> dict[str, str]:
    """The arguments of a replay of one pair, as they are without a word of the user's."""
    image = np.zeros((32, 64), np.uint8)
    bags.write_bag(tmp_path / 'bag', Calibration(400, 0.1, 32, 32, 16),
                   [(10**18, image, image, None)])
    defaults = {argument.name: argument.default_value for argument in replay.ARGUMENTS}
    return {**defaults, 'bag': str(tmp_path / 'bag')}


@pytest.mark.parametrize(('arguments', 'namespace', 'cameras'), [
    ({}, '/', {'left': 'left', 'right': 'right'}),
    ({'ros_namespace': '/fleet', 'namespace': 'robot', 'left_namespace': '/cam'}, '/fleet/robot',
     {'left': '/cam', 'right': 'right'})])
def test_the_node_of_a_recorded_replay_alone_gets_reliable_inputs(
        replay: Any, given: dict[str, str], arguments: dict[str, str], namespace: str,
        cameras: dict[str, str]) -> None:
    context = stand_ins.context({**given, **arguments})
    entities, = replay.generate_launch_description().given
    names = [type(entity).__name__ for entity in entities]
    first, last = names.index('PushLaunchConfigurations'), names.index('PopLaunchConfigurations')
    assert 'IncludeLaunchDescription' in names[first:last]
    function = entities[first + 1].function
    assert dict(entity.given for entity in stand_ins.of('SetParameter', function(context))) == (
        session.reliable_overrides(namespace, cameras=cameras))
    context.launch_configurations['output'] = 'none'
    assert stand_ins.of('SetParameter', function(context)) == []


def test_an_unknown_argument_is_said_by_the_replay_file_and_kept_from_the_node(
        replay: Any, given: dict[str, str]) -> None:
    entities = replay.set_arguments(stand_ins.context({**given, 'presett': 'road'}))
    sentence, = replay.logger.said
    assert 'stereo_bp_replay.launch.py has no argument presett' in sentence
    assert [one.given for one in stand_ins.of('UnsetLaunchConfiguration', entities)] == [
        ('presett',)]


def end_of(executable: str, status: int, prefix: tuple[str, ...] = ()) -> Any:
    """The event that a process has ended."""
    node = stand_ins.Node(package='stereo_bp_ros', executable=executable)
    return stand_ins.Entity(action=node, returncode=status,
                            cmd=[*prefix, f'/opt/lib/stereo_bp_ros/{executable}', '--ros-args'])


def test_a_player_that_fails_has_launch_end_with_an_error(replay: Any) -> None:
    running, ending = stand_ins.context({}), stand_ins.context({}, is_shutdown=True)
    with pytest.raises(RuntimeError, match='the player has ended with status 2'):
        replay.end_with_player(end_of('stereo_bp', 2), running)
    assert replay.logger.said == []
    played, = replay.end_with_player(end_of('stereo_bp', 0), running)
    assert type(played.event).__name__ == 'Shutdown'
    assert replay.logger.said == ['everything has been played']
    # As after Ctrl-C.
    assert replay.end_with_player(end_of('stereo_bp', 130), ending) == []


@pytest.mark.parametrize('prefix', [(), ('gdb', '-ex', 'run', '--args')])
@pytest.mark.parametrize(('respawn', 'status'), [(None, 2), ('true', 2), ('false', 1)])
def test_a_node_that_fails_and_is_not_started_again_has_launch_end_with_an_error(
        replay: Any, given: dict[str, str], prefix: tuple[str, ...], respawn: str | None,
        status: int) -> None:
    on_exit = handler_of_the_node(replay, given, respawn)
    with pytest.raises(RuntimeError, match=f'the node has ended with status {status}: there is'):
        on_exit(end_of('stereo_bp_node', status, prefix), stand_ins.context({}))


def test_a_replay_goes_on_while_the_node_is_started_again_and_whatever_else_ends(
        replay: Any, given: dict[str, str]) -> None:
    for respawn in (None, 'true'):
        on_exit = handler_of_the_node(replay, given, respawn)
        assert on_exit(end_of('stereo_bp_node', 3), stand_ins.context({})) == []
    for respawn in (None, 'false'):
        on_exit = handler_of_the_node(replay, given, respawn)
        for other in (end_of('rviz2', 2), stand_ins.Entity(
                action=stand_ins.Entity(), returncode=2, cmd=['tail', 'stereo_bp_node'])):
            assert on_exit(other, stand_ins.context({})) == []
        after_ctrl_c = stand_ins.context({}, is_shutdown=True)
        assert on_exit(end_of('stereo_bp_node', 2), after_ctrl_c) == []
    shutdown, = on_exit(end_of('stereo_bp_node', 0), stand_ins.context({}))
    assert 'there is nothing to play to' in shutdown.event.reason


def handler_of_the_node(replay: Any, given: dict[str, str], respawn: str | None) -> Any:
    """What is called at the end of a process, of a replay with this argument."""
    context = stand_ins.context({**given, **({'respawn': respawn} if respawn else {})})
    handler, = stand_ins.of('RegisterEventHandler', replay.set_arguments(context))
    return handler.given[0].on_exit
