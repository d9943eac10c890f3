"""A cluster of Dask as docs/howto/evaluate_many.md starts it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

pytest.importorskip('numba')
distributed = pytest.importorskip('distributed')
pytest.importorskip('rosbags')

from stereo_bp_ros.evaluation import files  # noqa: E402
from test.evaluation.test_scale import COMMAND, scores  # noqa: E402

pytestmark = pytest.mark.slow

REPOSITORY = pathlib.Path(__file__).parents[2]
#: Seconds until processes answer, on a machine that does other work.
LIMIT = 120.0


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


@pytest.mark.skipif(not shutil.which('openssl'), reason='there is no command openssl')
def test_workers_that_commands_of_dask_start_give_the_figures_of_one_process(
        tmp_path: pathlib.Path,
        textured_pair: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    pairs = tmp_path / 'pairs'
    for index in range(12):
        for side, image in zip(('left', 'right'), textured_pair(64, 48, 3 + index % 5, index),
                               strict=True):
            (pairs / side).mkdir(parents=True, exist_ok=True)
            files.write_image(pairs / side / f'{index}.png', image)
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
        found = evaluated(pairs, '--scheduler', address, environment=environment)
        with pytest.raises(OSError, match=r'closed|Timed out'):
            distributed.Client(address.replace('tls', 'tcp'), timeout=5).close()
    alone = evaluated(pairs, '--set', 'num_threads=1')
    assert found['scheduler'] == address
    assert found['settings']['num_threads'] == 1
    assert scores(found) == scores(alone)
