"""A file is there as a whole or not at all, and what was there before stays until then."""

from __future__ import annotations

import ast
import os
import pathlib
import stat
from collections.abc import Callable, Iterator

import pytest

from stereo_bp_ros.system import atomic_files
from test.core.test_house import PACKAGE
from test.machine import file_size_limit


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Every file of a folder, hidden ones too, by its path below it."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob('*')) if path.is_file()}


LARGE = 5000 * b'large'


def in_pieces(path: pathlib.Path) -> None:
    with atomic_files.opened(path) as file:
        for _ in range(5000):
            file.write(b'large')


@pytest.mark.parametrize('write', [
    in_pieces, lambda path: atomic_files.write_bytes(path, LARGE),
    lambda path: atomic_files.write_text(path, LARGE.decode())])
@pytest.mark.parametrize('older', [None, b'older'])
def test_a_full_disk_leaves_what_was_there(
        tmp_path: pathlib.Path, write: Callable[[pathlib.Path], None], older: bytes | None):
    path = tmp_path / 'file'
    if older:
        path.write_bytes(older)
    with file_size_limit(1000), pytest.raises(ValueError, match='File too large') as caught:
        write(path)
    assert str(caught.value) == f'{path} cannot be written: File too large'
    assert contents(tmp_path) == ({'file': older} if older else {})
    write(path)
    assert contents(tmp_path) == {'file': LARGE}


@pytest.mark.parametrize('call', ['fsync', 'replace', 'fstat'])
def test_a_disk_that_fails_late_leaves_what_was_there(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, call: str):
    path, real = tmp_path / 'file', os.fstat

    def fail(number: int, *_: object) -> os.stat_result:
        if call == 'fstat':     # of a file that was cut without a word
            found = list(real(number))
            found[stat.ST_SIZE] -= 1
            return os.stat_result(found)
        raise OSError(5, 'Input/output error')
    path.write_bytes(b'older')
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(ValueError, match='cannot be written: '):
            atomic_files.write_bytes(path, b'newer')
    assert contents(tmp_path) == {'file': b'older'}


def test_an_interruption_leaves_what_was_there(tmp_path: pathlib.Path):
    path = tmp_path / 'file'
    path.write_bytes(b'older')
    def write() -> None:
        with atomic_files.opened(path) as file:
            file.write(b'newer')
            file.flush()
            raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        write()
    assert contents(tmp_path) == {'file': b'older'}


def test_links_and_modes_stay(tmp_path: pathlib.Path):
    path, link = tmp_path / 'file', tmp_path / 'link'
    path.write_bytes(b'older')
    path.chmod(0o640)
    link.symlink_to('file')
    atomic_files.write_bytes(link, b'newer')
    assert link.is_symlink()
    assert path.read_bytes() == b'newer'
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    atomic_files.write_bytes(tmp_path / 'other', b'new')
    (tmp_path / 'usual').write_bytes(b'')
    assert (tmp_path / 'other').stat().st_mode == (tmp_path / 'usual').stat().st_mode


def test_a_file_that_may_not_be_written_is_not_replaced(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / 'file'
    path.write_bytes(b'older')
    # As for everybody but root.
    monkeypatch.setattr(os, 'access', lambda *_: False)
    with pytest.raises(ValueError, match='cannot be written: Permission denied'):
        atomic_files.write_bytes(path, b'newer')
    assert contents(tmp_path) == {'file': b'older'}


def test_devices_and_pipes_are_written_and_stay(tmp_path: pathlib.Path):
    atomic_files.write_bytes('/dev/null', b'anything')
    assert not pathlib.Path('/dev/null').is_file()
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        atomic_files.write_bytes(pipe, b'anything')
        assert os.read(reader, 100) == b'anything'
    finally:
        os.close(reader)
    with pytest.raises(ValueError, match='Is a directory'):
        atomic_files.write_bytes(tmp_path, b'anything')
    with pytest.raises(ValueError, match='/dev/full cannot be written: No space left'):
        atomic_files.write_bytes('/dev/full', b'anything')


@pytest.mark.parametrize('is_there', [False, True])
def test_a_folder_is_filled_as_a_whole_or_not_at_all(tmp_path: pathlib.Path, is_there: bool):
    target = tmp_path / 'folder'
    if is_there:
        target.mkdir()
    def fill() -> None:
        with atomic_files.folder(target) as made:
            (made / 'below').mkdir(parents=True)
            (made / 'below/small').write_bytes(b'small')
            (made / 'below/large').write_bytes(LARGE)
            assert made.name == 'folder'
    with file_size_limit(1000), pytest.raises(
            ValueError, match=f'{target} cannot be written: File too large'):
        fill()
    assert contents(tmp_path) == {}
    assert target.exists() == is_there
    fill()
    assert contents(tmp_path) == {'folder/below/large': LARGE, 'folder/below/small': b'small'}
    assert [path.name for path in tmp_path.iterdir()] == ['folder']


#: Calls that write a file by themselves; ``open`` counts with a mode that writes.
WRITERS = {'open', 'write_text', 'write_bytes', 'imwrite', 'savez', 'save', 'savefig', 'Writer',
           'FileSink', 'shutil.copy'}

#: Modules that may call some of them, and why.
ALLOWED = {
    'cli/viewer.py': ({'open', 'write_text'}, 'settings and log in a temporary folder'),
    'evaluation/plots.py': ({'savefig'}, 'into memory'),
    'evaluation/scale.py': ({'open'}, 'results of workers, read while they write them'),
    'images/output_files.py': ({'save'}, 'into memory'),
    'images/pictures.py': ({'write_text'}, 'into a picture'),
    'replay/session.py': ({'open'}, 'logs, which are read while processes write them'),
    'replay/viewing.py': ({'FileSink'}, 'into a pipe'),
    'sources/bag_messages.py': ({'Writer'}, 'in a folder of atomic_files'),
    'sources/bag_storage.py': ({'open'}, 'unpacked in a temporary folder')}

#: Whose functions write whole files, or arrays and settings that are none.
OTHERS = {'atomic_files', 'plots', 'frame'}


def writers(source: pathlib.Path) -> Iterator[str]:
    """Calls of a module that may write a file by themselves."""
    for node in ast.walk(ast.parse(source.read_text('utf-8'))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition('.')
        if called in WRITERS:
            name = called
        texts = [one.value for one in (*node.args, *(key.value for key in node.keywords))
                 if isinstance(one, ast.Constant)]
        if name in WRITERS and owner not in OTHERS and (
                name != 'open' or any(text in ('w', 'wb', 'x', 'xb', 'a', 'ab', 'w+b')
                                      for text in texts)):
            yield name


def test_nothing_else_in_the_package_writes_files():
    package = pathlib.Path(__file__).parents[2] / PACKAGE
    found = {str(source.relative_to(package)): set(writers(source))
             for source in sorted(package.rglob('*.py')) if source.name != 'atomic_files.py'}
    assert {name: calls for name, calls in found.items() if calls} == {
        name: calls for name, (calls, _) in ALLOWED.items()}
