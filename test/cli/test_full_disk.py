"""Every verb that writes, with a limit on the size of files, which is what a full disk does."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from stereo_bp_ros.cli.main import build_parser
from test import machine
from test.cli.runs import run
from test.core.test_atomic_files import contents
from test.machine import file_size_limit
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
         'out/c.pfm', *SAD)],
    'evaluate': [('street', '--limit', '2', '--repeat', '1', '--output', 'out', *SAD)],
    'benchmark': [
        ('sad', '--size', '64x32x16', '--frames', '2', '--output', 'out/times.json',
         '--set', 'num_threads=1', '--backend', 'cpu')],
    'render': [('--output', 'out', '--frames', '2', '--size', '96x64')],
    'calibrate-check': [('street', '--every', '0', '--output', 'out', *SAD)],
    'view': [('street', '--limit', '2', '--save', 'out/view.rrd', *SAD)]}

#: Of verbs that start other processes, or need them.
OVER_ROS = {
    'replay': [('street', '--output', 'out', '--loop', '3', *SAD)],
    'view': [('--save', '{older}', '--seconds', '300', '--wait', '60')],
    'demo': [('--output', 'out', '--frames', '8', '--backend', 'cpu')]}

#: Options whose files are read.
READ = {'--params-file', '--calibration', '--rectify', '--truth', '--scenario', '--compare',
        '--bag', '--images'}


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
        words = {word for command in (*COMMANDS.get(verb, ()), *OVER_ROS.get(verb, ()))
                 for word in command}
        for names in paths_of(parser):
            assert set(names) & (READ | words), f'{verb} {names}'


@pytest.fixture
def here(tmp_path: pathlib.Path, street: pathlib.Path, monkeypatch: pytest.MonkeyPatch
         ) -> pathlib.Path:
    """The working folder, with what commands read."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(street, 'street')
    os.mkdir('out')
    return tmp_path


def check(status: int, err: str, out: pathlib.Path) -> None:
    """An error is one line that names the file, or the folder that it is in, and the reason."""
    assert status == 2, err
    assert 'Traceback' not in err
    line, = (line for line in err.splitlines()
             if line.startswith('stereo_bp') and 'File too large' in line)
    assert str(out) in line or 'TMPDIR' in line


@pytest.mark.parametrize(('verb', 'words'), [
    (verb, words) for verb, commands in COMMANDS.items() for words in commands])
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


#: Bytes that what is logged needs, and what is recorded exceeds.
LIMIT = 40_000


@pytest.mark.slow
@pytest.mark.ros
@pytest.mark.parametrize(('verb', 'words'), [
    (verb, words) for verb, commands in OVER_ROS.items() for words in commands])
def test_a_full_disk_ends_what_records_over_ros(
        here: pathlib.Path, verb: str, words: Sequence[str], tmp_path: pathlib.Path):
    pytest.importorskip('rclpy')
    pytest.importorskip('rosbags')
    if '--save' in words:
        pytest.importorskip('rerun')
    older = pathlib.Path('older/view.rrd')
    older.parent.mkdir()
    older.write_bytes(b'older')
    words = [word.replace('{older}', str(older)) for word in words]
    with machine.domain() as domain, contextlib.ExitStack() as stack:
        # A segment in shared memory is a file, too.
        environment = {**os.environ, 'ROS_DOMAIN_ID': str(domain),
                       'FASTDDS_BUILTIN_TRANSPORTS': 'UDPv4'}
        if '--output' not in words:
            stack.enter_context(processes.running_node(
                tmp_path, {'stereo_algorithm': 'sad', 'disparity_range': 16, 'backend': 'cpu'},
                domain=domain, qos={}, environment=environment))
        if verb == 'view':
            player = subprocess.Popen(
                [sys.executable, '-m', 'stereo_bp_ros.cli.main', 'replay', 'street', '--loop',
                 '0'], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(player.wait)
            stack.callback(player.kill)
        done = subprocess.run(
            [sys.executable, '-m', 'stereo_bp_ros.cli.main', verb, *words], text=True,
            env=environment, capture_output=True, timeout=600, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT)))
    check(done.returncode, done.stderr, pathlib.Path('out') if '--output' in words else older)
    assert contents(older.parent) == {'view.rrd': b'older'}
    left = {path.name for path in pathlib.Path('out').rglob('*')}
    assert not left & {'output', 'report.json', 'report.html', 'metadata.yaml'}
    assert not [name for name in left if name.startswith('.stereo_bp_')]
