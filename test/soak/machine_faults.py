"""Faults of the machine, and ends of a node beside peers that have just died.

Those that fill file systems are tried only in a mount namespace of the soak's own.
"""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator

from stereo_bp_ros.engines import cache
from stereo_bp_ros.system import transport
from test.node.processes import LIMIT, running_node
from test.soak import rig as rigs
from test.soak.faults import Fault, lasting
from test.soak.rig import Rig, Violation, peer_process

#: In the environment of a soak that has a mount namespace of its own.
PRIVATE = 'STEREO_BP_SOAK_PRIVATE'

#: Bytes of the private /dev/shm, of what a node finds of it when it is full, and of memory that a
#: limited node may take beyond what it has.
SHARED_MEMORY, LEFT, MARGIN = 512 * 2**20, 8 * 2**20, 8 * 2**20

#: Namespace of the nodes that end; nobody else is there.
NAMESPACE = '/ending'

CGROUPS = pathlib.Path('/sys/fs/cgroup')


def own_namespace() -> list[str]:
    """Prefix of a command that runs it with mounts of its own, and a /dev/shm.

    Empty where the kernel does not allow it.
    """
    for options in (['--mount'], ['--user', '--map-root-user', '--mount']):
        prefix = ['unshare', *options, 'sh', '-c',
                  f'mount -t tmpfs -o size={SHARED_MEMORY} tmpfs /dev/shm && '
                  f'export {PRIVATE}=1 && exec "$@"', 'sh']
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if subprocess.run([*prefix, 'true'], capture_output=True, timeout=30).returncode == 0:
                return prefix
    return []


def _needs_private() -> str:
    return '' if os.environ.get(PRIVATE) else (
        'needs a mount namespace (unshare --mount), which is not allowed here')


def _needs_memory_controller() -> str:
    try:
        controllers = (CGROUPS / 'cgroup.subtree_control').read_text(encoding='ascii').split()
    except OSError:
        return 'needs cgroup v2 at /sys/fs/cgroup'
    if 'memory' not in controllers or not os.access(CGROUPS, os.W_OK):
        return 'needs a writable cgroup v2 with the memory controller'
    return ''


@lasting
def little_shared_memory(rig: Rig, draw: random.Random) -> Iterator[None]:
    """The node starts with 8 MiB of /dev/shm left."""
    rig.kill(signal.SIGINT)
    with _ballast(LEFT):
        rig.start()
        yield
    rig.kill(signal.SIGINT)
    rig.start()


@lasting
def full_shared_memory(rig: Rig, draw: random.Random) -> Iterator[None]:
    """Not a page of /dev/shm is left for a node that runs."""
    with _ballast(0):
        yield


@contextlib.contextmanager
def _ballast(left: int) -> Iterator[None]:
    """/dev/shm is full but for so many bytes, and stays so.

    What a process has left comes free only when the last one that it spoke to lets it go.
    """
    ballast, stopping = transport.SHARED_MEMORY / 'soak_ballast', threading.Event()

    def room() -> int:
        return shutil.disk_usage(ballast.parent).free

    def fill() -> None:
        with open(ballast, 'wb') as file:
            while not stopping.wait(0.02):
                more = room() - left
                # Another process may be faster.
                with contextlib.suppress(OSError):
                    if more > 0:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, more)

    thread = threading.Thread(target=fill, name='ballast', daemon=True)
    thread.start()
    try:
        end = time.monotonic() + LIMIT
        while room() > left:
            if time.monotonic() > end:
                raise Violation(f'/dev/shm has {room()} bytes left')
            time.sleep(0.01)
        yield
    finally:
        stopping.set()
        thread.join()
        ballast.unlink()


def _copy_if_there(source: str, target: str) -> None:
    """Another process may replace a file of its cache meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


@lasting
def full_disk(rig: Rig, draw: random.Random) -> Iterator[None]:
    """The cache of compiled code lies on a disk without a byte left."""
    rig.kill(signal.SIGINT)
    folder = pathlib.Path(tempfile.mkdtemp(prefix='soak_cache_'))
    here = cache.user_cache() / 'stereo_bp_ros'
    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', folder], check=True, timeout=30)
    try:
        with open(folder / 'ballast', 'wb', buffering=0) as file:
            shutil.copytree(here, folder / 'stereo_bp_ros', copy_function=_copy_if_there)
            size = shutil.disk_usage(folder).used + 16 * 2**20
            subprocess.run(['mount', '-o', f'remount,size={size}', folder], check=True,
                           timeout=30)
            with contextlib.suppress(OSError):
                while file.write(bytes(4096)):
                    pass
        rig.start(environment={'XDG_CACHE_HOME': str(folder)})
        yield
        rig.kill(signal.SIGINT)
    finally:
        subprocess.run(['umount', '--lazy', folder], check=True, timeout=30)
        folder.rmdir()
    rig.start()


@lasting
def little_memory(rig: Rig, draw: random.Random) -> Iterator[None]:
    """The node may take hardly more memory than it has."""
    rig.kill(signal.SIGINT)
    group = CGROUPS / f'stereo_bp_soak_{os.getpid()}'
    group.mkdir()
    try:
        rig.start(before_waiting=lambda node: (group / 'cgroup.procs').write_text(
            str(node.process.pid)))
        rig.camera.set()
        rig.wait_for_frames(60)
        taken = int((group / 'memory.current').read_text())
        (group / 'memory.max').write_text(str(taken + MARGIN))
        yield
        events = dict(line.split() for line in (group / 'memory.events').read_text().splitlines())
        if int(events['oom_kill']):
            raise Violation(f'a process was killed for want of memory: {events}')
    finally:
        (group / 'memory.max').write_text('max')
        rig.kill(signal.SIGINT)
        group.rmdir()
    rig.start()


@lasting
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
          peer_process(rig, NAMESPACE, 'send') as camera,
          peer_process(rig, NAMESPACE) as listener):
        camera.kill()
        listener.send_signal(signal.SIGINT)
        return node.end()


MACHINE_FAULTS = (
    Fault('a node ends beside dead peers', 'It ends with status 0, --ends times.',
          ends_beside_dead_peers()),
    Fault('little shared memory', 'Results come by UDP, and that is said.',
          little_shared_memory(), rig='rear', restarts=True, needs=_needs_private,
          says=('input', 'going on with UDP alone')),
    Fault('shared memory is full', 'Results go on: a process takes its part when it starts.',
          full_shared_memory(), frames=60, needs=_needs_private),
    Fault('the disk is full', 'Compiled code is read, and results go on.', full_disk(),
          rig='rear', restarts=True, needs=_needs_private),
    Fault('little memory', 'Results go on: a frame takes no new memory.', little_memory(),
          rig='rear', restarts=True, needs=_needs_memory_controller),
)
