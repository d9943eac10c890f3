"""What comes from outside is taken or refused, however damaged; what was found stays mended."""

from __future__ import annotations

import gc
import importlib
import json
import pathlib
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

pytest.importorskip('numba')
pytest.importorskip('rosbags')
from test.fuzz import targets

fuzz = importlib.import_module('test.fuzz.__main__')

#: Cases of a target in the quick tests and, relative to its share, in the slow ones.
FEW, MANY = 60, 600

#: These need seconds for each dozen of cases; their parsers are other projects'.
SLOW = ('command', 'matched')
OURS = [name for name, target in targets.TARGETS.items() if not target.crashes]


def check(name: str, count: int, seed: int) -> None:
    """Run the first cases: the sound ones, what has found something once, and damaged ones."""
    found = fuzz.run_cases(name, 0, count, seed)
    assert not found['findings'], '\n'.join(
        f'{one["target"]}, case {one["case"]}:\n{one["traceback"]}\n{one["input"]}'
        for one in found['findings'])
    assert found['refused'] < count


@pytest.mark.parametrize('name', [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in OURS])
def test_damaged_inputs_are_taken_or_refused(name: str) -> None:
    check(name, len(fuzz.corpus(name)) + (6 if name in SLOW else FEW), seed=0)


@pytest.mark.slow
@pytest.mark.parametrize('name', OURS)
def test_many_damaged_inputs_are_taken_or_refused(name: str) -> None:
    check(name, int(MANY * max(0.2, targets.TARGETS[name].share)), seed=1)


@pytest.mark.parametrize('name', ['image', 'compressed', 'pfm', 'png', 'calibration', 'bag'])
def test_sound_inputs_are_accepted(name: str, tmp_path: pathlib.Path) -> None:
    taken = sum(fuzz.tried(targets.TARGETS[name], data, tmp_path) is None
                for data in targets.TARGETS[name].corpus())
    assert taken


def test_a_case_is_the_same_every_time() -> None:
    first, again, other = (
        [fuzz.case('pfm', seed, number) for number in range(200)] for seed in (5, 5, 6))
    assert first == again != other
    assert len(set(first)) > 150


def broken(data: bytes, folder: pathlib.Path) -> None:
    """A reader with every defect that a case can have; a second time some are gone."""
    kind, is_first = data.decode(), not any(folder.iterdir())
    (folder / 'cache').touch()
    if kind == 'fails':
        raise KeyError('x')
    if kind == 'warns':
        warnings.warn('overflow', RuntimeWarning, stacklevel=1)
    if kind == 'is refused without a name':
        raise ValueError('it is damaged')
    if kind == 'is refused':
        raise ValueError('file.x is damaged')
    if kind == 'shows numbers of NumPy':
        raise ValueError(f'file.x has {[np.float64(1)]}')
    if kind == 'is large':
        np.ones(330 << 20, np.uint8)
    while kind == 'hangs' or (kind == 'hangs once' and is_first):
        pass
    if kind == 'is slow' or (kind == 'is slow once' and is_first):
        start = time.process_time()
        while time.process_time() < start + 0.3:
            pass


@pytest.mark.parametrize(('kind', 'words'), [
    ('fails', 'KeyError'), ('warns', 'RuntimeWarning: overflow'), ('is refused', ''),
    ('is refused without a name', 'does not name file.x'),
    ('shows numbers of NumPy', 'as NumPy does'), ('is large', ' s and 3'),
    ('hangs', 'more than 0.5 s'), ('hangs once', None), ('is slow', '0.3 s and'),
    ('is slow once', None), ('is sound', None)])
def test_every_defect_is_found(kind: str, words: str | None, tmp_path: pathlib.Path,
                               monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine needs long for little work.
    monkeypatch.setattr(fuzz, 'MAX_SECONDS', 0.5 if kind.startswith('hangs') else 60.0)
    monkeypatch.setattr(fuzz, 'MAX_WORK', 0.25)
    target = targets.Target(broken, lambda: [], 1, file='file.x')
    gc.collect()                # else what tests before have left is freed meanwhile
    with fuzz.limits():
        found = fuzz.tried(target, kind.encode(), tmp_path)
    if words:
        assert words in found['error']
    else:
        assert found == (None if words is None else {})


def test_findings_of_one_kind_are_one_with_the_shortest_input() -> None:
    one = {'target': 'pfm', 'error': 'KeyError: 1', 'place': 'files.py:1', 'input': 'aabb',
           'times': 1}
    found = fuzz.merged([one, {**one, 'error': 'KeyError: 2', 'input': 'aa'},
                         {**one, 'place': 'files.py:2'}])
    assert [(each['times'], each['input']) for each in found] == [(2, 'aa'), (1, 'aabb')]


@pytest.mark.slow
def test_the_command_reports_cases_and_findings(tmp_path: pathlib.Path) -> None:
    output = tmp_path / 'report.json'
    done = subprocess.run(
        [sys.executable, '-m', 'test.fuzz', '--cases', '300', '--target', 'pfm', '--target',
         'cdr_of_ros', '--jobs', '2', '--output', str(output)], cwd=fuzz.REPOSITORY,
        capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(output.read_text())
    assert sum(found['cases'].values()) == 300
    assert found['findings'] == []
