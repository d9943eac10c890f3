"""Compiled kernels on the disk, and those that are compiled before an engine asks for them."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip('cupy')
from stereo_bp_ros.engines import cache
from stereo_bp_ros.engines.cuda.runtime import compiler, device
from stereo_bp_ros.engines.cuda.stages import right_labels


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A user's cache directory of its own for one test."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    compiler.cache_directory.cache_clear()
    yield tmp_path
    compiler.cache_directory.cache_clear()


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled: the code of every kernel is the same."""
    monkeypatch.setattr(compiler, 'compile_kernel', lambda file, name, *_: (b'code', name))


def test_kernels_compiled_side_by_side_are_kept_on_disk(
        directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [right_labels.kernel('uint64'), ('frame/preprocess.cu', 'texture'),
             ('frame/preprocess.cu', 'texture')]
    seen: list[tuple[int, int]] = []
    before = compiler.origins()
    compiler.compile_side_by_side(names, 'sm_90', lambda *done: seen.append(done))
    assert seen == [(1, 2), (2, 2)]
    assert compiler.origins()['compiled'] == before['compiled'] + 2
    with pytest.raises(RuntimeError, match='does not compile'):
        compiler.compile_side_by_side([('hierarchical/labels.cu', 'nothing')], 'sm_90')
    monkeypatch.setattr(compiler, 'compile_kernel', None)
    code, symbol = compiler.compiled(*names[0], 'sm_90')
    assert code.startswith(b'\x7fELF')
    assert symbol.encode() in code
    assert compiler.origins()['disk'] == before['disk'] + 1
    (kept,) = {file.parent for file in directory.rglob('*.cubin')}
    assert kept.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures('instant')
def test_files_of_another_format_are_no_damaged_ones(monkeypatch: pytest.MonkeyPatch,
                                                     directory: pathlib.Path) -> None:
    """After an update those of the version before stay as they are, and go unmentioned."""
    for number in ('1', '2'):
        monkeypatch.setattr(cache, 'FORMAT', f'stereo_bp_ros {number}')
        compiler.compiled('frame/refine.cu', 'any', 'sm_90')
    assert len(list(directory.rglob('*.cubin'))) == 2
    assert not list(directory.rglob('*.damaged'))


@pytest.mark.usefixtures('instant')
def test_without_a_cache_kernels_are_compiled_each_time(directory: pathlib.Path) -> None:
    (directory / 'stereo_bp_ros').touch()
    for _ in range(2):
        before = compiler.origins()
        assert compiler.compiled('frame/refine.cu', 'any', 'sm_90') == (b'code', 'any')
        assert compiler.origins()['compiled'] == before['compiled'] + 1


@pytest.mark.usefixtures('directory', 'instant')
def test_files_that_others_remove_meanwhile_disturb_nobody(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(compiler, '_progress', compiler.Progress('long'))   # nothing before
    monkeypatch.setattr(compiler, 'FILES_KEPT', 2)
    folder = compiler.cache_directory()
    assert folder is not None
    # Like a file that was there when the directory was read, and is not any more.
    (folder / 'gone.cubin').symlink_to(folder / 'nowhere')
    for name in ('first', 'second', 'third', 'third'):
        assert compiler.compiled('frame/refine.cu', name, 'sm_90') == (b'code', name)
    assert caplog.messages == []
    kept = {cache.read(file) for file in folder.glob('*.cubin')}
    assert kept == {b'second\ncode', b'third\ncode'}


class Guarded(dict[Any, Any]):
    """What is compiled ahead; touched by nobody without the lock."""

    def __contains__(self, key: object) -> bool:
        assert compiler._lock._is_owned()       # type: ignore[attr-defined]
        return super().__contains__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        assert compiler._lock._is_owned()       # type: ignore[attr-defined]
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        assert compiler._lock._is_owned()       # type: ignore[attr-defined]
        super().__delitem__(key)


def test_kernels_that_threads_compile_ahead_are_counted_and_their_number_is_bounded(
        monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = Guarded()
    monkeypatch.setattr(compiler, '_ahead', ahead)
    monkeypatch.setattr(compiler, '_loaded', {})
    monkeypatch.setattr(compiler, '_origins', dict.fromkeys(compiler.origins(), 0))

    def compiled(_: str, name: str, _architecture: str) -> tuple[bytes, str]:
        compiler._count('disk')
        return b'code', name
    monkeypatch.setattr(compiler, 'compiled', compiled)

    def compile_some(thread: int) -> None:
        for k in range(4):
            compiler.compile_ahead(device.TYPICAL, {
                (f'{thread}.cu', f'kernel_{k}_{i:03}') for i in range(compiler.MAX_AHEAD // 4)})
    threads = [threading.Thread(target=compile_some, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert compiler.origins()['disk'] == 3 * compiler.MAX_AHEAD
    assert len(ahead) == compiler.MAX_AHEAD
    # What was asked for last is there.
    latest = [(f'{k}.cu', f'last_{k}') for k in range(10)]
    compiler.compile_ahead(device.TYPICAL, latest)
    assert [key[1:] for key in ahead][-10:] == latest


def test_the_digest_changes_with_the_kernels(tmp_path: pathlib.Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'a.cu').write_text('first')
    monkeypatch.setattr(compiler, 'KERNELS', tmp_path)
    first = compiler.sources_digest.__wrapped__()
    (tmp_path / 'a.cu').write_text('second')
    assert compiler.sources_digest.__wrapped__() != first
