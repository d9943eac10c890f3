"""Files of the cache: used as they were written or not at all, whatever has become of them."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
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
from stereo_bp_ros.engines.cpu.simd import runtime
from stereo_bp_ros.engines.cuda.runtime import compiler

Child = Callable[..., str]

NOBODY = 65534


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """A user's cache of our own, which others may enter; the process forgets it afterwards."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        place.chmod(0o755)
        monkeypatch.setenv('XDG_CACHE_HOME', str(place))
        monkeypatch.setattr(runtime, 'engine_hash', lambda: 'engine')
        forget(monkeypatch)
        yield place
        monkeypatch.undo()
        forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin as a new process does."""
    runtime.cache_directory.cache_clear()
    compiler.cache_directory.cache_clear()
    monkeypatch.setattr(cache, '_warned', set())


def test_a_user_who_has_no_cache_directory_gets_one(home: pathlib.Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """As a fresh account or container: neither the directory nor what it lies in is there."""
    monkeypatch.delenv('XDG_CACHE_HOME')
    monkeypatch.setenv('HOME', str(home / 'user'))
    for named in (None, home / 'not' / 'there'):
        if named:
            monkeypatch.setenv('XDG_CACHE_HOME', str(named))
        directory = cache.open_directory('tuning')
        assert directory == (named or home / 'user' / '.cache') / 'stereo_bp_ros' / 'tuning'
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
    source.write_text('from stereo_bp_ros.engines.cpu.simd.runtime import kernel\n'
                      '@kernel\ndef helper(x):\n    return 3 * x\n'
                      '@kernel\ndef probe(x):\n    return helper(x) + 1\n')

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
                [record.getMessage() for record in caplog.records
                 if record.levelno >= logging.WARNING])
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


@every_damage
def test_a_damaged_kernel_is_set_aside_and_compiled_anew(start, damage):
    start()
    file = probe_file()
    damage(file)
    counted, said = start()
    assert (counted['compiled'], counted['kept']) == (1, 1)
    assert len(said) == 1
    assert f'{file} is damaged and is set aside as {file.name}.damaged' in said[0]
    assert start() == (WARM, [])


def test_a_second_damage_of_the_same_file_is_mended_as_well(start):
    start()
    for damage in (DAMAGE['a directory'], DAMAGE['empty'], DAMAGE['a directory']):
        damage(probe_file())
        assert start()[0]['compiled'] == 1
        assert start() == (WARM, [])


@pytest.mark.parametrize('number', [errno.EACCES, errno.EIO])
def test_a_file_that_cannot_be_read_is_set_aside_and_made_anew(start, monkeypatch, number):
    start()
    file, real = probe_file(), os.open

    def fail(path: Any, *arguments: Any, **options: Any) -> int:
        if pathlib.Path(path) == file:
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *arguments, **options)
    with monkeypatch.context() as patched:
        patched.setattr(os, 'open', fail)
        counted, said = start()
    assert counted['compiled'] == 1
    assert os.strerror(number) in said[0]
    assert start() == (WARM, [])


def test_sound_bytes_that_do_not_load_are_set_aside_and_compiled_anew(start):
    start()
    cache.write_or_raise(probe_file(), b'not a pickle')
    counted, said = start()
    assert (counted['compiled'], len(said)) == (1, 1)
    assert start() == (WARM, [])


def test_many_damaged_files_are_one_warning(start):
    start()
    for file in kept():
        file.write_bytes(b'')
    counted, said = start()
    assert (counted['compiled'], len(said)) == (2, 1)


@every_damage
def test_damaged_machine_code_of_cuda_is_set_aside_and_compiled_anew(
        monkeypatch, caplog, damage):
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
    damage(file)
    assert begin() == 1
    assert len(caplog.messages) == 1
    assert str(file) in caplog.messages[0]
    assert begin() == 0
    assert len(caplog.messages) == 1


@pytest.mark.parametrize('call', ['mkstemp', 'fsync', 'replace'])
def test_a_full_disk_is_one_warning(start, monkeypatch, call):
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patched:
        patched.setattr(tempfile if call == 'mkstemp' else os, call, fail)
        for _ in range(2):
            counted, said = start()
            assert counted == {'compiled': 2, 'kept': 0, 'disk': 0}
            assert len(said) == 1
            assert 'No space left' in said[0]
            assert 'cannot be kept' in said[0]
    directory = runtime.cache_directory()
    assert directory is not None
    assert not list(directory.iterdir())
    assert start()[0]['kept'] == 2


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
        for _ in range(2):
            counted, said = start()
            assert counted == {'compiled': 2, 'kept': 0, 'disk': 0}
            assert len(said) == 1
            assert 'No space left' in said[0]
        (home / 'everything').unlink()
        assert start() == ({'compiled': 2, 'kept': 2, 'disk': 0}, [])
        assert start() == (WARM, [])


def test_a_warm_cache_on_a_read_only_disk_is_used_and_never_pruned(start, home):
    start()
    parent = home / 'stereo_bp_ros' / 'numba'
    for age in range(2 * runtime.CACHES_KEPT):
        (parent / str(age)).mkdir()
    names = {entry.name for entry in parent.iterdir()}
    with mounted(home, '--bind', str(home)):
        subprocess.run(['mount', '-o', 'remount,bind,ro', str(home)], check=True)
        assert start() == (WARM, [])
        assert {entry.name for entry in parent.iterdir()} == names


def test_on_a_read_only_disk_damage_and_what_is_missing_are_one_warning_each(start, home):
    start()
    flip(0.5)(probe_file())
    for file in kept():
        if file != probe_file():
            file.unlink()
    with mounted(home, '--bind', str(home)):
        subprocess.run(['mount', '-o', 'remount,bind,ro', str(home)], check=True)
        counted, said = start()
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


def test_a_warm_cache_of_root_is_used_by_others_who_cannot_write_it(start, home):
    start()
    let_others_read(home)
    with as_nobody():
        assert start() == (WARM, [])


def test_what_the_cache_of_root_lacks_is_compiled_each_time_with_one_warning(start, home):
    start()
    let_others_read(home)
    probe_file().unlink()
    with as_nobody():
        for _ in range(2):
            counted, said = start()
            assert (counted['compiled'], counted['kept']) == (1, 0)
            assert len(said) == 1
            assert 'Permission denied' in said[0]


@pytest.mark.parametrize('level', ['stereo_bp_ros', 'numba', 'engine'])
def test_a_cache_of_root_that_others_can_write_is_not_used(start, home, level):
    start()
    let_others_read(home)
    next(path for path in (home, *home.rglob('*')) if path.name == level).chmod(0o775)
    with as_nobody():
        counted, said = start()
    assert counted == {'compiled': 2, 'kept': 0, 'disk': 0}
    assert len(said) == 1
    assert 'can be written by others' in said[0]
    assert len(list(home.rglob('*.nbc'))) == 2


@pytest.mark.parametrize('level', ['stereo_bp_ros', 'numba', 'engine'])
def test_what_an_own_cache_held_while_others_could_write_it_is_discarded(start, home, level):
    start()
    directory = next(path for path in home.rglob('*') if path.name == level)
    files = kept()
    stamps = [file.stat().st_mtime_ns for file in files]
    directory.chmod(0o777)
    counted, said = start()
    assert counted == {'compiled': 2, 'kept': 2, 'disk': 0}
    assert len(said) == 1
    assert f'{directory} could be written by others' in said[0]
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stamps != [file.stat().st_mtime_ns for file in files]
    assert start() == (WARM, [])


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
    directory = cache.open_directory('numba', 'engine')
    kept = ['cost.fill-3-0a.nbc', 'cost.fill-3-0a.nbc.damaged', 'b1.cubin', '.12345678',
            'cost.fill-3-0a.nbc.youngone']
    gone = ['cost.fill-3-0a.nbc.x5_2kq0a', 'b1.cubin.abcdefgh']
    for name in (*kept, *gone):
        (directory / name).write_bytes(b'half')
        if name != 'cost.fill-3-0a.nbc.youngone':
            os.utime(directory / name, (0, time.time() - cache.ABANDONED_AFTER - 60))
    assert cache.open_directory('numba', 'engine') == directory
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


@pytest.mark.slow
def test_an_engine_gives_the_same_bits_whatever_has_become_of_its_cache(
        tmp_path: pathlib.Path, child: Child) -> None:
    source = (
        'import hashlib, json, numpy as np\n'
        'from stereo_bp_ros import MatcherConfig, StereoMatcher\n'
        'left, right = np.random.default_rng(1).integers(0, 256, (2, 40, 60), dtype=np.uint8)\n'
        'config = MatcherConfig(stereo_algorithm="sad", disparity_range=16, backend="cpu")\n'
        'with StereoMatcher(config) as matcher:\n'
        '    disparity = matcher.compute(left, right).disparity\n'
        'from stereo_bp_ros.engines import choose\n'
        'print(json.dumps([hashlib.sha256(disparity.tobytes()).hexdigest(),\n'
        '                  choose(config).origins()["compiled"]]))')
    environment = {'XDG_CACHE_HOME': str(tmp_path), 'COVERAGE_PROCESS_CONFIG': ''}
    expected, compiled = json.loads(child(source, **environment))
    assert compiled
    files = sorted(file for file in tmp_path.rglob('*') if file.is_file())
    kinds = list(DAMAGE.values())
    for i, file in enumerate(files):
        kinds[i % len(kinds)](file)
    assert json.loads(child(source, **environment)) == [expected, compiled]
    assert json.loads(child(source, **environment)) == [expected, 0]
