"""Kernels: compiled by NVRTC once per device architecture and template arguments, kept on disk.

Compiling needs neither a driver nor a device; only loading does.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import logging
import os
import pathlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

from stereo_bp_ros.engines import cache
from stereo_bp_ros.engines.compiling import Progress
from stereo_bp_ros.engines.cuda.runtime.device import Properties
from stereo_bp_ros.system.resources import KERNELS

OPTIONS = ('-std=c++17', '-default-device', f'-I{KERNELS}')

#: Compiled files on disk beyond this number are removed, the ones used longest ago first.
FILES_KEPT = 1024

#: Kernels compiled ahead and not loaded yet beyond this number are dropped, the oldest first.
#: A configuration has some tens of them, of 10 to 100 KiB each.
MAX_AHEAD = 256

_log = logging.getLogger(__name__)
_lock = threading.RLock()
_loaded: dict[tuple[int, str, str], Kernel] = {}
_ahead: dict[tuple[str, str, str], tuple[bytes, str]] = {}      # until they are loaded
_origins: collections.Counter[str] = collections.Counter()
_counting = threading.Lock()
_collecting = threading.local()
_watchers: list[list[Launch]] = []
_progress = Progress('1 to 10 s')


@dataclasses.dataclass(frozen=True)
class Resources:
    """What one kernel takes: registers and bytes of local memory a thread, shared a block."""

    registers: int
    local_bytes: int
    shared_bytes: int
    max_threads: int


class Launch(NamedTuple):
    """A kernel as it was launched: blocks of the grid, threads and dynamic bytes of a block."""

    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int


class Kernel:
    """A loaded kernel; launched with ctypes values or structures as its arguments."""

    def __init__(self, name: str, module: Any, function: Any, device: Properties) -> None:
        from cupy.cuda import driver
        self.name = name
        self._module = module           # owns the code
        self._function = function
        self._driver = driver
        read = driver.funcGetAttribute
        self.resources = Resources(
            registers=read(driver.CU_FUNC_ATTRIBUTE_NUM_REGS, function.ptr),
            local_bytes=read(driver.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function.ptr),
            shared_bytes=read(driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function.ptr),
            max_threads=read(driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function.ptr))
        driver.funcSetAttribute(
            function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            device.shared_memory - self.resources.shared_bytes)

    def launch(self, stream: int, grid: tuple[int, int, int], block: tuple[int, int, int],
               shared_bytes: int, *arguments: Any, cooperative: bool = False) -> None:
        """Put the kernel into a stream; ``arguments`` are copied at once.

        :param cooperative: all blocks are to be resident at once, or the launch fails.
        """
        pointers = (ctypes.c_void_p * len(arguments))(
            *(ctypes.addressof(argument) for argument in arguments))
        where = (self._function.ptr, *grid, *block, shared_bytes, stream,
                 ctypes.addressof(pointers))
        if cooperative:
            self._driver.launchCooperativeKernel(*where)
        else:
            self._driver.launchKernel(*where, 0)
        for seen in _watchers:
            seen.append(Launch(self, grid, block, shared_bytes))

    def blocks_per_multiprocessor(self, threads: int, shared_bytes: int) -> int:
        """Blocks of so many threads and dynamic bytes that run at once on a multiprocessor."""
        return int(self._driver.occupancyMaxActiveBlocksPerMultiprocessor(
            self._function.ptr, threads, shared_bytes))


def kernel(device: Properties, file: str, name: str) -> Kernel:
    """The kernel ``name`` (with its template arguments) of ``kernels/<file>`` on a device.

    The device must be the calling thread's current one. In ``collected`` there is none to have.
    """
    names: set[tuple[str, str]] | None = getattr(_collecting, 'names', None)
    if names is not None:
        names.add((file, name))
        return cast('Kernel', None)
    key = (device.index, file, name)
    with _lock:
        if key not in _loaded:
            from cupy.cuda import function as cupy_function
            ahead = _ahead.pop((device.architecture, file, name), None)
            binary, lowered = ahead or compiled(file, name, device.architecture)
            module = cupy_function.Module()
            module.load(binary)
            _loaded[key] = Kernel(name, module, module.get_function(lowered), device)
        return _loaded[key]


@contextlib.contextmanager
def collected() -> Iterator[set[tuple[str, str]]]:
    """Context whose set takes file and name of each kernel that this thread asks for.

    None is compiled or loaded.
    """
    _collecting.names = names = set[tuple[str, str]]()
    try:
        yield names
    finally:
        del _collecting.names


@contextlib.contextmanager
def watched() -> Iterator[list[Launch]]:
    """Context whose list collects this process's launches in order; a graph's when captured."""
    seen: list[Launch] = []
    _watchers.append(seen)
    try:
        yield seen
    finally:
        _watchers[:] = [other for other in _watchers if other is not seen]


def origins() -> dict[str, int]:
    """How many kernels this process has 'compiled', 'kept' of these, and found on the 'disk'."""
    return {name: _origins[name] for name in ('compiled', 'kept', 'disk')}


def _count(origin: str) -> None:
    with _counting:         # threads compile side by side
        _origins[origin] += 1


def compiled(file: str, name: str, architecture: str) -> tuple[bytes, str]:
    """Machine code and mangled name of a kernel, from the disk where it is there."""
    digest = hashlib.sha256('\0'.join(
        # Files of another format, and of versions that had none, have other names.
        (cache.FORMAT, sources_digest(), _compiler_version(), architecture, file,
         name)).encode())
    directory = cache_directory()
    place = directory / (digest.hexdigest()[:32] + '.cubin') if directory else None
    content = None if place is None else cache.read(place)
    if place is not None and content is not None:
        # It may be read-only, and another thread or process may remove it at any moment.
        with contextlib.suppress(OSError):
            os.utime(place)
        _count('disk')
        lowered, _, binary = content.partition(b'\n')
        return binary, lowered.decode()
    _progress.begin(directory)
    binary, lowered_name = compile_kernel(file, name, architecture)
    _progress.end(directory)
    _count('compiled')
    if place is not None and cache.write(place, lowered_name.encode() + b'\n' + binary):
        _count('kept')
        _prune(place.parent)
    return binary, lowered_name


def compile_ahead(device: Properties, names: Iterable[tuple[str, str]]) -> None:
    """Compile what ``kernel`` will be asked for on a device, which is not touched.

    :raises RuntimeError: a source does not compile.
    """
    for file, name in sorted(names):
        key = (device.architecture, file, name)
        with _lock:
            is_there = (device.index, file, name) in _loaded or key in _ahead
        if is_there:
            continue
        made = compiled(file, name, device.architecture)        # seconds, without the lock
        with _lock:
            if (device.index, file, name) in _loaded:           # since then
                continue
            _ahead[key] = made
            while len(_ahead) > MAX_AHEAD:
                del _ahead[next(iter(_ahead))]


def compile_side_by_side(names: Iterable[tuple[str, str]], architecture: str,
                         progress: Callable[[int, int], None] = lambda *_: None) -> None:
    """Leave machine code on the disk, where ``kernel`` finds it.

    :param names: files of ``kernels`` and names in them; each is compiled once.
    :param progress: called with (kernels done, kernels).
    :raises RuntimeError: a source does not compile.
    """
    wanted = sorted(set(names))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        made = [threads.submit(compiled, file, name, architecture) for file, name in wanted]
        for done, one in enumerate(concurrent.futures.as_completed(made)):
            one.result()
            progress(done + 1, len(made))


def compile_kernel(file: str, name: str, architecture: str,
                   options: tuple[str, ...] = ()) -> tuple[bytes, str]:
    """Compile one kernel, whatever the disk holds; needs no driver.

    :param architecture: ``sm_90``: machine code; ``compute_80``: PTX, which the driver of a
        newer device compiles further.
    :raises RuntimeError: the source does not compile; the text is the compiler's log.
    """
    binary, lowered, _ = compile_with_log(file, name, architecture, options)
    return binary, lowered


def compile_with_log(file: str, name: str, architecture: str,
                     options: tuple[str, ...] = ()) -> tuple[bytes, str, str]:
    """As ``compile_kernel``, with the compiler's log (``--ptxas-options=-v``: resources)."""
    from cupy.cuda import nvrtc
    source = (KERNELS / file).read_text(encoding='utf-8')
    program = nvrtc.createProgram(source, file, (), ())
    start = time.perf_counter()
    try:
        nvrtc.addNameExpression(program, name)
        try:
            nvrtc.compileProgram(program, (*OPTIONS, f'-arch={architecture}', *options))
        except nvrtc.NVRTCError as error:
            raise RuntimeError(f'{name} in {file} does not compile for {architecture}:\n'
                               + nvrtc.getProgramLog(program)) from error
        _log.debug('%s compiled in %.0f ms', name, (time.perf_counter() - start) * 1e3)
        code = nvrtc.getPTX if architecture.startswith('compute_') else nvrtc.getCUBIN
        return (bytes(code(program)), nvrtc.getLoweredName(program, name),
                nvrtc.getProgramLog(program))
    finally:
        nvrtc.destroyProgram(program)


@functools.cache
def sources_digest() -> str:
    """Of the sources of all kernels."""
    digest = hashlib.sha256()
    for source in sorted(KERNELS.rglob('*.cu*')):
        name = source.relative_to(KERNELS).as_posix()
        digest.update(name.encode() + b'\0' + source.read_bytes() + b'\0')
    return digest.hexdigest()


@functools.cache
def _compiler_version() -> str:
    from cupy.cuda import nvrtc
    return '.'.join(str(part) for part in nvrtc.getVersion())


@functools.cache
def cache_directory() -> pathlib.Path | None:
    """Where machine code is kept, or None (with one logged warning) without such a place.

    ``stereo_bp_ros/cuda`` as ``cache.open_directory`` makes it.
    """
    try:
        return cache.open_directory('cuda')
    except (OSError, RuntimeError) as error:
        _log.warning('no cache for compiled kernels, every process compiles them anew: %s', error)
        return None


def _prune(directory: pathlib.Path) -> None:
    """Keep the number of files bounded, and among them those that were set aside."""
    with contextlib.suppress(OSError):
        for old in sorted(directory.glob('*.cubin*'), key=_last_used)[:-FILES_KEPT]:
            old.unlink(missing_ok=True)


def _last_used(file: pathlib.Path) -> float:
    """Seconds since the epoch; 0 where somebody else has removed the file."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0
