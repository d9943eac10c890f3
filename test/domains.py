"""ROS domains that no other test has, of this process, another worker or another session."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
from collections.abc import Iterator

#: Domains whose ports Linux gives to nobody else.
DOMAINS = range(1, 101)

_next = int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0')[2:]) * 10


def claim() -> tuple[int, socket.socket]:
    """A domain, and the socket that holds it: until it is closed, or this process ends.

    The kernel gives the name of a socket to one at a time. A domain that somebody else is in is
    left out: of a session that chose it by chance, or of a node that a test has left behind.

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
            if not ports_in_use(number):
                return number, holder
            holder.close()
    raise RuntimeError(f'all ROS domains of {DOMAINS} are in use')


def ports_in_use(domain: int) -> set[int]:
    """UDP ports of this machine that participants of a domain have, by the rule of RTPS."""
    bound = {int(line.split()[1].rpartition(':')[2], 16) for name in ('udp', 'udp6')
             for line in pathlib.Path('/proc/net', name).read_text().splitlines()[1:]}
    return bound.intersection(range(7400 + 250 * domain, 7400 + 250 * (domain + 1)))


@contextlib.contextmanager
def domain() -> Iterator[int]:
    """A domain for as long as the context is open."""
    number, holder = claim()
    with holder:
        yield number
