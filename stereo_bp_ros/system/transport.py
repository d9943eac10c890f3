"""Prepares the transport of images: Fast DDS with room in shared memory, else UDP, and malloc.

Call ``prepare`` before ``rclpy`` is imported: Fast DDS and its tracing library read environment
and shared memory once. In the shell of another process, such as a camera's driver, use
``eval "$(python3 -m stereo_bp_ros.system.transport)"``.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import resource
import shlex
import sys
from collections.abc import Mapping, MutableMapping

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.system.distributions import PROFILE_VARIABLES, profile_variable
from stereo_bp_ros.system.resources import PRESETS

#: A segment of 16 MiB for every process, the camera's too; and none at all.
LARGE_IMAGES, UDP_ALONE = (PRESETS / f'fastdds_{name}.xml'
                           for name in ('large_images', 'udp'))

#: What a process without a profile takes its transports from.
BUILTIN_TRANSPORTS = 'FASTDDS_BUILTIN_TRANSPORTS'

SHARED_MEMORY = pathlib.Path('/dev/shm')

#: Bytes of shared memory that a process takes: the profile's segment, its tables and ports.
NEEDED = 18 * 2**20

#: By the variables of the C library: numbers for its ``mallopt``, and bytes. An image is copied
#: three times before it reaches Python, each time into new memory, which the C library returns to
#: the system at once: the next image waits for other pages. Up to 64 MiB stay with this.
KEPT_MEMORY = {'MALLOC_TRIM_THRESHOLD_': (-1, 64 * 2**20),
               'MALLOC_MMAP_THRESHOLD_': (-3, 32 * 2**20)}


#: Of <linux/capability.h> and <sys/mman.h>.
CAP_IPC_LOCK = 14
MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT = 1, 2, 4


def prepare(environment: MutableMapping[str, str] = os.environ,
            shared_memory: pathlib.Path = SHARED_MEMORY) -> str:
    """Choose the Fast DDS profile of this process, and of those that it starts.

    What the user has set stays. Returns what is missing, in words; '' where nothing is.

    :raises StereoError: so little is free that ROS would be killed by SIGBUS.
    """
    free = _free(shared_memory)
    short = free is not None and free < NEEDED
    room = remedy = ''
    if free is not None and short:
        room = (f'{shared_memory} has {free / 2**20:.1f} MiB free, but a process takes up to '
                f'{NEEDED / 2**20:.0f} MiB of it for images')
        remedy = ("make room ('fastdds shm clean' removes what crashed processes left), or give "
                  'the container more (docker run --shm-size=256m)')
        if free < 2 * os.sysconf('SC_PAGE_SIZE') and not _is_traced(shared_memory):
            raise StereoError(f'{room}; not even a page is left, and ROS 2 would be killed by '
                              f'SIGBUS: {remedy}')
    if 'fastrtps' not in environment.get('RMW_IMPLEMENTATION', 'rmw_fastrtps_cpp'):
        return ''
    theirs = environment.get(BUILTIN_TRANSPORTS) or next(
        (environment[name] for name in PROFILE_VARIABLES if environment.get(name)
         and pathlib.Path(environment[name]).name not in (LARGE_IMAGES.name, UDP_ALONE.name)), '')
    if theirs:
        return f'{room}; {theirs}, which you have set, stays; {remedy}' if short else ''
    for name in PROFILE_VARIABLES:
        environment.pop(name, None)
    profile = UDP_ALONE if short else LARGE_IMAGES
    environment[profile_variable(environment)] = str(profile.resolve())
    return f'{room}; going on with UDP alone, which loses large images: {remedy}' if short else ''


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Let this process keep the memory of an image for the next one.

    What the user has set stays. Returns whether it does now; other C libraries than glibc cannot.
    """
    if _is_set(environment):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return all([mallopt(number, size) for number, size in KEPT_MEMORY.values()])


def kept_memory(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables with which a process that is started now does the same.

    Empty where the user has set any: what it says stays.
    """
    if _is_set(environment):
        return {}
    return {name: str(size) for name, (_, size) in KEPT_MEMORY.items()}


def _is_set(environment: Mapping[str, str]) -> bool:
    """Whether the user has set when the C library gives memory back."""
    return (any(name in environment for name in KEPT_MEMORY)
            or 'malloc' in environment.get('GLIBC_TUNABLES', ''))


def lock_memory() -> str:
    """Keep what this process has, and what it asks for from now on, in RAM once it was there.

    Returns what forbids it, in words; '' where nothing does.
    """
    problem = ''
    if not (resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
            or _capabilities() >> CAP_IPC_LOCK & 1):
        # Within a limit the next array that passes it could not be made at all.
        problem = 'the memlock limit is not unlimited, and CAP_IPC_LOCK is missing'
    else:
        library = ctypes.CDLL(None, use_errno=True)
        if library.mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT):
            problem = os.strerror(ctypes.get_errno())
    return problem and f'memory is not locked: {problem}'


def _capabilities() -> int:
    """The effective capabilities, a bit each."""
    status = pathlib.Path('/proc/self/status').read_text(encoding='ascii', errors='replace')
    return next(int(line.split()[1], 16) for line in status.splitlines()
                if line.startswith('CapEff:'))


def _free(shared_memory: pathlib.Path) -> int | None:
    """Bytes that a file there may take; None where there is no such file system."""
    try:
        found = os.statvfs(shared_memory)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize if found.f_blocks else None


def _is_traced(shared_memory: pathlib.Path) -> bool:
    """Whether the pages exist that LTTng, which ROS 2 is linked to, reads from shared memory.

    It makes two files where there are none, one for all and one for the user, and reads them
    without asking whether there is room for a page.
    """
    try:
        held = {path.name for path in shared_memory.glob('lttng-ust-wait-*')
                if path.stat().st_blocks}
    except OSError:
        return False
    return any(f'{name}-{os.getuid()}' in held for name in held)


def main() -> int:
    """Print for a shell what ``prepare`` chooses; returns the exit status."""
    environment = dict(os.environ)
    try:
        missing = prepare(environment)
    except StereoError as error:
        print(error, file=sys.stderr)
        return 2
    if missing:
        print(missing, file=sys.stderr)
    for name in PROFILE_VARIABLES:
        if name in environment:
            print(f'export {name}={shlex.quote(environment[name])}')
        elif name in os.environ:
            print(f'unset {name}')
    for name, size in kept_memory(environment).items():
        print(f'export {name}={size}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
