"""ROS domains that no other test has, of this process, another worker or another session."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

#: Domains whose ports Linux gives to nobody else.
DOMAINS = range(1, 101)

_next = int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0')[2:]) * 10


def claim() -> tuple[int, socket.socket]:
    """A domain, and the socket that holds it: until it is closed, or this process ends.

    The kernel gives the name of a socket to one at a time.

    :raises RuntimeError: all domains are in use.
    """
    global _next
    for _ in DOMAINS:
        number = DOMAINS[_next % len(DOMAINS)]
        _next += 1
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind(f'\0stereo_bp_ros test, ROS domain {number}')
        except OSError:
            holder.close()
        else:
            return number, holder
    raise RuntimeError(f'all ROS domains of {DOMAINS} are in use')


@contextlib.contextmanager
def domain() -> Iterator[int]:
    """A domain for as long as the context is open."""
    number, holder = claim()
    with holder:
        yield number
