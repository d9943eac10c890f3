"""Orderly ends of a node beside peers that have just died, and the exit statuses of these ends."""

from __future__ import annotations

import collections
import contextlib
import random
import signal
from collections.abc import Iterator

from test.node.processes import running_node
from test.soak import rig as rigs
from test.soak.faults import Fault, shown_by_itself
from test.soak.rig import Rig, Violation, peer_process

#: Namespace of the nodes that end; nobody else is there.
NAMESPACE = '/ending'


@contextlib.contextmanager
def ends_beside_dead_peers(rig: Rig, draw: random.Random) -> Iterator[None]:
    """A third node ends, and another one, as often as the command line says."""
    statuses = collections.Counter(_end(rig) for _ in range(rig.ends))
    rig.statuses += statuses
    if statuses.keys() != {0}:
        raise Violation(f'{rig.ends - statuses[0]} of {rig.ends} ends beside dead peers have '
                        f'another status than 0: {dict(statuses)}')
    yield


def _end(rig: Rig) -> int:
    """The exit status of a node whose camera was killed and whose listener left just before."""
    with (running_node(rig.directory, rig.parameters, '-r', f'__ns:={NAMESPACE}',
                       code=rigs.NODE, domain=rig.domain) as node,
          peer_process(rig, 'sender', NAMESPACE) as camera,
          peer_process(rig, 'subscriber', f'{NAMESPACE}/disparity') as listener):
        camera.kill()
        listener.send_signal(signal.SIGINT)
        return node.end()


END_FAULTS = (
    Fault('a node ends beside dead peers', 'It ends with status 0, --ends times.',
          ends_beside_dead_peers, shown=shown_by_itself),
)
