"""What stereo_bp_replay.launch.py makes of launch, with stand-ins for launch."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.evaluation import bags
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
