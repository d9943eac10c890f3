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
from test.fuzz import inputs, targets

fuzz = importlib.import_module('test.fuzz.__main__')

#: Cases of a target in the quick tests and, relative to its share, in the slow ones.
FEW, MANY = 60, 600

#: These need seconds for each dozen of cases; their parsers are other projects'.
SLOW = ('command', 'matched')
OURS = [name for name, target in targets.TARGETS.items() if not target.crashes]


def report(findings: list[dict[str, str]]) -> str:
    """What a person needs to see a case again."""
    return '\n'.join(f'{one["target"]}, case {one["case"]}:\n{one["traceback"]}\n{one["input"]}'
                     for one in findings)


def sound(name: str) -> int:
    """Number of cases that are not damaged: the corpus, and what has found something."""
    return len(fuzz.corpus(name))


@pytest.mark.parametrize('name', [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in OURS])
def test_damaged_inputs_are_taken_or_refused(name: str) -> None:
    found = fuzz.run_cases(name, 0, sound(name) + (6 if name in SLOW else FEW), seed=0)
    assert not found['findings'], report(found['findings'])


@pytest.mark.slow
@pytest.mark.parametrize('name', OURS)
def test_many_damaged_inputs_are_taken_or_refused(name: str) -> None:
    many = int(MANY * max(0.2, targets.TARGETS[name].share))
    found = fuzz.run_cases(name, 0, many, seed=1)
    assert not found['findings'], report(found['findings'])
    assert found['refused'] < many


@pytest.mark.parametrize(('settings', 'found'), [
    ({'min_disparity': 2048}, {}),              # fixed_disparity has no room for it
    ({'downscale': 4}, None), ({'max_image_width': 16}, None)])
def test_a_pair_is_matched_through_the_checks(settings: dict[str, int], found: object,
                                              monkeypatch: pytest.MonkeyPatch,
                                              tmp_path: pathlib.Path) -> None:
    """As anybody's: what they refuse would be an OverflowError of an engine."""
    config = targets.MatcherConfig(stereo_algorithm='sad', **settings)
    monkeypatch.setattr(targets, '_accepted', lambda _: config)
    with fuzz.limits():
        assert fuzz.tried(targets.TARGETS['matched'], b'', tmp_path) == found


@pytest.mark.parametrize('name', ['image', 'compressed', 'pfm', 'png', 'calibration', 'bag'])
def test_sound_inputs_are_accepted(name: str, tmp_path: pathlib.Path) -> None:
    taken = sum(fuzz.tried(targets.TARGETS[name], data, tmp_path) is None
                for data in targets.TARGETS[name].corpus())
    assert taken


def test_a_case_is_the_same_every_time() -> None:
    cases = [fuzz.case('pfm', 5, number) for number in range(200)]
    assert cases == [fuzz.case('pfm', 5, number) for number in range(200)]
    assert len(set(cases)) > 150
    assert cases != [fuzz.case('pfm', 6, number) for number in range(200)]


def broken(data: bytes, folder: pathlib.Path) -> None:
    """A reader with every defect that a case can have."""
    kind = data[:1]
    if kind == b'a':
        raise KeyError('x')
    if kind == b'b':
        warnings.warn('overflow', RuntimeWarning, stacklevel=1)
    if kind == b'c':
        raise ValueError('it is damaged')
    if kind == b'd':
        raise ValueError('file.x is damaged')
    if kind == b'j':
        raise ValueError(f'file.x has {[np.float64(1)]}')
    if kind == b'e':
        np.ones(330 << 20, np.uint8)
    if kind == b'f' or (kind == b'i' and not any(folder.iterdir())):
        (folder / 'cache').touch()
        while True:
            pass
    if kind == b'g' or (kind == b'h' and not any(folder.iterdir())):
        (folder / 'cache').touch()
        start = time.process_time()
        while time.process_time() < start + 0.3:
            pass


@pytest.mark.parametrize(('data', 'words'), [
    (b'a', 'KeyError'), (b'b', 'RuntimeWarning: overflow'), (b'c', 'does not name file.x'),
    (b'd', ''), (b'j', 'as NumPy does'), (b'e', ' s and 3'), (b'f', 'more than 0.5 s'),
    (b'g', '0.3 s and'), (b'h', None), (b'i', None), (b'', None)])
def test_every_defect_is_found(data: bytes, words: str | None, tmp_path: pathlib.Path,
                               monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine needs long for little work.
    monkeypatch.setattr(fuzz, 'MAX_SECONDS', 0.5 if data in (b'f', b'i') else 60.0)
    monkeypatch.setattr(fuzz, 'MAX_WORK', 0.25)
    target = targets.Target(broken, lambda: [], 1, file='file.x')
    gc.collect()                # else what tests before have left is freed meanwhile
    with fuzz.limits():
        found = fuzz.tried(target, data, tmp_path)
    if words is None:
        assert found is None
    elif not words:
        assert found == {}
    else:
        assert words in found['error']


def test_findings_of_one_kind_are_one_with_the_shortest_input() -> None:
    one = {'target': 'pfm', 'error': 'KeyError: 1', 'place': 'files.py:1', 'input': 'aabb'}
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


def test_kept_inputs_belong_to_a_target() -> None:
    assert {path.name for path in inputs.CORPUS.iterdir()} <= set(targets.TARGETS)
