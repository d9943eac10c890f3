"""Tables that verbs print: within 100 columns on a terminal or through a pipe, and whole."""

from __future__ import annotations

import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from rich.console import Console

from stereo_bp_ros.cli import options, progress
from stereo_bp_ros.cli.main import main

WIDTH, PAIRS = 100, 32

#: Runs each command behind a line that names it.
SCRIPT = """
import sys
from stereo_bp_ros.cli.main import main
for command in sys.argv[1].split(';'):
    print('>>>', command.split()[0], flush=True)
    assert main(command.split()) == 0
"""

FAST = '--set disparity_range=16 --set correlation_window_size=7 --backend cpu --repeat 1'
OTHERS = '--against sgbm,bm --against a_matcher_with_a_rather_long_name:correlation_window_size=9'


@pytest.fixture(scope='module')
def commands(tmp_path_factory, write_pair):
    """Of every verb that the field reads as tables."""
    pytest.importorskip('numba')
    sets = tmp_path_factory.mktemp('sets')
    for number in range(PAIRS):
        write_pair(sets / f'a_folder_of_a_recording_in_{number:04}')
    few = f'evaluate {sets} --limit 3 --set stereo_algorithm=sad {FAST}'
    everything = '--confidence --focal 96 --baseline 1'
    return ';'.join((
        few, f'{few} {OTHERS} {everything}',
        f'evaluate {sets} --set stereo_algorithm=sad {FAST}',
        'benchmark bp --backend cpu --size 96x48x16 --size 128x48x16 --frames 2 --variant int16 '
        '--variant float32:message_type=float32',
        'info --size 640x480 --arrays --preset road --backend cpu',
        'info --preset road --diff sad_fast'))


def through_a_pipe(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True, timeout=300).stdout.decode()


def on_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    """What a terminal of ``WIDTH`` columns is sent, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 50, WIDTH, 0, 0))
    with subprocess.Popen(command, env={**environment, 'TERM': 'xterm'}, stdin=theirs,
                          stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        found = b''
        try:
            while data := os.read(ours, 1 << 16):
                found += data
        except OSError:             # the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return re.sub(r'\x1b\[[0-9;?]*[A-Za-z]', '', found.decode()).replace('\r\n', '\n')


@pytest.mark.parametrize('show', [
    through_a_pipe, pytest.param(on_a_terminal, marks=pytest.mark.slow)])
def test_every_table_fits_100_columns_and_is_whole(commands, repository, show):
    environment = {**os.environ, 'PYTHONPATH': str(repository)}
    environment.pop('COLUMNS', None)
    printed = show([sys.executable, '-c', SCRIPT, commands], environment)
    lines = printed.splitlines()
    assert lines.count('>>> evaluate') == 3
    assert [line for line in lines if len(line) > WIDTH] == []
    assert '\u2026' not in printed
    first, everything, many, benchmark, _, _ = re.split(r'^>>> ', printed, flags=re.M)[1:]
    # What folds is there in pieces.
    assert 'a_folder_of_a_recording_' in first
    assert everything.count('of_a_recording') >= 2 * 3
    assert 'a_matcher_with_a' in everything
    for word in ('By region', 'Error in metres'):
        assert word in everything
    # Every matcher that has a confidence has its rows, and all of them are there.
    found = everything[everything.index('Sparsification, mean'):]
    assert len(re.findall(r'bad-3, % .*?( \d+\.\d{3} .*){3}', found)) == 2
    assert found.count('bad-3, %') == 4
    assert f'The rows of all {PAIRS} pairs: --output DIR or --json.' in many
    for stage in ('messages', 'device', 'frames/s', 'MiB'):
        assert stage in benchmark
    assert 'continued' in benchmark


def test_a_table_without_room_has_parts_with_the_same_keys(capsys, monkeypatch):
    monkeypatch.setattr(options, '_console', lambda: Console(width=40, markup=False))
    columns = ['set', 'variant', *(f'column {k}' for k in range(9))]
    rows = [[f's{k}', f'v{k}', *(f'{k}.{i}' for i in range(9))] for k in range(2)]
    options.print_table('A title', columns, rows, keys=2)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 40
    assert printed.count('A title, continued') == printed.count('variant') - 1 == 4
    for word in (*columns, *rows[0], *rows[1]):
        assert word in printed


def test_rows_that_the_table_leaves_out_are_in_a_file_that_is_named(
        commands, tmp_path, capsys, monkeypatch):
    for module in ('jinja2', 'matplotlib'):
        pytest.importorskip(module)
    many = commands.split(';')[2].split()
    monkeypatch.chdir(tmp_path)
    assert main([*many, '--output', 'out']) == 0
    assert f'The rows of all {PAIRS} pairs: out/report.json.' in capsys.readouterr().out
    assert 'The rows of all pairs are in report.json.' in pathlib.Path(
        'out/report.html').read_text()


def test_where_nobody_watches_a_line_comes_every_ten_seconds(capsys):
    now = [100.0]
    with progress.Bar('evaluate', clock=lambda: now[0]) as bar:
        task = bar.add_task('Evaluating kitti', total=194)
        now[0] += 20                # compiling
        bar.advance(task)
        said = capsys.readouterr().err.splitlines()
        assert said == ['evaluate: 1 of 194 pairs']
        for _ in range(60):
            now[0] += 0.5
            bar.advance(task)
    assert capsys.readouterr().err.splitlines() == [
        f'evaluate: {count} of 194 pairs, 2 pairs/s' for count in (21, 41, 61)]


def test_what_is_drawn_without_a_number_of_steps_is_counted(capsys):
    now = [0.0]
    with progress.Bar('evaluate', 'pairs', lambda: now[0]) as bar:
        task = bar.add_task('Evaluating', total=None)
        now[0] = 11
        bar.update(task, completed=7, description='another')
    assert capsys.readouterr().err == 'evaluate: 7 pairs\n'
