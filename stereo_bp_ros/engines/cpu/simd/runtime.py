"""Numba as this engine uses it: kernels, their cache on disk, and threads.

Kernels release the GIL and divide as NumPy does. Processes that use them are spawned, never
forked: neither TBB nor OpenMP survives a fork.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import glob
import hashlib
import importlib.metadata
import logging
import os
import pathlib
import pickle
import platform
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite
import llvmlite.binding
import numba
import numpy as np
from numba.core import caching, compiler, serialize
from numba.extending import overload

from stereo_bp_ros.engines import cache
from stereo_bp_ros.engines.compiling import Progress
from stereo_bp_ros.engines.cpu.simd import sources, target

#: Caches of this many compilers, and files of this many versions of a kernel, stay on disk: the
#: latest used ones.
CACHES_KEPT = 4

_settings: Any = numba.config
_log = logging.getLogger(__name__)
_kernels: list[Any] = []
_origins: collections.Counter[str] = collections.Counter()
_one_frame_at_a_time = threading.Lock()
_progress = Progress('about a minute')


def kernel(function: Callable[..., Any] | None = None, *,
           of: Callable[..., Any] | None = None, **options: Any) -> Any:
    """``numba.njit`` with what every kernel here has; bare, or with further options.

    Compiled code is kept in ``cache_directory()`` when there is one.

    :param of: the function whose sources decide, where ``function`` only calls it.
    """
    if function is None:
        return functools.partial(kernel, of=of, **options)
    # C calls none of them: its wrappers would take time to compile.
    compiled = numba.njit(nogil=True, error_model='numpy', no_cfunc_wrapper=True,
                          **options)(function)
    compiled._cache = _KernelCache(of or function)
    _kernels.append(compiled)
    return compiled


def by_types(choose: Callable[..., Any]) -> Any:
    """A function of kernels whose body ``choose`` returns from the types of the arguments."""
    def stub(*args: Any) -> Any:
        raise TypeError('for kernels only')

    overload(stub, strict=False)(choose)     # annotations need not be the same
    return stub


def compiled_signatures() -> int:
    """How many variants of all kernels this process has compiled or loaded so far."""
    return sum(len(known.signatures) for known in _kernels)


# --- the cache on disk

class _KernelCache(caching.FunctionCache):
    """The compiled code of one function on disk, a file for each of its signatures.

    In place of Numba's own files, which it reads without a check: a damaged one, and any that
    cannot be written, would end whatever is compiled.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        # Numba's own would look for a directory of its own here.
        self._py_func = function

    @property
    def cache_path(self) -> str | None:
        """The directory, for Numba's statistics."""
        directory = cache_directory()
        return None if directory is None else str(directory)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function; None = it has to be compiled."""
        target_context.refresh()
        file = self._file(sig, target_context.codegen())
        content = None if file is None else cache.read(file)
        if file is not None and content is not None:
            # Numba starts the threads for kernels with a parallel loop of their own alone.
            numba.get_num_threads()
            try:
                loaded = compiler.CompileResult._rebuild(target_context, *pickle.loads(content))
                _origins['disk'] += 1
                with contextlib.suppress(OSError):      # a read-only cache
                    os.utime(file)
                return loaded
            except Exception as error:
                cache.set_aside(file, repr(error))
        _progress.begin(cache_directory())
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a function that was just compiled, if it is of use to another process."""
        _origins['compiled'] += 1
        _progress.end(cache_directory())
        file = self._file(sig, data.codegen)
        if (file is not None and not data.lifted and not data.library.has_dynamic_globals
                and cache.write(file, serialize.dumps(data._reduce()))):
            _origins['kept'] += 1
            _prune_versions(file)

    def flush(self) -> None:
        """Nothing: what is compiled anew replaces the file."""

    def _file(self, sig: Any, codegen: Any) -> pathlib.Path | None:
        directory, code = cache_directory(), self._py_func.__code__
        source = sources.digest(code.co_filename, self._py_func.__qualname__.partition('.')[0])
        if directory is None or source is None:
            return None
        key = hashlib.sha256(repr((self._index_key(sig, codegen), source)).encode()).hexdigest()
        name = f'{pathlib.Path(code.co_filename).stem}.{self._py_func.__name__}'
        return directory / f'{name[:100]}-{code.co_firstlineno}-{source[:16]}-{key[:32]}.nbc'


def origins() -> dict[str, int]:
    """How many kernels this process has 'compiled', 'kept' of these, and found on the 'disk'."""
    return {name: _origins[name] for name in ('compiled', 'kept', 'disk')}


@functools.cache
def cache_directory() -> pathlib.Path | None:
    """Where compiled kernels are kept, or None (with one logged warning) without such a place.

    ``stereo_bp_ros/numba/<hash>`` as ``cache.open_directory`` makes it. The hash covers versions
    and the processor; the name of a file the sources of its kernel.
    """
    try:
        parent = cache.open_directory('numba')
        is_new = not (parent / compiler_hash()).exists()
        directory = cache.open_directory('numba', compiler_hash())
    except (OSError, RuntimeError) as error:
        _log.warning('no cache for compiled kernels, every process compiles them anew: %s', error)
        return None
    with contextlib.suppress(OSError):      # a read-only cache needs neither
        os.utime(directory)
        if is_new:
            _prune(parent)
    return directory


def compiler_hash() -> str:
    """Digest of what compiled code depends on besides its sources."""
    digest = hashlib.sha256()
    for part in (numba.__version__, np.__version__, llvmlite.__version__,
                 platform.python_version(), *target.description()):
        digest.update(part.encode() + b'\0')
    return digest.hexdigest()[:32]


def _prune(parent: pathlib.Path) -> None:
    """Remove the caches used longest ago; a process that still needs one makes it again."""
    caches = sorted((entry for entry in parent.iterdir() if entry.is_dir()),
                    key=lambda entry: entry.stat().st_mtime, reverse=True)
    for old in caches[CACHES_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def _prune_versions(file: pathlib.Path) -> None:
    """Remove files of a kernel whose sources are those used longest ago.

    :param file: of one that was just written.
    """
    kernel_name = file.name.rsplit('-', 3)[0]
    versions: dict[str, list[tuple[float, pathlib.Path]]] = {}
    for other in file.parent.glob(f'{glob.escape(kernel_name)}-*.nbc'):
        with contextlib.suppress(OSError):      # another process was faster
            versions.setdefault(other.name.rsplit('-', 2)[1], []).append(
                (other.stat().st_mtime, other))
    for old in sorted(versions.values(), key=max, reverse=True)[CACHES_KEPT:]:
        for _, other in old:
            with contextlib.suppress(OSError):
                other.unlink()


# --- threads

@contextlib.contextmanager
def frame(num_threads: int) -> Iterator[int]:
    """Context in which the calling thread may run parallel kernels; yields their thread count.

    :param num_threads: wanted threads, 0 = all; at most ``maximum_threads()`` are taken.

    Numba's ``workqueue`` layer aborts the process when two threads run parallel kernels, so
    frames then wait for each other. With the other layers they run side by side.
    """
    threads = min(num_threads or maximum_threads(), maximum_threads())
    alone = (_one_frame_at_a_time if threading_layer() == 'workqueue'
             else contextlib.nullcontext())
    with alone:
        previous = numba.get_num_threads()
        numba.set_num_threads(threads)
        try:
            yield threads
        finally:
            numba.set_num_threads(previous)


def maximum_threads() -> int:
    """Threads of Numba's pool: the cores this process may use, or NUMBA_NUM_THREADS."""
    return int(_settings.NUMBA_NUM_THREADS)


def threading_layer() -> str:
    """Numba's threading layer in this process: 'tbb', 'omp' or 'workqueue'."""
    numba.get_num_threads()         # starts the pool, which is what chooses the layer
    return str(numba.threading_layer())


def device_info(num_threads: int) -> dict[str, str]:
    """What computes and how, for people; ``num_threads`` as for ``frame``."""
    return {'device': llvmlite.binding.get_host_cpu_name(),
            'threads': str(min(num_threads or maximum_threads(), maximum_threads())),
            'threading layer': threading_layer(),
            'kernel cache': str(cache_directory() or 'none')}


def _choose_layer() -> None:
    """Have Numba find TBB, or prefer OpenMP where TBB would have no thread beside the caller's.

    Numba's pool hands TBB a first task, which only TBB's other threads or the thread that has
    started the pool take up. Its end waits for that task, in the main thread.
    """
    if len(os.sched_getaffinity(0)) > 1:
        _find_tbb()
    else:
        _settings.THREADING_LAYER_PRIORITY = ['omp', 'workqueue', 'tbb']


def _find_tbb() -> None:
    """Load TBB from where its wheel puts it, ``<environment>/lib``.

    The dynamic linker does not look there, and Numba asks for the bare name.
    """
    with contextlib.suppress(OSError):
        ctypes.CDLL('libtbb.so.12', ctypes.RTLD_GLOBAL)
        return
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, OSError):
        for file in importlib.metadata.files('tbb') or ():
            if file.name == 'libtbb.so.12':
                ctypes.CDLL(os.path.realpath(file.locate()), ctypes.RTLD_GLOBAL)


# Whoever compiles the first parallel kernel starts the pool, so this cannot wait for a frame.
_choose_layer()
