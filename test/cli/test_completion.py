"""``stereo_bp completion``: a real bash completes verbs, options, presets and settings."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from stereo_bp_ros.cli import completion
from stereo_bp_ros.cli.main import VERBS, main
from stereo_bp_ros.config import all_settings

pytest.importorskip('argcomplete')

#: What Readline does at TAB, and prints what it would offer.
SCRIPT = """
eval "$(stereo_bp completion bash)"
for COMP_LINE in "$@"; do
    COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMPREPLY=()
    _python_argcomplete stereo_bp
    echo "${COMPREPLY[@]}"
done
"""


@pytest.fixture
def shell(tmp_path: pathlib.Path, repository: pathlib.Path) -> dict[str, str]:
    """An environment whose PATH has the command."""
    command = tmp_path / 'stereo_bp'
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m stereo_bp_ros.cli.main "$@"\n')
    command.chmod(0o755)
    return {**os.environ, 'PATH': f'{tmp_path}:{os.environ["PATH"]}',
            'PYTHONPATH': str(repository)}


@pytest.mark.parametrize('lines', [{
    'stereo_bp ca': 'calibrate-check ', 'stereo_bp match --pre': '--preset ',
    'stereo_bp match --preset road_': 'road_2009 road_band road_fast road_sobel',
    'stereo_bp info --set downsc': 'downscale=', 'stereo_bp info --set filling=pl': 'plane ',
    'stereo_bp evaluate --backend c': 'cuda cpu', 'stereo_bp param set fill': 'filling ',
    'stereo_bp param set filling ': 'none background plane'}])
def test_bash_completes(lines: dict[str, str], shell: dict[str, str]) -> None:
    done = subprocess.run(['bash', '-c', SCRIPT, 'bash', *lines], env=shell, text=True,
                          capture_output=True, check=True)
    offered = dict(zip(lines, done.stdout.splitlines(), strict=True))
    assert {line: sorted(words.split()) for line, words in offered.items()} == {
        line: sorted(words.split()) for line, words in lines.items()}


#: What a TAB loads of these, behind a verb.
LOADED = """
import sys, argcomplete
argcomplete.autocomplete = lambda *_, **__: print(*{
    'cupy', 'numba', 'rclpy', 'matplotlib', 'stereo_bp_ros.cli.match',
    'stereo_bp_ros.cli.evaluate'} & set(sys.modules)) or sys.exit()
from stereo_bp_ros.cli.main import main
main()
"""


def test_no_engine_and_no_other_verb_is_loaded_for_a_tab(shell: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, '-c', LOADED], text=True, capture_output=True, check=True,
        env={**shell, '_ARGCOMPLETE': '1', 'COMP_LINE': 'stereo_bp match --preset '})
    assert done.stdout.split() == ['stereo_bp_ros.cli.match']


@pytest.mark.parametrize(('shell_name', 'word'), [
    ('bash', 'COMPREPLY'), ('zsh', 'compdef'), ('fish', 'complete --command stereo_bp')])
def test_each_shell_gets_its_own(shell_name: str, word: str,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['completion', shell_name]) == 0
    assert word in capsys.readouterr().out


def test_every_setting_and_its_choices_are_offered() -> None:
    assert {f'{name}=' for name in all_settings()} == set(completion._settings(''))
    assert completion._settings('exact=') == ['exact=true', 'exact=false']
    assert completion._settings('unknown=') == []
    assert 'completion' in VERBS
