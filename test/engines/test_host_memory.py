"""What a process may still take of the host's memory: the machine, control groups, limits."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest

from stereo_bp_ros.engines import host_memory

Child = Callable[..., str]

MIB = 2**20
UNLIMITED_V1 = '9223372036854771712'


def tree(root: pathlib.Path, files: Mapping[str, object]) -> pathlib.Path:
    """A machine with 8000 MiB available, and these files."""
    for name, content in {'proc/meminfo': f'MemTotal: 9000000 kB\nMemAvailable: {8000 * 1024} kB',
                          **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{content}\n')
    return root


V2 = {'proc/self/cgroup': '0::/system.slice/stereo.service',
      'proc/self/mountinfo': '30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate'}
V1 = {'proc/self/cgroup': '9:name=systemd:/x\n4:cpu,memory:/docker/abc\n0::/',
      'proc/self/mountinfo': '31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n'
                             '35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup '
                             'rw,cpu,memory'}
SERVICE = 'sys/fs/cgroup/system.slice/stereo.service/'
SLICE = 'sys/fs/cgroup/system.slice/'
DOCKER = 'sys/fs/cgroup/memory/docker/abc/'


def group(folder: str, limit: object, used_mib: int, **statistics: int) -> dict[str, object]:
    return {folder + 'memory.max': limit, folder + 'memory.current': used_mib * MIB,
            folder + 'memory.stat': '\n'.join(f'{name} {value * MIB}'
                                              for name, value in statistics.items())}


def group_v1(folder: str, limit: object, used_mib: int, **statistics: int) -> dict[str, object]:
    names = {'memory.max': 'memory.limit_in_bytes', 'memory.current': 'memory.usage_in_bytes'}
    return {folder + names.get(file.removeprefix(folder), file.removeprefix(folder)): content
            for file, content in group(folder, limit, used_mib, **statistics).items()}


@pytest.mark.parametrize(('files', 'mib'), [
    ({}, 8000),
    ({**V2}, 8000),
    ({**V2, **group(SERVICE, 'max', 100)}, 8000),
    ({**V2, **group(SERVICE, 1024 * MIB, 100)}, 924),
    ({**V2, **group(SERVICE, 1024 * MIB, 900, inactive_file=300, active_file=200, anon=400,
                    slab_reclaimable=10, shmem=50, file=550)}, 634),
    ({**V2, **group(SERVICE, 1024 * MIB, 100), SERVICE + 'memory.high': 512 * MIB}, 412),
    ({**V2, **group(SERVICE, 1024 * MIB, 100), **group(SLICE, 2000 * MIB, 1500)}, 500),
    ({**V2, **group(SERVICE, 'max', 100), **group(SLICE, 2000 * MIB, 500)}, 1500),
    ({**V2, **group(SERVICE, 1024 * MIB, 1100)}, 0),
    ({**V2, **group(SERVICE, 10**6 * MIB, 100)}, 8000),
    ({**V2, 'proc/self/cgroup': '0::/', **group('sys/fs/cgroup/', 700 * MIB, 200)}, 500),
    ({**V2, 'proc/self/cgroup': '0::/../other', **group('sys/fs/cgroup/', 700 * MIB, 200)}, 500),
    ({**V1, **group_v1(DOCKER, UNLIMITED_V1, 100)}, 8000),
    ({**V1, **group_v1(DOCKER, 1024 * MIB, 900, inactive_file=1, total_inactive_file=300,
                       total_active_file=200, total_rss=400)}, 624),
    ({**V1, **group_v1(DOCKER, UNLIMITED_V1, 100),
      **group_v1('sys/fs/cgroup/memory/docker/', 600 * MIB, 300)}, 300),
    ({**V1, **group_v1(DOCKER, UNLIMITED_V1, 100, hierarchical_memory_limit=400)}, 300),
], ids=[
    'no groups', 'a group without the controller', 'no limit', 'a limit', 'reclaimable cache',
    'throttled earlier', 'the group above is tighter', 'only the group above',
    'over its limit', 'more than the machine', 'the top is the own group',
    'a group outside of what is seen', 'version 1 without a limit', 'version 1',
    'version 1 above', 'version 1 above what is seen'])
def test_the_tightest_limit_decides(tmp_path, files, mib):
    assert host_memory.available(tree(tmp_path, files)) == mib * MIB


def test_room_is_left_for_a_compiler_that_is_still_to_come(tmp_path):
    root = tree(tmp_path, {**V2, **group(SERVICE, 1024 * MIB, 100)})
    assert (host_memory.available(root, before_compiler=True)
            == 924 * MIB - host_memory.COMPILER_BYTES)


def test_each_core_beyond_two_takes_addresses_for_its_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(host_memory.resource, 'getrlimit', lambda _: (2048 * MIB, 2048 * MIB))
    root = tree(tmp_path, {'proc/self/statm': '0 0'})
    free = {}
    for cores in (1, 2, 8):
        monkeypatch.setattr(host_memory.os, 'sched_getaffinity', lambda _, n=cores: set(range(n)))
        free[cores] = host_memory.available(root, before_compiler=True)
    assert free[1] == free[2] == 2048 * MIB - host_memory.COMPILER_ADDRESSES
    assert free[2] - free[8] == 6 * host_memory.CORE_ADDRESSES


def test_a_container_that_has_its_group_at_the_top_under_its_outer_path_is_limited(tmp_path):
    mount = '35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory'
    files = {'proc/self/cgroup': '4:memory:/docker/abc', 'proc/self/mountinfo': mount,
             **group_v1('sys/fs/cgroup/memory/', 512 * MIB, 12)}
    assert host_memory.available(tree(tmp_path, files)) == 500 * MIB


def test_a_mount_point_with_a_blank_is_found(tmp_path):
    mount = r'30 23 0:26 / /sys/my\040groups rw - cgroup2 cgroup2 rw'
    files = {'proc/self/cgroup': '0::/a', 'proc/self/mountinfo': mount,
             **group('sys/my groups/a/', 512 * MIB, 12)}
    assert host_memory.available(tree(tmp_path, files)) == 500 * MIB


def test_without_proc_the_machine_s_memory_counts(tmp_path):
    pages = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    assert host_memory.available(tmp_path) == pages


def test_what_cannot_be_understood_limits_nothing(tmp_path):
    files = {**V2, SERVICE + 'memory.max': 'plenty', SERVICE + 'memory.current': '',
             SERVICE + 'memory.stat': 'inactive_file\nactive_file x\n\n'}
    assert host_memory.available(tree(tmp_path, files)) == 8000 * MIB


def test_the_limit_of_addresses_counts_less_what_is_mapped(child: Child) -> None:
    available = int(child(
        'import mmap, resource\n'
        'from stereo_bp_ros.engines import host_memory\n'
        'resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))\n'
        'available = host_memory.available()\n'
        'mmap.mmap(-1, available - 2**20)       # all of it can be had\n'
        'print(available)'))
    assert 0 < available < 2**31


#: Takes more memory than it may, unless in partitions; prints how many these are.
LARGE_FRAME = (
    'import numpy as np\n'
    'from stereo_bp_ros import MatcherConfig, StereoMatcher\n'
    'left, right = np.random.default_rng(0).integers(0, 256, (2, 1500, 2000), np.uint8)\n'
    'config = MatcherConfig(disparity_range=128, iterations=1, backend="cpu")\n'
    'with StereoMatcher(config) as matcher:\n'
    '    matcher.compute(left, right)\n'
    '    print(matcher.partitions.count)')


def test_an_engine_under_a_limit_of_addresses_is_cut_instead_of_failing(child: Child) -> None:
    limit = (
        'import os, resource\n'
        'os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])\n'
        f'resource.setrlimit(resource.RLIMIT_AS, ({1600 * MIB}, {1600 * MIB}))\n')
    assert int(child(limit + LARGE_FRAME, NUMBA_NUM_THREADS='2', OPENBLAS_NUM_THREADS='1')) > 1


@contextlib.contextmanager
def control_group(limit: int) -> Iterator[pathlib.Path]:
    """A group of our own below the process's; skips the test where none can be made."""
    made = None
    for folder, is_v2 in host_memory._groups(host_memory.ROOT):
        limits = 'memory.max' if is_v2 else 'memory.limit_in_bytes'
        made = folder / f'stereo_bp_test_{os.getpid()}'
        try:
            made.mkdir()
        except OSError as error:
            pytest.skip(f'no control group can be made here: {error}')
        break
    if made is None:
        pytest.skip('there is no memory controller here')
    try:
        try:
            (made / limits).write_text(str(limit))
        except OSError as error:
            pytest.skip(f'no limit can be set here: {error}')
        yield made
    finally:
        made.rmdir()


@pytest.mark.slow
def test_an_engine_in_a_control_group_is_cut_instead_of_killed_while_it_compiles(
        tmp_path: pathlib.Path) -> None:
    join = ('import os, sys, pathlib\n'
            'pathlib.Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))\n')
    with control_group(700 * MIB) as folder:
        done = subprocess.run([sys.executable, '-c', join + LARGE_FRAME, str(folder)],
                              env={**os.environ, 'XDG_CACHE_HOME': str(tmp_path)},
                              capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f'{done.returncode}: {done.stderr}'
    assert int(done.stdout) > 1


def test_the_peak_of_a_process_is_its_own(tmp_path):
    assert host_memory.peak(tree(tmp_path, {'proc/self/status': 'VmPeak: 9 kB\nVmHWM:\t 5120 kB\n'}
                                 )) == 5 * MIB
    assert host_memory.peak(tmp_path / 'nowhere') is None
    before = host_memory.peak()
    room = bytearray(b'\1') * (64 * MIB)
    assert host_memory.peak() >= before
    assert host_memory.peak() > len(room)
