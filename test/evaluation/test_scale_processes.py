"""How an evaluation over processes ends."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from test.cases import slow

pytest.importorskip('numba')
psutil = pytest.importorskip('psutil')
pytest.importorskip('rosbags')

from stereo_bp_ros.images import files  # noqa: E402
from test.evaluation.test_scale import COMMAND, workers_of  # noqa: E402
from test.node.processes import LIMIT  # noqa: E402


@pytest.fixture
def folder(tmp_path: pathlib.Path, textured_pair: Callable[..., tuple]) -> pathlib.Path:
    """12 pairs."""
    for index in range(12):
        for side, image in zip(('left', 'right'), textured_pair(64, 48, 3 + index % 5, index),
                               strict=True):
            (tmp_path / 'pairs' / side).mkdir(parents=True, exist_ok=True)
            files.write_image(tmp_path / 'pairs' / side / f'pair{index}.png', image)
    return tmp_path / 'pairs'


def is_so(when: Callable[[psutil.Process], bool], worker: psutil.Process) -> bool:
    """Whether the process is where the test wants it; False where it has just ended."""
    try:
        return when(worker)
    except (psutil.Error, FileNotFoundError):   # psutil lets the file's error through
        return False


def starts(worker: psutil.Process) -> bool:
    return True


def loads_numba(worker: psutil.Process) -> bool:
    return any('llvmlite' in one.path for one in worker.memory_maps())


def matches(worker: psutil.Process) -> bool:
    """One pair for years: it has computed for longer than loading takes."""
    return loads_numba(worker) and worker.cpu_times().user > 5


@pytest.mark.parametrize(('how', 'when'), [
    (signal.SIGINT, matches), *slow(
        (signal.SIGKILL, matches), (signal.SIGINT, starts), (signal.SIGINT, loads_numba))])
def test_an_end_leaves_no_process_behind(folder, how, when):
    command = subprocess.Popen([*COMMAND, str(folder), '--workers', '2', '--repeat', '100000000'],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        parent = psutil.Process(command.pid)
        while not any(is_so(when, worker) for worker in workers_of(parent)):
            assert command.poll() is None
            time.sleep(0.05)
        children = parent.children(recursive=True)
        # A terminal interrupts all of them at once.
        (os.killpg if how == signal.SIGINT else os.kill)(command.pid, how)
        _, err = command.communicate()
    finally:
        command.kill()
    if how == signal.SIGINT:
        assert command.returncode == 130
        assert [line for line in err.splitlines() if 'compiling kernels' not in line] == []
    assert psutil.wait_procs(children, timeout=LIMIT)[1] == []
