"""Files of the cache: used as they were written or not at all, whatever has become of them."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import logging
import os
import pathlib
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from test.engines.support.damage import DAMAGE, every_damage, flip

pytest.importorskip('numba')
from stereo_bp_ros.engines import cache
from stereo_bp_ros.engines.cpu.simd import runtime, sources
from stereo_bp_ros.engines.cuda.runtime import compiler

NOBODY = 65534


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """A user's cache of our own, which others may enter; the process forgets it afterwards."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        place.chmod(0o755)
        monkeypatch.setenv('XDG_CACHE_HOME', str(place))
        monkeypatch.setattr(runtime, 'compiler_hash', lambda: 'compiler')
        forget(monkeypatch)
        yield place
        monkeypatch.undo()
        forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin as a new process does."""
    runtime.cache_directory.cache_clear()
    compiler.cache_directory.cache_clear()
    for known in (sources.digest, sources._module, sources._digest):
        known.cache_clear()
    monkeypatch.setattr(cache, '_warned', set())


def test_a_user_who_has_no_cache_directory_gets_one(home: pathlib.Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """As a fresh account or container: neither the directory nor what it lies in is there."""
    monkeypatch.delenv('XDG_CACHE_HOME')
    monkeypatch.setenv('HOME', str(home / 'user'))
    for named in (None, home / 'not' / 'there'):
        if named:
            monkeypatch.setenv('XDG_CACHE_HOME', str(named))
        directory = cache.open_directory('numba')
        assert directory == (named or home / 'user' / '.cache') / 'stereo_bp_ros' / 'numba'
        assert directory.is_dir()
        assert directory.stat().st_mode & 0o777 == 0o700


@pytest.fixture
def readable() -> Iterator[pathlib.Path]:
    """A directory that every user can read."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        place.chmod(0o755)
        yield place


@pytest.fixture
def start(readable: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
          caplog: pytest.LogCaptureFixture) -> Callable[[], tuple[dict[str, int], list[str]]]:
    """Runs a kernel that calls another as a new process would.

    Returns how many kernels were compiled, kept and read, and what was said.
    """
    source = readable / 'probe.py'
    source.write_text('from stereo_bp_ros.engines.cpu.simd.runtime import python_kernel\n'
                      '@python_kernel\ndef helper(x):\n    return 3 * x\n'
                      '@python_kernel\ndef probe(x):\n    return helper(x) + 1\n')

    def run() -> tuple[dict[str, int], list[str]]:
        forget(monkeypatch)
        caplog.clear()
        before = runtime.origins()
        described = importlib.util.spec_from_file_location('probe', source)
        assert described is not None
        assert described.loader is not None
        module = importlib.util.module_from_spec(described)
        described.loader.exec_module(module)
        assert module.probe(7) == 22
        return ({name: count - before[name] for name, count in runtime.origins().items()},
                warnings_of(caplog))
    return run


def kept() -> list[pathlib.Path]:
    """What a warm start reads."""
    directory = runtime.cache_directory()
    assert directory is not None
    return sorted(directory.glob('*.nbc'))


def probe_file() -> pathlib.Path:
    return next(file for file in kept() if '.probe-' in file.name)


WARM = {'compiled': 0, 'kept': 0, 'disk': 1}


def test_kernels_are_compiled_once_and_read_afterwards(start):
    assert start() == ({'compiled': 2, 'kept': 2, 'disk': 0}, [])
    assert start() == (WARM, [])


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records
            if record.levelno >= logging.WARNING]


@every_damage
def test_a_damaged_file_is_set_aside_whenever_and_said_once(caplog, damage):
    file = cache.open_directory('numba', 'compiler') / 'file.nbc'
    for _ in range(2):
        cache.write_or_raise(file, 1000 * b'code\n')
        assert cache.read(file) == 1000 * b'code\n'
        damage(file)
        assert cache.read(file) is None
        assert not os.path.lexists(file)
        assert os.path.lexists(file.with_name('file.nbc.damaged'))
    (said,) = warnings_of(caplog)
    assert f'{file} is damaged and is set aside as file.nbc.damaged' in said


def test_damaged_kernels_are_compiled_anew_with_one_warning(start):
    start()
    for file in kept():
        DAMAGE['a bit in the middle'](file)
    counted, said = start()
    assert (counted['compiled'], counted['kept'], len(said)) == (2, 2, 1)
    # Bytes that are sound, and are no kernel.
    cache.write_or_raise(probe_file(), b'not a pickle')
    counted, said = start()
    assert (counted['compiled'], len(said)) == (1, 1)
    assert start() == (WARM, [])


@pytest.mark.parametrize('number', [errno.EACCES, errno.EIO])
def test_a_file_that_cannot_be_read_is_set_aside(monkeypatch, caplog, number):
    file, real = cache.open_directory() / 'file', os.open
    cache.write_or_raise(file, b'content')

    def fail(path: Any, *arguments: Any, **options: Any) -> int:
        if pathlib.Path(path) == file:
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *arguments, **options)
    monkeypatch.setattr(os, 'open', fail)
    assert cache.read(file) is None
    assert not file.exists()
    assert os.strerror(number) in warnings_of(caplog)[0]


def test_damaged_machine_code_of_cuda_is_compiled_anew(monkeypatch, caplog):
    monkeypatch.setattr(compiler, 'sources_digest', lambda: 'sources')
    monkeypatch.setattr(compiler, '_compiler_version', lambda: '13.0')
    monkeypatch.setattr(compiler, 'compile_kernel',
                        lambda file, name, *_: (1000 * b'code\n', name))
    expected = 1000 * b'code\n', 'median'

    def begin() -> int:
        forget(monkeypatch)
        before = compiler.origins()['compiled']
        assert compiler.compiled('frame/refine.cu', 'median', 'sm_90') == expected
        return compiler.origins()['compiled'] - before
    assert (begin(), begin()) == (1, 0)
    directory = compiler.cache_directory()
    assert directory is not None
    (file,) = directory.iterdir()
    DAMAGE['cut in the middle'](file)
    assert (begin(), begin()) == (1, 0)
    assert len(caplog.messages) == 1
    assert str(file) in caplog.messages[0]


@pytest.mark.parametrize('call', ['fsync', 'replace'])
def test_a_full_disk_is_one_warning(monkeypatch, caplog, call):
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    file = cache.open_directory() / 'file'
    monkeypatch.setattr(os, call, fail)
    assert not cache.write(file, b'content')
    assert not cache.write(file, b'content')
    (said,) = warnings_of(caplog)
    assert 'No space left' in said
    assert 'cannot be kept' in said
    assert not list(file.parent.iterdir())


@pytest.mark.parametrize('obstacle', ['a file', 'a link', 'another user'])
def test_where_there_can_be_no_cache_kernels_run_with_one_warning(
        start, home, monkeypatch, obstacle):
    place = home / 'stereo_bp_ros'
    if obstacle == 'a file':
        place.touch()
    elif obstacle == 'a link':
        (home / 'elsewhere').mkdir()
        place.symlink_to(home / 'elsewhere')
    else:
        place.mkdir()
        if os.geteuid() == 0:       # whose files others do trust
            os.chown(place, 12345, -1)
        else:
            monkeypatch.setattr(os, 'geteuid', lambda: 12345)
    counted, said = start()
    assert counted == {'compiled': 2, 'kept': 0, 'disk': 0}
    assert len(said) == 1
    assert 'no cache for compiled kernels' in said[0]


def test_only_the_caches_used_last_are_kept(home):
    parent = cache.open_directory('numba')
    for age in range(8):
        (parent / str(age)).mkdir()
        os.utime(parent / str(age), (1000 - age, 1000 - age))
    directory = runtime.cache_directory()
    assert directory is not None
    assert {entry.name for entry in parent.iterdir()} == {
        directory.name, *map(str, range(runtime.CACHES_KEPT - 1))}


def test_only_the_versions_of_a_kernel_that_were_used_last_are_kept(start, readable):
    source = readable / 'probe.py'
    first = source.read_text()
    start()
    for version in range(2 * runtime.CACHES_KEPT):
        age_files()
        source.write_text(first.replace('3 * x', f'{version} * 0 + 3 * x'))
        assert start() == ({'compiled': 2, 'kept': 2, 'disk': 0}, [])
        if version < runtime.CACHES_KEPT:
            age_files()
            source.write_text(first)
            assert start() == (WARM, [])        # used again, and so not the oldest
    assert len(kept()) == 2 * runtime.CACHES_KEPT
    assert start() == (WARM, [])


def age_files() -> None:
    """Make all files older, whatever the resolution of the clock."""
    for file in kept():
        last = file.stat().st_mtime - 10
        os.utime(file, (last, last))


@contextlib.contextmanager
def mounted(place: pathlib.Path, *options: str) -> Iterator[None]:
    """A mount at a directory; skips the test where nobody may mount."""
    done = subprocess.run(['mount', *options, str(place)], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        pytest.skip(f'mounting is not permitted here: {done.stderr.strip()}')
    try:
        yield
    finally:
        subprocess.run(['umount', str(place)], check=True)


def test_on_a_partition_that_is_full_kernels_still_run(start, home):
    with mounted(home, '-t', 'tmpfs', '-o', 'size=64k', 'none'):
        with contextlib.suppress(OSError), open(home / 'everything', 'wb') as full:
            while True:
                full.write(bytes(1024))
                full.flush()
        counted, said = start()
        assert counted == {'compiled': 2, 'kept': 0, 'disk': 0}
        assert len(said) == 1
        assert 'No space left' in said[0]
        (home / 'everything').unlink()
        assert start() == ({'compiled': 2, 'kept': 2, 'disk': 0}, [])


def test_a_cache_on_a_read_only_disk_is_used_and_not_changed(start, home):
    start()
    parent = home / 'stereo_bp_ros' / 'numba'
    for age in range(2 * runtime.CACHES_KEPT):
        (parent / str(age)).mkdir()

    def start_read_only() -> tuple[dict[str, int], list[str]]:
        names = {entry.name for entry in parent.iterdir()}
        with mounted(home, '--bind', str(home)):
            subprocess.run(['mount', '-o', 'remount,bind,ro', str(home)], check=True)
            started = start()
            assert {entry.name for entry in parent.iterdir()} == names
        return started
    assert start_read_only() == (WARM, [])
    flip(0.5)(probe_file())
    for file in kept():
        if file != probe_file():
            file.unlink()
    counted, said = start_read_only()
    assert counted == {'compiled': 2, 'kept': 0, 'disk': 0}
    assert len(said) == 2
    assert 'is damaged and is not used' in said[0]
    assert 'cannot be kept' in said[1]
    assert 'Read-only' in said[1]


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root; skips the test where they are not there to be given up."""
    if os.geteuid() != 0:
        pytest.skip('only root can become another user')
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def let_others_read(home: pathlib.Path) -> None:
    for path in home.rglob('*'):
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_others_use_the_cache_of_root_and_compile_what_it_lacks(start, home):
    start()
    let_others_read(home)
    with as_nobody():
        if not os.access(sources.__file__, os.R_OK, effective_ids=True):
            pytest.skip('another user cannot read this checkout')
        assert start() == (WARM, [])
    probe_file().unlink()
    with as_nobody():
        counted, said = start()
    assert (counted['compiled'], counted['kept']) == (1, 0)
    assert len(said) == 1
    assert 'Permission denied' in said[0]


every_level = pytest.mark.parametrize('level', ['stereo_bp_ros', 'numba', 'compiler'])


@every_level
def test_a_cache_of_root_that_others_can_write_is_not_used(home, level):
    cache.open_directory('numba', 'compiler')
    let_others_read(home)
    next(path for path in home.rglob('*') if path.name == level).chmod(0o775)
    with as_nobody(), pytest.raises(PermissionError, match='can be written by others'):
        cache.open_directory('numba', 'compiler')


@every_level
def test_what_an_own_cache_held_while_others_could_write_it_is_discarded(home, caplog, level):
    file = cache.open_directory('numba', 'compiler') / 'file'
    cache.write_or_raise(file, b'of somebody')
    directory = next(path for path in home.rglob('*') if path.name == level)
    directory.chmod(0o777)
    cache.open_directory('numba', 'compiler')
    assert not file.exists()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    (said,) = warnings_of(caplog)
    assert f'{directory} could be written by others' in said


def test_a_power_cut_leaves_the_old_content_or_the_new(home, monkeypatch):
    file = cache.open_directory() / 'file'
    cache.write_or_raise(file, b'old')
    synced: list[bytes] = []
    real = os.fsync

    def note(number: int) -> None:
        real(number)
        synced.append(pathlib.Path(f'/proc/self/fd/{number}').read_bytes())
    monkeypatch.setattr(os, 'fsync', note)

    def stop(new: Any, old: Any) -> None:
        assert pathlib.Path(new).read_bytes() == synced[-1]
        raise KeyboardInterrupt
    monkeypatch.setattr(os, 'replace', stop)
    with pytest.raises(KeyboardInterrupt):
        cache.write_or_raise(file, b'new')
    assert synced[-1].endswith(b'new')
    assert cache.read(file) == b'old'
    assert [entry.name for entry in file.parent.iterdir()] == ['file']


def test_what_a_killed_process_has_half_written_is_removed_when_the_cache_is_opened(home):
    """A file of a process that is still writing is younger."""
    directory = cache.open_directory('numba', 'compiler')
    young = '.stereo_bp_0123456789abcdef'
    kept = ['cost.fill-3-0a.nbc', 'cost.fill-3-0a.nbc.damaged', 'b1.cubin', '.12345678', young]
    gone = ['.stereo_bp_5d41402abc4b2a76', '.stereo_bp_b9719d911017c592']
    for name in (*kept, *gone):
        (directory / name).write_bytes(b'half')
        if name != young:
            os.utime(directory / name, (0, time.time() - cache.ABANDONED_AFTER - 60))
    assert cache.open_directory('numba', 'compiler') == directory
    assert sorted(file.name for file in directory.iterdir()) == sorted(kept)


def test_a_file_that_is_removed_while_it_is_written_is_one_warning(home, monkeypatch, caplog):
    """By a process whose clock is ahead, say."""
    directory = cache.open_directory()
    real = os.fsync

    def remove(number: int) -> None:
        real(number)
        monkeypatch.setattr(cache, 'ABANDONED_AFTER', -60.0)
        cache.open_directory()
    monkeypatch.setattr(os, 'fsync', remove)
    assert not cache.write(directory / 'file.nbc', b'content')
    assert cache.read(directory / 'file.nbc') is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
