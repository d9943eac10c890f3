"""A test that never ends fails within its time limit, whatever it hangs in."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys


def test_a_test_that_never_ends_fails(tmp_path: pathlib.Path, repository: pathlib.Path) -> None:
    """In Python by an alarm; in code that never comes back, with the stacks of all threads."""
    file = tmp_path / 'test_hanging.py'
    file.write_text("import ctypes, threading\n"
                    "def test_in_python():\n    threading.Event().wait()\n"
                    "def test_compiled():\n    ctypes.PyDLL(None).sigsuspend(b'\\xff' * 128)\n")
    environment = {**os.environ, 'PYTHONPATH': str(repository), 'TEST_TIME_LIMIT': '0.5',
                   'TEST_TIME_GRACE': '0.5'}
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-v', '-p', 'test.time_limit', '-p', 'no:cacheprovider',
         '--rootdir', str(tmp_path), '-c', os.devnull, str(file)],
        env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert 'test_in_python FAILED' in done.stdout
    assert 'in test_compiled' in done.stderr
