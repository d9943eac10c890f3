"""Room in shared memory: the profile where there is, UDP and words where there is not."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import types

import pytest

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.system import distributions, transport

PLENTY, LITTLE, NOTHING = 64 * 2**20, 2 * 2**20, 0
NAME = distributions.profile_variable({})


@pytest.fixture
def with_room(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path):
    """``with_room(free, **environment)`` returns what is said and the environment after it."""
    def prepare(free: int, **environment: str) -> tuple[str, dict[str, str]]:
        monkeypatch.setattr(os, 'statvfs', lambda path: types.SimpleNamespace(
            f_blocks=100, f_bavail=free // 4096, f_frsize=4096))
        return transport.prepare(environment, tmp_path), environment

    return prepare


def test_with_room_the_profile_for_large_images_is_taken_in_silence(with_room):
    said, environment = with_room(PLENTY)
    assert said == ''
    assert environment == {NAME: str(transport.LARGE_IMAGES.resolve())}
    assert 'SHM' in pathlib.Path(environment[NAME]).read_text()


def test_without_room_udp_is_taken_and_said_with_what_is_missing(with_room):
    said, environment = with_room(LITTLE)
    assert 'has 2.0 MiB free, but a process takes up to 18 MiB' in said
    assert 'going on with UDP alone' in said
    assert '--shm-size' in said
    assert environment == {NAME: str(transport.UDP_ALONE.resolve())}
    assert 'SHM' not in pathlib.Path(environment[NAME]).read_text()
    # A process that this one starts finds the same; the launch files' copy is the package's, too.
    assert with_room(LITTLE, **environment) == (said, environment)
    launched = {NAME: '/opt/ws/share/stereo_bp_ros/config/fastdds_large_images.xml'}
    assert with_room(LITTLE, **launched) == (said, environment)
    assert with_room(PLENTY, **environment)[1] == {NAME: str(transport.LARGE_IMAGES.resolve())}


def test_what_the_user_has_set_stays(with_room):
    for theirs in ({NAME: '/their/own.xml'}, {'FASTDDS_BUILTIN_TRANSPORTS': 'LARGE_DATA'},
                   {'FASTRTPS_DEFAULT_PROFILES_FILE': '/their/own.xml'}):
        assert with_room(PLENTY, **theirs) == ('', theirs)
        said, environment = with_room(LITTLE, **theirs)
        assert environment == theirs
        assert f'{next(iter(theirs.values()))}, which you have set, stays' in said
    other = {'RMW_IMPLEMENTATION': 'rmw_cyclonedds_cpp'}
    assert with_room(LITTLE, **other) == ('', other)


def test_without_a_single_page_ros_runs_only_where_its_tracing_has_one(with_room, tmp_path):
    with pytest.raises(StereoError, match='SIGBUS'):
        with_room(NOTHING)
    for name in ('lttng-ust-wait-6', f'lttng-ust-wait-6-{os.getuid()}'):
        (tmp_path / name).write_bytes(b'\1' * 4096)
    said, environment = with_room(NOTHING)
    assert 'has 0.0 MiB free' in said
    assert environment == {NAME: str(transport.UDP_ALONE.resolve())}


def test_one_line_sets_the_profile_of_a_cameras_shell(repository):
    line = f'eval "$({sys.executable} -m stereo_bp_ros.system.transport)"'
    shell = subprocess.run(
        ['sh', '-c', f'{line} && printf %s "${NAME} $MALLOC_TRIM_THRESHOLD_"'],
        capture_output=True, text=True, cwd='/', check=True, env={
            'PATH': os.environ['PATH'],
            'PYTHONPATH': os.pathsep.join([str(repository), *filter(None, [
                os.environ.get('PYTHONPATH')])])})
    profile, kept = shell.stdout.split()
    assert profile in (str(transport.LARGE_IMAGES.resolve()), str(transport.UDP_ALONE.resolve()))
    assert int(kept) == 64 * 2**20


def test_an_image_finds_the_pages_of_the_one_before():
    pytest.importorskip('rclpy')
    size = 4 * 1280 * 720
    script = (
        'import array, resource, sys\n'
        'from stereo_bp_ros.system import transport\n'
        'assert transport.keep_freed_memory() == (sys.argv[1] == "keep")\n'
        'from rclpy.serialization import deserialize_message, serialize_message\n'
        'from sensor_msgs.msg import Image\n'
        f'data = serialize_message(Image(data=array.array("B", bytes({size}))))\n'
        'def faults():\n'
        '    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n'
        'for _ in range(3):\n'
        '    deserialize_message(data, Image)\n'
        'before = faults()\n'
        'for _ in range(20):\n'
        '    deserialize_message(data, Image)\n'
        'print((faults() - before) / 20)\n')
    pages = size / os.sysconf('SC_PAGE_SIZE')
    found = {}
    for mode, theirs in (('keep', {}), ('give back', {'MALLOC_TRIM_THRESHOLD_': '131072'})):
        environment = {name: value for name, value in os.environ.items()
                       if name not in transport.KEPT_MEMORY}
        found[mode] = float(subprocess.run(
            [sys.executable, '-c', script, mode], capture_output=True, text=True,
            check=True, env=environment | theirs).stdout)
    assert found['keep'] < 0.02 * pages
    assert found['give back'] > pages       # or this test shows nothing


def test_the_users_choice_of_memory_stays_and_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(transport.ctypes, 'CDLL', lambda name: object())
    assert not transport.keep_freed_memory({})
    assert not transport.keep_freed_memory({'GLIBC_TUNABLES': 'glibc.malloc.trim_threshold=1'})


LOCKING = """
import pathlib, re, resource, sys
from stereo_bp_ros.system import transport

resource.setrlimit(resource.RLIMIT_MEMLOCK, (int(sys.argv[1]), int(sys.argv[1])))
if sys.argv[2] == 'ordinary':
    transport._capabilities = lambda: 0
print(transport.lock_memory())
data = bytearray(1 << 20)
print(re.search(r'VmLck:\\s+(\\d+) kB', pathlib.Path('/proc/self/status').read_text())[1])
"""


def locked(limit: int, user: str) -> list[str]:
    """What is said, and KiB that are locked then."""
    done = subprocess.run([sys.executable, '-c', LOCKING, str(limit), user], check=True,
                          capture_output=True, text=True)
    return done.stdout.splitlines()


def test_memory_is_locked_where_it_may_be():
    if not transport._capabilities() >> transport.CAP_IPC_LOCK & 1:
        pytest.skip('needs CAP_IPC_LOCK')
    said, kib = locked(0, 'privileged')
    assert said == ''
    assert int(kib) > 10 << 10


def test_memory_is_not_locked_within_a_limit_that_a_later_array_would_pass():
    assert locked(1 << 12, 'ordinary') == [
        'memory is not locked: the memlock limit is not unlimited, and CAP_IPC_LOCK is missing',
        '0']
