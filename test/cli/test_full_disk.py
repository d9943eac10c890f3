"""Every verb that writes, with a limit on the size of files, which is what a full disk does."""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from stereo_bp_ros.cli.main import build_parser
from test import machine
from test.cases import slow
from test.cli.runs import run
from test.core.test_atomic_files import contents, file_size_limit
from test.node import processes

pytest.importorskip('numba')

SAD = ('--set', 'stereo_algorithm=sad', '--set', 'disparity_range=16', '--set', 'num_threads=1',
       '--backend', 'cpu')
PAIR = ('street/000000/left.png', 'street/000000/right.png')

#: Of each verb that writes: commands that end by themselves and write into the folder out.
COMMANDS = {
    'match': [
        (*PAIR, '--calibration', 'street/000000/P_left.txt', '-o', 'out/d.pfm', '--picture',
         'out/d.png', '--depth', 'out/z.npy', '--points', 'out/c.ply', '--confidence',
         'out/c.pfm', *SAD),
        (*PAIR, '-o', 'out/d.npy', '--save', 'out/view.rrd', *SAD)],
    'evaluate': [
        ('street', '--limit', '2', '--repeat', '1', '--output', 'out', *SAD),
        ('street', '--limit', '2', '--repeat', '1', '--save', 'out/view.rrd', *SAD),
        ('street', '--limit', '2', '--repeat', '1', '--output', 'out', '--sweep',
         'median_window=1,3', *SAD)],
    'benchmark': [
        ('sad', '--size', '64x32x16', '--frames', '2', '--output', 'out/times.json',
         '--set', 'num_threads=1', '--backend', 'cpu'),
        ('papers', '--read', 'papers.json', '--output', 'out')],
    'render': [('--output', 'out', '--frames', '2', '--size', '96x64')],
    'sensitivity': [('pitch=0,0.3', '--size', '96x64', '--frames', '1', '--output', 'out', *SAD)],
    'calibrate-check': [('street', '--every', '0', '--output', 'out', *SAD)],
    'replay': [('street', '--output', 'out', '--wait', '30', *SAD),
               ('street', '--output', 'out', '--wait', '30', '--save', 'out/view.rrd', *SAD)],
    'view': [('--save', 'out/view.rrd', '--seconds', '20', '--wait', '60')],
    'demo': [('--output', 'out', '--images', 'street', '--save', 'view.rrd', '--backend', 'cpu')]}

#: Options whose files are read.
READ = {'--params-file', '--calibration', '--rectify', '--truth', '--scenario', '--compare',
        '--bag', '--images', '--read'}

#: Verbs that start or need other processes.
OVER_ROS = ('replay', 'view', 'demo')


def paths_of(parser: argparse.ArgumentParser) -> Iterator[Sequence[str]]:
    """Names of the options of a verb that take a path."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from paths_of(child)
        elif action.type is pathlib.Path and action.option_strings:
            yield action.option_strings


def test_every_option_that_writes_is_tried_here():
    verbs, = (action for action in build_parser()._actions
              if isinstance(action, argparse._SubParsersAction))
    for verb, parser in verbs.choices.items():
        words = {word for command in COMMANDS.get(verb, ()) for word in command}
        for names in paths_of(parser):
            assert set(names) & (READ | words), f'{verb} {names}'


@pytest.fixture
def here(tmp_path: pathlib.Path, street: pathlib.Path, monkeypatch: pytest.MonkeyPatch
         ) -> pathlib.Path:
    """The working folder, with what commands read."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(street, 'street')
    os.mkdir('out')
    pathlib.Path('papers.json').write_text(PAPERS)
    return tmp_path


PAPERS = """{"tables": []}"""


def check(status: int, err: str, out: pathlib.Path) -> None:
    """An error is one line that names the file, or the folder that it is in, and the reason."""
    assert status == 2, err
    assert 'Traceback' not in err
    line, = (line for line in err.splitlines() if line.startswith('stereo_bp'))
    assert 'File too large' in line
    assert str(out) in line or 'TMPDIR' in line


@pytest.mark.parametrize(('verb', 'words'), [
    (verb, words) for verb, commands in COMMANDS.items() for words in commands
    if verb not in OVER_ROS])
def test_a_full_disk_is_one_line_and_what_was_there_stays(
        here: pathlib.Path, verb: str, words: Sequence[str]):
    if '--save' in words:
        pytest.importorskip('rerun')
    status, _, err = run(verb, *words)
    assert status == 0, err
    before = contents(here / 'out')
    assert before
    for limit in sorted({len(data) // 2 for data in before.values()})[::len(before)]:
        if verb == 'render':        # takes no folder that has files
            shutil.rmtree('out')
            before = {}
        with file_size_limit(limit):
            status, _, err = run(verb, *words)
        check(status, err, pathlib.Path('out'))
        after = contents(here / 'out') if (here / 'out').exists() else {}
        assert after.keys() == before.keys()
        for name, data in after.items():
            assert data == before[name] or len(data) <= limit, name
