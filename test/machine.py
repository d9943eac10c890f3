"""What tests share a machine by: ROS domains, segments of Fast DDS, processor time, disks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import re
import resource
import socket
from collections.abc import Iterator
from typing import Any

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


@contextlib.contextmanager
def ros_context() -> Iterator[Any]:
    """A context of rclpy in a domain of its own."""
    import rclpy

    made = rclpy.Context()
    with domain() as number:
        rclpy.init(context=made, args=[], domain_id=number)
        yield made
        made.try_shutdown()


#: Where Fast DDS has its segments, which a killed process leaves behind.
FOLDER = pathlib.Path('/dev/shm')

_SEGMENT = re.compile(r'/dev/shm/((?:sem\.)?(?:fastrtps|fastdds)_\w+)')


def segments_of(pid: int) -> set[str]:
    """Names of the segments that a process has mapped, its own and others'."""
    try:
        return set(_SEGMENT.findall(pathlib.Path(f'/proc/{pid}/maps').read_text()))
    except OSError:
        return set()


def left_behind(names: set[str], folder: pathlib.Path = FOLDER) -> list[str]:
    """Those of these segments that are there, and that no process holds any more.

    The process that a segment belongs to locks its file NAME_el for as long as it lives.
    """
    return [name for name in names
            if not name.endswith(('_el', '_mutex')) and _is_free(folder / f'{name}_el')]


def remove(names: set[str], folder: pathlib.Path = FOLDER) -> None:
    """Remove those of these segments that are left behind."""
    for name in left_behind(names, folder):
        for path in (folder / name, folder / f'sem.{name}_mutex', folder / f'{name}_el'):
            with contextlib.suppress(OSError):
                path.unlink()


def _is_free(lock: pathlib.Path) -> bool:
    """Whether a lock is there and nobody holds it."""
    try:
        with open(lock, 'rb') as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def cpu_seconds(process: int) -> float:
    """Of all its threads, by its id."""
    fields = pathlib.Path(f'/proc/{process}/stat').read_text().rpartition(')')[2]
    return sum(map(int, fields.split()[11:13])) / os.sysconf('SC_CLK_TCK')


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """What a full disk does: no file can be longer than so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
