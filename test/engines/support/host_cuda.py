"""The kernels as C++ on the host: no GPU, no NVRTC.

A stack stands for a CUDA thread; warps exchange values, and blocks wait, by barriers. What is
written in PTX is replaced by name, see ``BODIES``; everything else is the kernels' own source.

With STEREO_BP_SANITIZE it is compiled with these sanitizers of GCC: see ``make sanitize``.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from stereo_bp_ros.engines import cache
from stereo_bp_ros.engines.cuda.runtime.compiler import KERNELS

HERE = pathlib.Path(__file__).parent

#: Seconds that a library stays which no test has used.
KEPT_FOR = 7 * 24 * 3600

#: Functions that have PTX in them: their bodies here.
BODIES = {
    'uint32 permute_signed(': 'return host_permute(a, b, selectors);',
    'uint64 time_in_ns()': 'return 0;',
    'void stamp_last(': '',
    'void copy_unit(': '*to = *from;',
    'void copied()': '',
    'int hide_from_optimiser(': 'return colour;',
    'Word least_small(Word a, Word b)': 'return least(a, b);',
    'void load_relaxed(': 'for (int i = 0; i < COUNT; ++i) to[i] = host_load(from + i); '
                          'host_yield();',
    'void store_relaxed(': 'for (int i = 0; i < COUNT; ++i) host_store(to + i, from[i]);',
    'void wait_for_block()': '__syncthreads();',
    'uint32 load_acquire(': 'host_yield(); const uint32 seen = host_load(at); host_acquire(at); '
                            'return seen;',
}

LAUNCH = """
extern "C" void run_NUMBER(const void* argument, const unsigned* grid, const unsigned* block,
                           int shared_bytes, int more) {
    host_launch(&KERNEL, argument, grid, block, shared_bytes, more);
}
"""
THREE = ctypes.c_uint * 3
NOTHING_MORE = ctypes.c_int(0)

#: By what GCC calls each sanitizer.
LIBRARIES = {'address': 'libasan.so', 'undefined': 'libubsan.so', 'thread': 'libtsan.so'}

RUN = """
extern "C" void run(const TiledLaunch* launch, int blocks, int threads, int shared_bytes,
                    int first, int end) {
    std::vector<std::vector<uint4>> shared(blocks, std::vector<uint4>(shared_bytes / 16 + 1));
    std::vector<HostBarrier> barriers(blocks, HostBarrier{threads});
    std::vector<int> said(blocks);
    std::vector<HostWarp> warps(blocks * threads / 32);
    host_grid = {blocks * threads};
    for (auto& one : shared) std::memset(one.data(), 0x5b, 16 * one.size());       // rubbish
    HostThreads(blocks * threads).run([&] { KERNEL; }, [&](int i, HostThread& thread) {
        const int block = i / threads;
        thread.thread = {unsigned(i % threads), 0, 0};
        thread.block = {unsigned(block), 0, 0};
        thread.block_size = {unsigned(threads), 1, 1};
        thread.grid = {unsigned(blocks), 1, 1};
        thread.dynamic_shared = shared[block].data();
        thread.threads_of_block = &barriers[block];
        thread.said = &said[block];
        thread.warp = &warps[i / 32];
    });
}
"""


def build(file: str, kernel: str) -> ctypes.CDLL:
    """Compile one kernel of a file, with its template arguments; ``run`` launches it.

    :raises CalledProcessError: it does not compile.
    """
    steps = ', first, end' if kernel.startswith('visit_diagonals') else ''
    call = f'{kernel}(*launch{steps})'
    return compiled(source(file) + RUN.replace('KERNEL', call))


class HostKernel(NamedTuple):
    """A kernel as ``compiler.kernel`` returns it, on the host."""

    run: Any

    def launch(self, _stream: int, grid: tuple[int, int, int], block: tuple[int, int, int],
               shared_bytes: int, argument: ctypes.Structure,
               more: ctypes.c_int = NOTHING_MORE) -> None:
        assert block[2] == 1
        self.run(ctypes.byref(argument), THREE(*grid), THREE(*block), shared_bytes, more)


class HostKernels:
    """In place of ``compiler``: kernels whose threads run side by side, blocks in turn."""

    def __init__(self) -> None:
        self._kernels: dict[tuple[str, str], HostKernel] = {}

    def load(self, *names: tuple[str, str]) -> None:
        """Compile kernels, each a file and a name, together: most of the time is the headers."""
        missing = [name for name in names if name not in self._kernels]
        if missing:
            library = compiled(source(*sorted({file for file, _ in missing})) + ''.join(
                LAUNCH.replace('NUMBER', str(number)).replace('KERNEL', name)
                for number, (_, name) in enumerate(missing)))
            self._kernels.update((name, HostKernel(library[f'run_{number}']))
                                 for number, name in enumerate(missing))

    def load_apart(self, names: Iterable[tuple[str, str]]) -> None:
        """Those of one file together, for files that declare the same."""
        for _, of_file in itertools.groupby(sorted(names), lambda name: name[0]):
            self.load(*of_file)

    def kernel(self, _device: Any, file: str, name: str) -> HostKernel:
        self.load((file, name))
        return self._kernels[file, name]


def source(*files: str) -> str:
    """Files of the kernels, with all that they include, for the host."""
    seen: set[str] = set()
    text = _with_bodies(''.join(_expanded(file, seen) for file in files))
    for start, line in ((' +', r'\1* const \2 = reinterpret_cast<\1*>(host_shared);'),
                        ('', r'#define \2 (reinterpret_cast<\1*>(host_shared))')):
        text = re.sub(rf'^{start}extern __shared__ (\w+) (\w+)\[\];$', line, text,
                      flags=re.MULTILINE)
    return text


def compiled(text: str) -> ctypes.CDLL:
    """Compile C++ that may use what CUDA has, or load what an earlier run made of the same.

    Libraries are kept in the user's cache under a digest of all that they are made of.

    :raises CalledProcessError: it does not compile.
    """
    headers = [path.read_text() for path in sorted(HERE.glob('*.h'))]
    options = ['-std=c++17', '-O1', '-w', '-shared', '-fPIC', *sanitizing()]
    key = '\0'.join([text, *headers, *options, _compiler()])
    folder = cache.open_directory('host_kernels')
    library = folder / f'{hashlib.sha256(key.encode()).hexdigest()[:32]}.so'
    if library.exists():
        os.utime(library)
        return ctypes.CDLL(str(library))
    for other in folder.glob('*.so'):
        if time.time() - other.stat().st_mtime > KEPT_FOR:
            other.unlink(missing_ok=True)
    # Processes side by side make the same: each writes files of its own, and the last one wins.
    with tempfile.TemporaryDirectory(dir=folder) as place:
        source, made = pathlib.Path(place, 'kernel.cpp'), pathlib.Path(place, 'kernel.so')
        source.write_text('#include "host_cuda.h"\n' + text)
        subprocess.run(['g++', *options, f'-I{HERE}', source, '-o', made], check=True,
                       capture_output=True, text=True, timeout=600)
        made.replace(library)
    return ctypes.CDLL(str(library))


@functools.cache
def _compiler() -> str:
    return subprocess.run(['g++', '--version'], check=True, capture_output=True, text=True).stdout


def sanitizing() -> list[str]:
    """Options of the compiler for the sanitizers of STEREO_BP_SANITIZE, as 'address,undefined'."""
    chosen = os.environ.get('STEREO_BP_SANITIZE')
    return [f'-fsanitize={chosen}', '-fno-sanitize-recover=all', '-g',
            '-fno-omit-frame-pointer'] if chosen else []


def sanitized_environment(chosen: str = 'address,undefined') -> dict[str, str]:
    """Variables of a process whose kernels run under these sanitizers.

    Python is built without them: their libraries have to be loaded first, with the C++ library,
    whose functions they replace. Python's own leaks and races are not looked for.
    """
    libraries = [subprocess.run(['g++', f'-print-file-name={name}'], check=True, text=True,
                                capture_output=True).stdout.strip()
                 for name in (*(LIBRARIES[one] for one in chosen.split(',')), 'libstdc++.so')]
    return {'STEREO_BP_SANITIZE': chosen, 'LD_PRELOAD': ' '.join(libraries),
            'ASAN_OPTIONS': 'detect_leaks=0', 'UBSAN_OPTIONS': 'print_stacktrace=1',
            'TSAN_OPTIONS': 'halt_on_error=1:ignore_noninstrumented_modules=1'}


def _expanded(file: str, seen: set[str]) -> str:
    """A source file with all that it includes, each once."""
    def include(found: re.Match[str]) -> str:
        name = found.group(1)
        if name in seen:
            return ''
        seen.add(name)
        return _expanded(name, seen)
    text = (KERNELS / file).read_text(encoding='utf-8')
    text = re.sub(r'^#pragma.*$', '', text, flags=re.MULTILINE)
    return re.sub(r'^#include "(.*)"$', include, text, flags=re.MULTILINE)


def _with_bodies(text: str) -> str:
    for start, body in BODIES.items():
        if start not in text:
            continue
        begin = text.index('{', text.index(start))
        depth, end = 1, begin + 1
        while depth:
            depth += {'{': 1, '}': -1}.get(text[end], 0)
            end += 1
        text = f'{text[:begin]}{{ {body} }}{text[end:]}'
    return text


if __name__ == '__main__':          # make sanitize: the sanitizers, then arguments of pytest
    # What a sanitizer says as it ends a process is not to be captured.
    os.execvpe(sys.executable, [sys.executable, '-m', 'pytest', '--capture=sys', *sys.argv[2:]],
               {**os.environ, **sanitized_environment(sys.argv[1])})
