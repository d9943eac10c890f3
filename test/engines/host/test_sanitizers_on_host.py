"""``make sanitize``: AddressSanitizer and UndefinedBehaviorSanitizer see what kernels do."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from test.engines.support import host_cuda

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++')]

#: A kernel of 32 threads, each with a stack of its own, over an array of an arena.
PROGRAM = """
import ctypes, pathlib, sys
from stereo_bp_ros.geometry import MemoryPlan
from test.engines.support import host_cuda
from test.engines.support.host_arena import HostArena

arena = HostArena(MemoryPlan.lay_out([('a', (256,), 'int32'), ('b', (256,), 'int32')]))
library = host_cuda.compiled(r'extern "C" void run(int* a, int n, int shift) {'
    ' HostBlock(32).run({}, {}, [&] { a[int(threadIdx.x) + n] = 1 << shift; __syncthreads(); });'
    ' }',
    pathlib.Path(sys.argv[1]))
library.run(ctypes.c_void_p(arena.device['a']), int(sys.argv[2]), int(sys.argv[3]))
print('ran')
"""


@pytest.mark.parametrize(('offset', 'shift', 'found'), [
    ('0', '0', ''), ('224', '0', ''), ('225', '0', 'heap-buffer-overflow'),
    ('-1', '0', 'heap-buffer-overflow'), ('0', '32', 'shift exponent 32 is too large')])
def test_an_access_beside_an_array_and_undefined_behaviour_end_the_process(
        offset: str, shift: str, found: str, tmp_path: pathlib.Path,
        repository: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, '-c', PROGRAM, str(tmp_path), offset, shift], cwd=repository,
        capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, 'PYTHONPATH': str(repository), **host_cuda.sanitized_environment()})
    assert (done.returncode == 0) == (not found), done.stderr
    assert ('ran' in done.stdout) == (not found)
    assert found in done.stderr
