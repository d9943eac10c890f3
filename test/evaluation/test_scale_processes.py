"""Commands of processes: a cluster as docs/howto/evaluate_many.md starts it, and how one ends."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from test.cases import slow

pytest.importorskip('numba')
distributed = pytest.importorskip('distributed')
pytest.importorskip('cryptography')
psutil = pytest.importorskip('psutil')
pytest.importorskip('rosbags')

from stereo_bp_ros import files  # noqa: E402
from test.evaluation.test_scale import COMMAND, scores, workers_of  # noqa: E402

REPOSITORY = pathlib.Path(__file__).parents[2]
#: Seconds until processes answer, on a machine that does other work.
LIMIT = 120.0


@pytest.fixture
def folder(tmp_path: pathlib.Path, textured_pair: Callable[..., tuple]) -> pathlib.Path:
    """12 pairs."""
    for index in range(12):
        for side, image in zip(('left', 'right'), textured_pair(64, 48, 3 + index % 5, index),
                               strict=True):
            (tmp_path / 'pairs' / side).mkdir(parents=True, exist_ok=True)
            files.write_image(tmp_path / 'pairs' / side / f'{index}.png', image)
    return tmp_path / 'pairs'


@contextlib.contextmanager
def running(folder: pathlib.Path, environment: dict[str, str], *words: str
            ) -> Iterator[subprocess.Popen[bytes]]:
    """A command of Dask, ended as by a service manager."""
    dask = pathlib.Path(sys.executable).parent / 'dask'
    if not dask.exists():
        pytest.skip('there is no command dask beside this Python')
    with open(folder / f'{words[0]}.log', 'wb') as log:
        process = subprocess.Popen([str(dask), *words], stdout=log, stderr=log, cwd=folder,
                                   env=environment)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(is_there: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not is_there():
        assert time.monotonic() < end
        time.sleep(0.05)


def evaluated(*arguments: object, environment: dict[str, str] | None = None) -> dict:
    done = subprocess.run([*COMMAND, *map(str, arguments), '--json'], capture_output=True,
                          text=True, timeout=LIMIT, check=False, env=environment)
    # A busy machine takes so long that the progress is told.
    assert [line for line in done.stderr.splitlines() if 'frames/s' not in line] == []
    assert done.returncode == 0
    return json.loads(done.stdout)


def write_keys(folder: pathlib.Path) -> pathlib.Path:
    """Keys and configuration as the page says; returns the configuration of Dask."""
    page = (REPOSITORY / 'docs/howto/evaluate_many.md').read_text(encoding='utf-8')
    openssl, = re.findall('^openssl .*$', page, re.MULTILINE)
    subprocess.run(openssl.split(), cwd=folder, check=True, stderr=subprocess.DEVNULL)
    text, = re.findall('^```yaml\n(.*?)^```', page, re.MULTILINE | re.DOTALL)
    (folder / 'dask.yaml').write_text(text.replace('/home/me/keys', str(folder)))
    return folder / 'dask.yaml'


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which('openssl'), reason='there is no command openssl')
def test_workers_that_commands_of_dask_start_give_the_figures_of_one_process(tmp_path, folder):
    told = tmp_path / 'scheduler.json'
    environment = {**os.environ, 'DASK_CONFIG': str(write_keys(tmp_path))}
    here = ('--host', '127.0.0.1', '--no-dashboard', '--scheduler-file', str(told))
    with (running(tmp_path, environment, 'scheduler', '--port', '0', *here),
          running(tmp_path, environment, 'worker', '--nworkers', '2', '--nthreads', '1',
                  '--local-directory', str(tmp_path), *here)):
        wait_for(told.exists)
        wait_for(lambda: told.read_text(encoding='utf-8').rstrip().endswith('}'))
        address = json.loads(told.read_text(encoding='utf-8'))['address']
        assert address.startswith('tls://')
        found = evaluated(folder, '--scheduler', address, environment=environment)
        with pytest.raises(OSError, match=r'closed|Timed out'):
            distributed.Client(address.replace('tls', 'tcp'), timeout=5).close()
    alone = evaluated(folder, '--set', 'num_threads=1')
    assert found['scheduler'] == address
    assert found['settings']['num_threads'] == 1
    assert scores(found) == scores(alone)


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
        deadline = time.monotonic() + 60
        while not any(is_so(when, worker) for worker in workers_of(parent)):
            assert time.monotonic() < deadline
            assert command.poll() is None
            time.sleep(0.05)
        children = parent.children(recursive=True)
        # A terminal interrupts all of them at once.
        (os.killpg if how == signal.SIGINT else os.kill)(command.pid, how)
        _, err = command.communicate(timeout=20)
    finally:
        command.kill()
    if how == signal.SIGINT:
        assert command.returncode == 130
        assert [line for line in err.splitlines() if 'compiling kernels' not in line] == []
    assert psutil.wait_procs(children, timeout=30)[1] == []
