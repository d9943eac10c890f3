"""``make test-portable`` runs tests as other machines would, and fails where one of them fails."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import types
from collections.abc import Iterator
from typing import Any

import pytest

from test import portable

AVX512 = {'sse4_2', 'avx2', 'avx512f', 'avx512vl'}

#: Tests of what a run is told; the last one fails.
TESTS = """
import os, pathlib, time

def test_the_machine_is_another_one():
    assert os.getuid() != 0
    assert len(os.sched_getaffinity(0)) == 1
    assert time.strftime('%z', time.localtime(0)) in ('+0530', '+0000')
    assert not os.listdir(os.environ['STEREO_BP_DATA'])
    for name in ('HOME', 'XDG_CACHE_HOME', 'TMPDIR'):
        pathlib.Path(os.environ[name], 'file').touch()
    assert not os.access(__file__, os.W_OK) or os.getuid() == {owner}

def test_that_fails():
    assert os.environ['TEST_ORDER_SEED'] == 'another'
"""


@pytest.fixture
def tests() -> Iterator[pathlib.Path]:
    """Tests that every user can read."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, 'test_here.py')
        path.write_text(TESTS.replace('{owner}', str(os.getuid())))
        path.parent.chmod(0o755)
        path.chmod(0o644)
        yield path


@pytest.mark.parametrize(('flags', 'names', 'left_out'), [
    (AVX512, ('SkylakeX', 'Haswell'), 0), ({'sse4_2', 'avx2'}, ('Nehalem', 'Haswell'), 1),
    ({'sse4_2'}, ('Nehalem', None), 2), (set(), (None, None), 3)])
def test_kernels_that_a_processor_cannot_run_are_left_out_by_name(
        flags: set[str], names: tuple[str | None, ...], left_out: int) -> None:
    found = [portable.coretype(run, flags) for run in portable.runs('1')]
    assert tuple(name for name, _ in found) == names
    lines = [line for _, missing in found for line in missing]
    assert sum('this processor has no ' in line for line in lines) == left_out


def test_the_command_fails_with_the_log_of_the_run_that_fails(
        tests: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    if os.geteuid() == 0 and not shutil.which('setpriv'):
        pytest.skip('setpriv is not installed')
    monkeypatch.setenv('TEST_ORDER_SEED', '7')
    monkeypatch.setattr(portable, 'runs', lambda seed: [
        portable.Run(name, (f'{tests}::{test}',), {}, {
            'TZ': portable.ZONE, 'TEST_ORDER_SEED': seed}, as_visitor=True)
        for name, test in (('first', 'test_the_machine_is_another_one'),
                           ('second', 'test_that_fails'))])
    assert portable.main(['--tb=line']) == 1
    printed = capfdbinary.readouterr().out.decode()
    first, _, second = printed.partition('second: status')
    assert 'first: status 0' in first, printed
    assert '1 passed' in first
    assert second.startswith(' 1 ')
    assert "'7' == 'another'" in second
    assert portable.main(['-k', 'machine']) == 0        # and none of the second run
    assert 'second: status 5' in capfdbinary.readouterr().out.decode()


def order(monkeypatch: pytest.MonkeyPatch, seed: str) -> list[tuple[str, int]]:
    items: Any = [types.SimpleNamespace(path=path, number=number)
                  for path in 'abcdef' for number in range(6)]
    monkeypatch.setenv('TEST_ORDER_SEED', seed)
    portable.pytest_collection_modifyitems(items)
    return [(item.path, item.number) for item in items]


def test_a_seed_shuffles_modules_and_the_tests_of_each_always_the_same_way(
        monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled = order(monkeypatch, '1')
    assert shuffled == order(monkeypatch, '1') != order(monkeypatch, '2')
    assert sorted(shuffled) == order(monkeypatch, '') != shuffled
    modules = [path for path, _ in shuffled[::6]]
    assert [path for path, _ in shuffled] == [path for path in modules for _ in range(6)]
    assert modules != sorted(modules)
