"""Whatever the arguments and the surroundings are, a verb ends with one line and a status."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import cv2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stereo_bp_ros.cli import main
from stereo_bp_ros.config.mappings import all_settings
from stereo_bp_ros.system import process
from test.cases import examples, slow
from test.cli.runs import LIMIT_S, check, run, steady, texts, words


@settings(steady, max_examples=examples(60))
@given(assignments=st.lists(st.tuples(st.sampled_from(sorted(all_settings())) | texts, words),
                            min_size=1, max_size=3))
@example([('data_weight', '9' * 400)])
@example([('stereo_algorithm', '[1]')])
@example([('disparity_range', '[1, 2')])
@example([('a\udcff\nb', '1')])
def test_any_setting_on_the_command_line_ends_in_a_status(assignments):
    check('info', '--backend', 'cpu',
          *itertools.chain(*(('--set', f'{name}={text}') for name, text in assignments)))


@pytest.mark.parametrize(('verb', 'option'), [
    ('replay', '--rate'), ('replay', '--loop'), ('replay', '--period'), ('replay', '--wait'),
    ('demo', '--frames'), ('demo', '--noise'), ('evaluate', '--repeat'), ('evaluate', '--limit'),
    ('evaluate', '--focal'), ('evaluate', '--baseline'), ('match', '--repeat'),
    ('info', '--disparities'), ('render', '--frames'), ('calibrate-check', '--every')])
def test_a_number_that_is_none_is_refused_with_its_limits(tmp_path, verb, option):
    inputs = {'demo': 0, 'info': 0, 'render': 0, 'match': 2}
    arguments = [str(tmp_path)] * inputs.get(verb, 1)
    for value in ('nan', 'inf', '-1', '1e400', '9' * 400, 'x', ''):
        status, _, err = run(verb, *arguments, f'{option}={value}')
        assert status == 2
        assert f'argument {option}: ' in err
        assert ' number from ' in err
        assert err.count('\n') == 1


@pytest.mark.parametrize(('verb', 'sizes'), [
    ('info', ('1000000x1000000', '65536x65536', '9' * 400 + 'x5', '-5x5', 'axb', '5')),
    ('benchmark', ('640x480', '640x480x1', '640x480xnan', '1000000x1000000x64', '64x48x9999'))])
def test_a_size_that_is_none_is_refused(verb, sizes):
    words = ('benchmark', 'bp') if verb == 'benchmark' else (verb,)
    for size in sizes:
        assert check(*words, '--backend', 'cpu', f'--size={size}') == 2


def test_arguments_for_ros_that_ros_refuses_are_one_line(tmp_path, textured_pair):
    pytest.importorskip('rclpy')
    for side, image in zip(('left', 'right'), textured_pair(64, 48, 4), strict=True):
        (tmp_path / side).mkdir()
        cv2.imwrite(str(tmp_path / side / '1000.png'), image)
    for ros in (('-r', '::::'), ('-r', '__ns:=//'), ('--log-level', 'x'), ('-p', '[')):
        assert check('replay', str(tmp_path), '--wait', '0', '--focal', '100', '--ros-args',
                     *ros) == 2
    assert check('info', '--ros-args', '-r', '__ns:=/stereo') == 2


@pytest.mark.parametrize(('error', 'words'), [
    (MemoryError(), 'not enough memory'), (MemoryError('of 5 GiB'), 'memory: of 5 GiB'),
    (OSError(28, 'No space left on device', 'a\nb'), 'No space left'),
    (UnicodeEncodeError('utf-8', '\udcff', 0, 1, 'surrogates not allowed'), 'surrogates')])
def test_causes_outside_the_program_are_one_line_and_a_defect_is_not_hidden(
        monkeypatch, error, words):
    raised = [ZeroDivisionError(), error]

    def fail(options: object) -> int:
        raise raised.pop()
    monkeypatch.setattr('stereo_bp_ros.cli.info.run', fail)
    status, _, err = run('info')
    assert (status, err.count('\n')) == (2, 1)
    assert words in err
    with pytest.raises(ZeroDivisionError):
        run('info')


# --- processes

@pytest.mark.parametrize('verb', ['evaluate', 'calibrate-check', 'match', 'replay', 'view'])
def test_links_that_lead_in_a_circle_are_no_input(tmp_path, verb):
    if verb == 'view':
        pytest.importorskip('rerun')
    one, other = tmp_path / 'one', tmp_path / 'other'
    one.symlink_to(other)
    other.symlink_to(one)
    status, _, err = run(verb, *map(str, [one, other] if verb == 'match' else [one]))
    assert (status, err.count('\n')) == (2, 1)
    assert str(one)[:50] in err         # long ones are shortened


@pytest.mark.parametrize(('height', 'width'), [(1, 1300), *slow((1, 1), (1300, 1), (2, 2))])
def test_images_of_one_row_or_column_are_matched(tmp_path, height, width):
    folder = tmp_path / 'set'
    for number, side in enumerate(('left', 'right')):
        (folder / side).mkdir(parents=True)
        pixels = np.random.default_rng(number).integers(0, 256, (height, width), np.uint8)
        cv2.imwrite(str(folder / side / '0.png'), pixels)
    how = ('--backend', 'cpu', '--preset', 'sad_fast', '--set', 'row_correction=correct')
    names = [str(folder / side / '0.png') for side in ('left', 'right')]
    for arguments in (('match', *names, '-o', str(tmp_path / 'out.pfm')),
                      ('evaluate', str(folder)), ('calibrate-check', str(folder))):
        assert check(*arguments, *how) == 0


COMMAND = [sys.executable, '-m', 'stereo_bp_ros.cli.main']


def started(arguments: Sequence[str | bytes], **environment: str
            ) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=LIMIT_S,
                          check=False, env={**os.environ, **environment})


def test_a_mistake_is_one_line_of_a_process():
    done = started(['match', b'\xff\n.png', 'right.png'], LC_ALL='C.UTF-8')
    assert done.returncode == 2
    assert b'\\udcff .png cannot be read' in done.stderr
    assert done.stderr.count(b'\n') == 1


@pytest.mark.parametrize(('variable', 'value', 'status'), [
    ('NUMBA_NUM_THREADS', '0', 2), ('NUMBA_DISABLE_JIT', '1', 2),
    *slow(('NUMBA_NUM_THREADS', 'abc', 2), ('NUMBA_DISABLE_JIT', '0', 0))])
def test_a_variable_of_numba_that_cannot_be_is_one_line(variable, value, status, tmp_path,
                                                        write_pair):
    names = [str(write_pair(tmp_path) / f'{side}.png') for side in ('left', 'right')]
    done = started(['match', *names, '-o', str(tmp_path / 'out.pfm'), '--backend', 'cpu', '--set',
                    'stereo_algorithm=sad'], **{variable: value})
    assert done.returncode == status, done.stderr
    assert (f'{variable} is '.encode() in done.stderr) == bool(status)
    assert status == 0 or done.stderr.count(b'\n') == 1


#: A program that begins with few addresses, as a service with LimitAS.
FEW_ADDRESSES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({mebibytes} << 20, {mebibytes} << 20))
from stereo_bp_ros.{module} import main
sys.exit(main({arguments}))
"""


@pytest.mark.parametrize(('mebibytes', 'module', 'arguments'), [
    (300, 'cli.main', "['match', 'a', 'b']"), (1000, 'node.main', '[]'), (1700, 'node.main', '[]'),
    *slow((1000, 'cli.main', "['match', 'a', 'b']"), (300, 'node.main', '[]'))])
def test_too_few_addresses_are_one_line(mebibytes, module, arguments):
    """OpenCV and ROS end the process while they are imported; ROS where it gets no thread."""
    if module == 'node.main' and importlib.util.find_spec('rclpy') is None:
        pytest.skip('the node needs rclpy')
    done = subprocess.run(
        [sys.executable, '-c', FEW_ADDRESSES.format(mebibytes=mebibytes, module=module,
                                                    arguments=arguments)],
        capture_output=True, timeout=LIMIT_S, check=False,
        env={**os.environ, 'OPENBLAS_NUM_THREADS': '1'})
    assert done.returncode == 2, done.stderr
    assert f'may use {mebibytes} MiB of addresses (RLIMIT_AS)'.encode() in done.stderr
    assert done.stderr.count(b'\n') == 1


@pytest.mark.parametrize(('error', 'words'), [
    (ImportError('libx.so: failed to map segment'), 'cannot be loaded: libx.so: failed to map'),
    (RuntimeError("can't start new thread"), "not enough memory, or a limit of processes is "
                                             "reached: can't start new thread"),
    (DeprecationWarning('old is old'), 'a warning is an error here (-W, PYTHONWARNINGS): old is')])
def test_a_library_or_a_thread_that_cannot_be_had_is_one_line(error, words, monkeypatch, capsys):
    def fail(_: object) -> None:
        raise error
    monkeypatch.setattr(main, '_parse', fail)
    assert main.main(['info']) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize('arguments', ['info', *slow('--help')])
def test_a_reader_that_goes_is_no_error(arguments):
    child = subprocess.Popen([*COMMAND, arguments], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.close()
    try:
        _, err = child.communicate(timeout=LIMIT_S)
    finally:
        child.kill()
    assert err == b''
    assert child.returncode in (0, main.BROKEN_PIPE)


#: The program, which makes a file of this name when it has matched once.
MATCHING = """
import pathlib, sys
from stereo_bp_ros import StereoMatcher
from stereo_bp_ros.cli import main

def compute(self, *pair, of=StereoMatcher.compute, **options):
    frame = of(self, *pair, **options)
    pathlib.Path(sys.argv[1]).touch()
    return frame

StereoMatcher.compute = compute
sys.exit(main.main(sys.argv[2:]))
"""


def test_an_interruption_says_nothing(tmp_path, write_pair):
    names = [str(write_pair(tmp_path) / f'{side}.png') for side in ('left', 'right')]
    arguments = ['match', *names, '--backend', 'cpu', '--set', 'stereo_algorithm=sad', '-o',
                 str(tmp_path / 'out.pfm'), '--repeat']
    assert main.main([*arguments, '1']) == 0        # compiles, which is said
    matched = tmp_path / 'matched'
    child = subprocess.Popen([sys.executable, '-c', MATCHING, matched, *arguments, '10000000'],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        while not matched.exists():
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=LIMIT_S)
    finally:
        child.kill()
    assert (child.returncode, out, err) == (process.INTERRUPTED, b'', b'')


def test_an_interruption_in_a_function_that_c_has_called_is_not_lost():
    interrupt = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
    start = time.monotonic()
    with main.interruptions_kept():
        interrupt()             # as llvmlite's notification of loaded code
        with pytest.raises(KeyboardInterrupt):
            time.sleep(LIMIT_S)
    assert time.monotonic() - start < LIMIT_S / 2


@pytest.mark.parametrize('closed', ['>&- 2>&-', '>/dev/full'])
def test_output_that_cannot_be_written_ends_in_a_status(closed):
    done = subprocess.run(['sh', '-c', f'exec "$@" {closed}', 'sh', *COMMAND, 'info'],
                          capture_output=True, timeout=LIMIT_S, check=False)
    assert done.returncode == (2 if 'full' in closed else 0)
    assert b'Traceback' not in done.stderr
    assert b'Exception' not in done.stderr


@pytest.mark.parametrize(('verb', 'lacking', 'extra'), [
    (('demo',), 'rclpy', 'ros'), (('replay', 'nothing'), 'rclpy', 'ros'),
    (('replay', 'nothing'), 'rosbags', 'evaluation'),
    (('evaluate', 'x.mcap'), 'rosbags', 'evaluation'),
    (('evaluate', 'x.mcap'), 'mcap', 'evaluation')])
def test_a_verb_that_cannot_run_here_says_what_it_needs(
        tmp_path, monkeypatch, write_pair, verb, lacking, extra):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'x.mcap').touch()
    write_pair(tmp_path / 'pair')
    find = importlib.util.find_spec
    monkeypatch.setattr('importlib.util.find_spec',
                        lambda name, *rest: None if name == lacking else find(name, *rest))
    for name in {lacking, *(name for name in sys.modules if name.startswith(f'{lacking}.'))}:
        monkeypatch.setitem(sys.modules, name, None)    # what importing a missing module does
    if verb[0] != 'evaluate':
        status, out, _ = run(verb[0], '--help')
        assert status == 0
        assert f'usage: stereo_bp {verb[0]} ' in out
        assert f'{verb[0]} cannot run here: it needs {lacking}' in ' '.join(out.split())
    status, _, err = run(*verb)
    assert (status, err.count('\n')) == (2, 1)
    assert lacking in err
    assert f"extra '{extra}'" in err
