"""``make sanitize``: the sanitizers of GCC see what kernels do."""

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
import ctypes, sys
from stereo_bp_ros.engines.geometry import MemoryPlan
from test.engines.support import host_cuda
from test.engines.support.host_arena import HostArena

arena = HostArena(MemoryPlan.lay_out([('a', (256,), 'int32'), ('b', (256,), 'int32')]))
library = host_cuda.compiled(r'extern "C" void run(int* a, int n, int shift) {'
    ' HostBlock(32).run({}, {}, [&] { a[int(threadIdx.x) + n] = 1 << shift; __syncthreads(); });'
    ' }')
library.run(ctypes.c_void_p(arena.device['a']), int(sys.argv[1]), int(sys.argv[2]))
print('ran')
"""


@pytest.mark.parametrize(('offset', 'shift', 'found'), [
    ('0', '0', ''), ('224', '0', ''), ('225', '0', 'heap-buffer-overflow'),
    ('-1', '0', 'heap-buffer-overflow'), ('0', '32', 'shift exponent 32 is too large')])
def test_an_access_beside_an_array_and_undefined_behaviour_end_the_process(
        offset: str, shift: str, found: str, repository: pathlib.Path) -> None:
    done = python(PROGRAM, offset, shift, repository=repository)
    assert (done.returncode == 0) == (not found), done.stderr
    assert ('ran' in done.stdout) == (not found)
    assert found in done.stderr


def python(program: str, *arguments: object, repository: pathlib.Path,
           sanitizers: str = 'address,undefined') -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, '-c', program, *map(str, arguments)], cwd=repository,
        capture_output=True, text=True, timeout=400, check=False,
        env={**os.environ, 'PYTHONPATH': str(repository),
             **host_cuda.sanitized_environment(sanitizers)})


#: Two blocks of 64 threads, one after the other, run a body on shared memory and on an array.
BODY = """
import ctypes, sys
from test.engines.support import host_cuda

library = host_cuda.compiled('extern "C" void run(unsigned* a) { HostBlock block(64);'
    'for (unsigned x = 0; x < 2; ++x) block.run({x, 0, 0}, {2, 1, 1}, [&] {'
    '    unsigned* const s = reinterpret_cast<unsigned*>(host_shared);'
    '    const unsigned i = threadIdx.x;' + sys.argv[1] + '}); }')
library.run((ctypes.c_uint * 256)())
print('ran')
"""

#: Thread 0 tells thread 40 of what it has written.
TELL = """if (i == 0) {{ a[100] = 1; {fence} atomicAdd(a, 1u); }}
    if (i == 40) {{ while (host_load(a) <= blockIdx.x) host_yield(); {other_fence} ++a[100]; }}"""


@pytest.mark.parametrize(('body', 'is_race'), [
    ('s[i] = i; __syncthreads(); a[i] = s[63 - i];', False),
    ('s[i] = i; __syncthreads(); a[i] = s[63 - i]; s[i] = 0;', True),
    ('s[i] = i; __syncwarp(); a[i] = s[i ^ 1];', False),
    ('s[i] = i; __syncwarp(); a[i] = s[i ^ 32];', True),
    # CUDA has no order of memory there.
    ('s[i] = i; __shfl_sync(~0u, i, 0); a[i] = s[i ^ 1];', True),
    ('s[i] = i; a[i] = __syncthreads_count(s[i]); a[i] += s[63 - i];', False),
    ('atomicAdd(a + i % 2, 1u);', False),
    ('atomicAdd(a, 1u); if (i == 5) ++a[0];', True),
    (TELL.format(fence='__threadfence();', other_fence='__threadfence();'), False),
    (TELL.format(fence='', other_fence='__threadfence();'), True),
    (TELL.format(fence='__threadfence();', other_fence=''), True)])
def test_a_race_between_threads_ends_the_process(body: str, is_race: bool,
                                                 repository: pathlib.Path) -> None:
    done = python(BODY, body, repository=repository, sanitizers='thread')
    assert (done.returncode == 0) != is_race, done.stderr
    assert ('ran' in done.stdout) != is_race
    assert ('ThreadSanitizer: data race' in done.stderr) == is_race, done.stderr


#: Runs a test without a part of the kernels' text.
WITHOUT = """
import sys
import pytest
from test.engines.support import host_cuda

source, removed = host_cuda.source, sys.argv[1]
if removed:
    host_cuda.source = lambda *files: source(*files).replace(removed, '')
sys.exit(pytest.main(['-q', '-s', '-p', 'no:cacheprovider', sys.argv[2]]))
"""


@pytest.mark.parametrize('removed', ['', '__syncthreads();', '__syncwarp();'])
@pytest.mark.parametrize('test', [
    'test_refine_on_host.py::test_contrast_is_that_of_the_cpu',
    'test_costs_on_host.py::test_coarse_costs_are_cut_at_four_truncations'])
def test_a_barrier_that_is_missing_in_a_kernel_is_found(test: str, removed: str,
                                                        repository: pathlib.Path) -> None:
    done = python(WITHOUT, removed, f'test/engines/host/{test}', repository=repository,
                  sanitizers='thread')
    uses_it = bool(removed) and not (removed == '__syncwarp();' and 'contrast' in test)
    assert (done.returncode == 0) != uses_it, done.stdout + done.stderr
    assert ('ThreadSanitizer: data race' in done.stderr) == uses_it, done.stderr
