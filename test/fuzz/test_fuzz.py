"""What comes from outside is taken or refused, however damaged; what was found stays mended."""

from __future__ import annotations

import importlib
import pathlib

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
