"""A real bash completes verbs and options by argcomplete, and loads no engine for it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip('argcomplete')

#: What Readline does at TAB, and prints what it would offer.
SCRIPT = f"""
eval "$({sys.executable} -c 'import argcomplete; print(argcomplete.shellcode(["stereo_bp"]))')"
for COMP_LINE in "$@"; do
    COMP_POINT=${{#COMP_LINE}} COMP_TYPE=9 COMPREPLY=()
    _python_argcomplete stereo_bp
    echo "${{COMPREPLY[@]}}"
done
"""

#: What a TAB loads of these.
LOADED = """
import sys, argcomplete
argcomplete.autocomplete = lambda _: print({'cupy', 'numba', 'rclpy', 'matplotlib'}
                                           & set(sys.modules)) or sys.exit()
from stereo_bp_ros.cli.main import main
main()
"""


def test_bash_completes(tmp_path: pathlib.Path, repository: pathlib.Path) -> None:
    command = tmp_path / 'stereo_bp'
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m stereo_bp_ros.cli.main "$@"\n')
    command.chmod(0o755)
    wanted = {'stereo_bp ca': 'calibrate-check ', 'stereo_bp match --pre': '--preset ',
              'stereo_bp evaluate --backend c': 'cuda cpu'}
    done = subprocess.run(
        ['bash', '-c', SCRIPT, 'bash', *wanted], text=True, capture_output=True,
        check=True, env={**os.environ, 'PATH': f'{tmp_path}:{os.environ["PATH"]}',
                         'PYTHONPATH': str(repository)})
    offered = dict(zip(wanted, done.stdout.splitlines(), strict=True))
    assert {line: sorted(words.split()) for line, words in offered.items()} == {
        line: sorted(words.split()) for line, words in wanted.items()}


def test_no_engine_is_loaded_for_a_tab() -> None:
    done = subprocess.run([sys.executable, '-c', LOADED], text=True, capture_output=True,
                          check=True, env={**os.environ, '_ARGCOMPLETE': '1'})
    assert done.stdout.strip() == 'set()'


def test_argcomplete_finds_its_mark_where_it_looks(repository: pathlib.Path) -> None:
    """For completion of every Python command that is marked (activate-global-...)."""
    assert b'PYTHON_ARGCOMPLETE_OK' in (
        repository / 'stereo_bp_ros/cli/main.py').read_bytes()[:1024]
