"""Numba as this engine uses it: kernels, their cache on disk, and threads.

Kernels release the GIL and divide as NumPy does. Processes that use them are spawned, never
forked: neither TBB nor OpenMP survives a fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import logging
import os
import pathlib
import platform
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite
import llvmlite.binding
import numba
import numpy as np

from stereo_bp_ros.engines.cache import make_private, user_cache

#: Caches of this many versions of the engine stay on disk, the latest used ones.
CACHES_KEPT = 4

_settings: Any = numba.config
_log = logging.getLogger(__name__)
_kernels: list[Any] = []
_decorating = threading.Lock()
_one_frame_at_a_time = threading.Lock()


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """``numba.njit`` with what every kernel here has; bare, or with further options.

    Compiled code is kept in ``cache_directory()`` when there is one.
    """
    if function is None:
        return functools.partial(kernel, **options)
    directory = cache_directory()
    with _decorating:
        # A function's place in the cache is chosen while it is decorated. The setting is the
        # whole process's, so other users of Numba get it back at once.
        previous = _settings.CACHE_DIR
        try:
            if directory is not None:
                _settings.CACHE_DIR = str(directory)
            compiled = numba.njit(nogil=True, error_model='numpy', cache=directory is not None,
                                  **options)(function)
        finally:
            _settings.CACHE_DIR = previous
    _kernels.append(compiled)
    return compiled


def parallel_kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """As ``kernel``, with ``numba.prange`` on the threads that ``frame`` allows."""
    return kernel(function, parallel=True, **options)


def compiled_signatures() -> int:
    """How many variants of all kernels this process has compiled or loaded so far."""
    return sum(len(known.signatures) for known in _kernels)


# --- the cache on disk

@functools.cache
def cache_directory() -> pathlib.Path | None:
    """Where compiled kernels are kept, or None (with one logged warning) without such a place.

    ``stereo_bp_ros/numba/<hash>`` under ``XDG_CACHE_HOME`` or ``~/.cache``, mode 0700: the
    files hold machine code, so a directory of somebody else is refused. The hash covers what
    Numba's own check leaves out, above all the sources of kernels that a kernel calls.
    """
    try:
        root = user_cache() / 'stereo_bp_ros'
        make_private(root)
        make_private(root / 'numba')
        directory = root / 'numba' / engine_hash()
        is_new = not directory.exists()
        make_private(directory)
        os.utime(directory)
        if is_new:
            _prune(directory.parent)
    except (OSError, RuntimeError) as error:
        _log.warning('no cache for compiled kernels, every process compiles them anew: %s', error)
        return None
    return directory


def engine_hash() -> str:
    """Digest of everything that compiled code depends on."""
    digest = hashlib.sha256()
    for part in (numba.__version__, np.__version__, llvmlite.__version__,
                 platform.python_version(), platform.machine(),
                 llvmlite.binding.get_host_cpu_name()):
        digest.update(part.encode() + b'\0')
    folder = pathlib.Path(__file__).parent
    for source in sorted(folder.rglob('*.py')):
        digest.update(source.relative_to(folder).as_posix().encode() + b'\0')
        digest.update(source.read_bytes() + b'\0')
    return digest.hexdigest()[:32]


def _prune(parent: pathlib.Path) -> None:
    """Remove the caches used longest ago; a process that still needs one makes it again."""
    caches = sorted((entry for entry in parent.iterdir() if entry.is_dir()),
                    key=lambda entry: entry.stat().st_mtime, reverse=True)
    for old in caches[CACHES_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


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
    _find_tbb()
    numba.get_num_threads()         # starts the pool, which is what chooses the layer
    return str(numba.threading_layer())


def device_info(num_threads: int) -> dict[str, str]:
    """What computes and how, for people; ``num_threads`` as for ``frame``."""
    return {'device': llvmlite.binding.get_host_cpu_name(),
            'threads': str(min(num_threads or maximum_threads(), maximum_threads())),
            'threading layer': threading_layer(),
            'kernel cache': str(cache_directory() or 'none')}


@functools.cache
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
_find_tbb()
