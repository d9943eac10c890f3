"""How much memory this process can still take on the host."""

from __future__ import annotations

import os
import pathlib
import re
import resource
from collections.abc import Iterator

from stereo_bp_ros.errors import StereoError

ROOT = pathlib.Path('/')

#: What Numba adds to a process until all of a configuration is compiled, bytes and addresses:
#: 280 and 730 MiB were measured on two cores.
COMPILER_BYTES, COMPILER_ADDRESSES = 320 * 2**20, 832 * 2**20

#: Addresses that each further core adds: a stack of 8 MiB and a heap of 64 MiB for a thread of
#: OpenCV and one of Numba.
CORE_ADDRESSES = 2 * (8 + 64) * 2**20

#: Addresses below which OpenCV or ROS end the process while they are imported.
MIN_ADDRESSES = 2**30


def check_address_space(*, before_compiler: bool = False) -> None:
    """Reject a limit with which libraries would end the process, by SIGSEGV or SIGABRT.

    :param before_compiler: there must be enough for Numba and its threads, too: where a thread of
        ROS cannot be started, C++ ends the process.
    :raises StereoError: RLIMIT_AS is below ``MIN_ADDRESSES`` and what is needed beyond them.
    """
    least, work = MIN_ADDRESSES, 'load its libraries'
    if before_compiler:
        least, work = least + _compiler_addresses(), 'load its libraries and compile kernels'
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if 0 <= limit < least:
        raise StereoError(
            f'this process may use {limit / 2**20:.0f} MiB of addresses (RLIMIT_AS), too few to '
            f'{work}: raise the limit to at least {least // 2**20} MiB '
            '(ulimit -v unlimited, LimitAS of systemd)')


def available(root: pathlib.Path = ROOT, *, before_compiler: bool = False) -> int:
    """Bytes that can be allocated before the machine, a container or a limit ends it.

    The minimum of what the machine, each control group that this process is in, and RLIMIT_AS
    leave; what the kernel would drop for it, such as the cache of files, counts as free.

    :param root: where /proc and /sys are.
    :param before_compiler: leave out what Numba is still to take.
    """
    bytes_kept = addresses_kept = 0
    if before_compiler:
        bytes_kept, addresses_kept = COMPILER_BYTES, _compiler_addresses()
    left = [min([_of_machine(root), *_of_groups(root)]) - bytes_kept,
            *(free - addresses_kept for free in _of_address_space(root))]
    return max(0, min(left))


def peak(root: pathlib.Path = ROOT) -> int | None:
    """Bytes of memory that this process has had at most since it began; None = nobody says.

    What is resident counts: memory that is shared with others does, what was swapped out not.

    :param root: where /proc is.
    """
    kibibytes = _table(root / 'proc/self/status').get('VmHWM:')
    return None if kibibytes is None else kibibytes * 1024


def _compiler_addresses() -> int:
    """That Numba and threads of libraries take on this machine."""
    more_cores = max(0, len(os.sched_getaffinity(0)) - 2)
    return COMPILER_ADDRESSES + more_cores * CORE_ADDRESSES


def _of_machine(root: pathlib.Path) -> int:
    values = _table(root / 'proc/meminfo')
    if 'MemAvailable:' in values:
        return values['MemAvailable:'] * 1024
    return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')


def _of_address_space(root: pathlib.Path) -> Iterator[int]:
    """By RLIMIT_AS, which counts addresses, used or not."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(root / 'proc/self/statm').split()
    if limit != resource.RLIM_INFINITY and pages:
        yield limit - int(pages[0]) * os.sysconf('SC_PAGE_SIZE')


def _of_groups(root: pathlib.Path) -> Iterator[int]:
    """By each control group, of version 1 or 2, from this process's own to the outermost."""
    for folder, is_v2 in _groups(root):
        statistics = _table(folder / 'memory.stat')
        if is_v2:
            limits = [_number(folder / 'memory.max'), _number(folder / 'memory.high')]
            used, prefix = _number(folder / 'memory.current'), ''
        else:
            # The statistics know the limits of groups that a container does not see.
            limits = [_number(folder / 'memory.limit_in_bytes'),
                      statistics.get('hierarchical_memory_limit')]
            used, prefix = _number(folder / 'memory.usage_in_bytes'), 'total_'
        known = [limit for limit in limits if limit is not None]
        if known and used is not None:
            yield min(known) - used + sum(
                statistics.get(name, 0) for name in (
                    prefix + 'inactive_file', prefix + 'active_file', 'slab_reclaimable'))


def _groups(root: pathlib.Path) -> Iterator[tuple[pathlib.Path, bool]]:
    """Folders of the memory controller for this process, and whether they are of version 2."""
    paths = {}
    for line in _text(root / 'proc/self/cgroup').splitlines():
        _, controllers, path = line.split(':', 2)
        if not controllers or 'memory' in controllers.split(','):
            paths[not controllers] = pathlib.PurePosixPath(path)
    for line in _text(root / 'proc/self/mountinfo').splitlines():
        mount, _, kind = line.partition(' - ')
        top, point = (pathlib.PurePosixPath(_unescape(field)) for field in mount.split()[3:5])
        is_v2 = kind.startswith('cgroup2 ')
        if is_v2 not in paths or not (is_v2 or (
                kind.startswith('cgroup ') and 'memory' in kind.split()[2].split(','))):
            continue
        start = end = root / point.relative_to('/')
        # A container may see its own group as the top of the tree, under the path it has
        # outside: then the mount point is that group.
        if paths[is_v2].is_relative_to(top):
            start = end / paths[is_v2].relative_to(top)
        if '..' in start.parts or not start.is_dir():
            start = end
        while True:
            yield start, is_v2
            if start == end:
                break
            start = start.parent


def _unescape(field: str) -> str:
    """Of a mount: blanks and backslashes come as octal numbers."""
    return re.sub(r'\\([0-7]{3})', lambda found: chr(int(found[1], 8)), field)


def _table(file: pathlib.Path) -> dict[str, int]:
    """Lines of a name and a whole number."""
    rows = (line.split() for line in _text(file).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _number(file: pathlib.Path) -> int | None:
    """The number of a file; None = there is none, or no limit ('max')."""
    text = _text(file).strip()
    return int(text) if text.isdecimal() else None


def _text(file: pathlib.Path) -> str:
    try:
        return file.read_text(encoding='utf-8', errors='replace')
    except OSError:
        return ''
