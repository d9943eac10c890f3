"""A test that never ends fails within its time limit, whatever it hangs in."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

#: Hangs in Python, and in code that never comes back to the interpreter.
HANGS = {
    'python': 'while True: pass',
    'wait': 'import threading; threading.Event().wait()',
    'compiled': "import ctypes; ctypes.PyDLL(None).sigsuspend(b'\\xff' * 128)"}


@pytest.mark.parametrize('hang', HANGS)
def test_a_test_that_never_ends_fails(tmp_path: pathlib.Path, repository: pathlib.Path,
                                      hang: str) -> None:
    file = tmp_path / 'test_hanging.py'
    file.write_text(f'def test_hanging():\n    {HANGS[hang]}\n'
                    'def test_after_it():\n    pass\n')
    environment = {**os.environ, 'PYTHONPATH': str(repository), 'TEST_TIME_LIMIT': '0.5',
                   'TEST_TIME_GRACE': '1'}
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'test.time_limit', '-p', 'no:cacheprovider',
         '--rootdir', str(tmp_path), '-c', os.devnull, str(file)],
        env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    if hang == 'compiled':      # the process has ended, and says where it was
        assert 'test_hanging' in done.stderr
    else:
        assert 'the test has taken more than 0.5 s' in done.stdout
        assert '1 failed, 1 passed' in done.stdout
