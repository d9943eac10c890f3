"""What Nav2's lifecycle manager asks of a node that it manages without a bond.

Read in nav2_lifecycle_manager 1.1.20 (Humble), 1.3.13 (Jazzy), 1.4.2 (Kilted) and 1.5.0: a request
to change the state has the number of a transition and no label, has no limit of time, and is
followed by one for the state, which has to be the one that the transition leads to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip('rclpy')
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import GetState

from test.node.client import Client

pytestmark = pytest.mark.ros

#: Transitions of each command of ``manage_nodes``, and the state after each.
CONFIGURE = (Transition.TRANSITION_CONFIGURE, State.PRIMARY_STATE_INACTIVE)
ACTIVATE = (Transition.TRANSITION_ACTIVATE, State.PRIMARY_STATE_ACTIVE)
DEACTIVATE = (Transition.TRANSITION_DEACTIVATE, State.PRIMARY_STATE_INACTIVE)
CLEANUP = (Transition.TRANSITION_CLEANUP, State.PRIMARY_STATE_UNCONFIGURED)
SHUTDOWN = (Transition.TRANSITION_UNCONFIGURED_SHUTDOWN, State.PRIMARY_STATE_FINALIZED)
COMMANDS = {'startup': (CONFIGURE, ACTIVATE), 'pause': (DEACTIVATE,), 'resume': (ACTIVATE,),
            'reset': (DEACTIVATE, CLEANUP), 'shutdown': (DEACTIVATE, CLEANUP, SHUTDOWN)}


def manage(client: Client, command: str) -> None:
    """As the manager carries out a command."""
    for transition, state in COMMANDS[command]:
        assert client.change_state(transition), f'{command}: {transition}'
        assert client.call(GetState, 'get_state').current_state.id == state


def test_the_commands_of_the_manager_bring_the_node_up_and_down(
        start: Callable[..., Client], textured_pair: Callable[..., Any]) -> None:
    pair = textured_pair(64, 48, 3)
    client = start({'autostart': False, 'stereo_algorithm': 'sad', 'disparity_range': 16,
                    'backend': 'cpu', 'max_input_age': 30.0}, wait='')
    client.wait_until(lambda: client.state() == 'unconfigured')
    for commands in (('startup', 'pause', 'resume'), ('reset', 'startup')):
        for command in commands:
            manage(client, command)
        client.connect()
        client.match(*pair)
    manage(client, 'shutdown')


def test_a_node_that_starts_itself_is_no_node_for_the_manager(
        start: Callable[..., Client]) -> None:
    client = start({'stereo_algorithm': 'sad', 'disparity_range': 16, 'backend': 'cpu'})
    assert client.state() == 'active'
    assert not client.change_state(Transition.TRANSITION_CONFIGURE)
    assert client.state() == 'active'
