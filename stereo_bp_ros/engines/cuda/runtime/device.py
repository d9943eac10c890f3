"""Which CUDA device there is, and in words why there is none.

Importing this module never fails; everything here answers for a machine without a GPU, without
a driver or without CuPy as well.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import glob
import importlib.util
import os
from typing import Any

from stereo_bp_ros.errors import BackendUnavailable, DeviceLostError, OutOfDeviceMemory

#: Minimum compute capability; 7.0 and 7.2 need a CUDA 12 build of CuPy, whose compiler has them.
OLDEST = (7, 0)
OLDEST_WITH_CUDA_13 = (7, 5)

#: Errors after which the process's context on the device is dead (cudaError_t).
STICKY = frozenset({46, 100, 101, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719,
                    721, 999})
OUT_OF_MEMORY = 2

INSTALL = ("install CuPy for the driver's CUDA version: pip install cupy-cuda12x, or "
           'cupy-cuda13x for CUDA 13')

HOME = ('give the process a HOME that it can write, or set CUPY_CACHE_DIR to a directory that it '
        'can write')

_lost: dict[int, str] = {}
_whole: set[tuple[int, int]] = set()      # pinned buffers, known to be so to their end


@dataclasses.dataclass(frozen=True)
class Properties:
    """What the engine wants to know about a device.

    shared_memory: bytes that one block may use; shared_memory_sm: bytes of a multiprocessor.
    is_integrated: the device shares the host's memory, so nothing is copied.
    driver: CUDA version of the driver, as 13020 for 13.2; 0 = there is none.
    """

    index: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    shared_memory: int
    shared_memory_sm: int
    memory: int
    is_integrated: bool
    driver: int = 0

    @property
    def architecture(self) -> str:
        """The compiler's name of the device: 'sm_90'."""
        return f'sm_{self.capability[0]}{self.capability[1]}'


#: Through which CUDA reaches the driver; the last one on Jetson.
DEVICE_FILES = ('/dev/nvidia[0-9]*', '/dev/nvidiactl', '/dev/nvidia-uvm', '/dev/nvmap')

#: Stands for the device where none is asked, in plans and in tests of kernels: an H200.
TYPICAL = Properties(0, 'NVIDIA H200', (9, 0), 132, 227 * 1024, 228 * 1024, 141 * 2**30, False)


def unavailable(index: int) -> BackendUnavailable | None:
    """Why device ``index`` cannot be used, with the remedy; None = it can."""
    if index in _lost:
        return BackendUnavailable(f'CUDA device {index} was lost ({_lost[index]})',
                                  'restart the process')
    try:
        if importlib.util.find_spec('cupy') is None:
            return BackendUnavailable('CuPy is not installed', INSTALL)
        from cupy.cuda import runtime
    except Exception as error:
        return BackendUnavailable(f'CuPy does not start: {_first_line(error)}',
                                  HOME if isinstance(error, OSError) else INSTALL)
    try:
        return _unusable(index, runtime)
    except runtime.CUDARuntimeError as error:
        if error.status == 35:
            if not _has_driver():
                return BackendUnavailable('no NVIDIA driver is installed',
                                          "install the GPU's driver, or use backend cpu")
            return BackendUnavailable("the driver is older than CuPy's CUDA version",
                                      'update the driver, or ' + INSTALL)
        reason = f'no CUDA device answers: {_first_line(error)}'
        if closed := _closed_files():
            return BackendUnavailable(
                f'{reason}: this user may not open {closed[0]}',
                f"add the user to the group that 'ls -l {closed[0]}' shows, or use backend cpu")
        return BackendUnavailable(reason,
                                  'check that nvidia-smi shows a device, or use backend cpu')
    except Exception as error:
        return BackendUnavailable(f'CUDA does not start: {_first_line(error)}', INSTALL)


def _unusable(index: int, runtime: Any) -> BackendUnavailable | None:
    """Why a CUDA that answers has nothing to offer."""
    count = runtime.getDeviceCount()
    if index >= count:
        return BackendUnavailable(f'there is no CUDA device {index}, only {count}',
                                  f'set device_id to at most {count - 1}')
    device = properties(index)
    oldest = OLDEST if runtime.runtimeGetVersion() < 13000 else OLDEST_WITH_CUDA_13
    if device.capability < oldest:
        have, need = (f'{major}.{minor}' for major, minor in (device.capability, oldest))
        remedy = 'use backend cpu'
        if device.capability >= OLDEST:
            remedy = 'install cupy-cuda12x in place of cupy-cuda13x, or use backend cpu'
        return BackendUnavailable(
            f'{device.name} has compute capability {have}, and {need} is needed', remedy)
    return None


def count() -> int:
    """Number of CUDA devices; 0 where CUDA has nothing to offer."""
    if unavailable(0) is not None:
        return 0
    from cupy.cuda import runtime

    return int(runtime.getDeviceCount())


def require(index: int) -> None:
    """Go on only with a device that can be used.

    :raises BackendUnavailable: as ``unavailable`` says.
    """
    problem = unavailable(index)
    if problem is not None:
        raise problem


@functools.cache
def properties(index: int) -> Properties:
    """Properties of a device that is there; creates no context on it."""
    from cupy.cuda import runtime

    known = runtime.getDeviceProperties(index)
    return Properties(
        index=index, name=known['name'].decode(), capability=(known['major'], known['minor']),
        multiprocessors=known['multiProcessorCount'],
        shared_memory=known['sharedMemPerBlockOptin'],
        shared_memory_sm=known['sharedMemPerMultiprocessor'],
        memory=known['totalGlobalMem'], is_integrated=bool(known['integrated']),
        driver=runtime.driverGetVersion())


def available_memory(index: int) -> int:
    """Bytes free on a device that is there."""
    import cupy
    with Errors(index), cupy.cuda.Device(index):
        return int(cupy.cuda.runtime.memGetInfo()[0])


def describe(index: int) -> dict[str, str]:
    """The device and the versions in use, for ``info`` and for diagnostics."""
    import cupy
    device, runtime = properties(index), cupy.cuda.runtime
    return {'device': device.name, 'pci bus': runtime.deviceGetPCIBusId(index),
            'architecture': device.architecture, 'multiprocessors': str(device.multiprocessors),
            'device memory': f'{device.memory / 2**20:.0f} MiB', 'cupy': cupy.__version__,
            'cuda': _version(runtime.runtimeGetVersion()),
            "driver's cuda": _version(runtime.driverGetVersion())}


def mapped_address(memory: Any) -> int:
    """Where the current device finds pinned host memory; 0 = it is none.

    Costs about a microsecond: ``memory.ctypes.data`` alone would.

    :param memory: a writable C-contiguous buffer of at least one byte.
    """
    runtime = _runtime()
    address, size = ctypes.addressof(ctypes.c_char.from_buffer(memory)), memory.nbytes
    known = runtime.pointerGetAttributes(address)
    if known.type != runtime.memoryTypeHost or not known.devicePointer:
        return 0
    # Somebody may have registered a part of his memory only: asked once for each buffer.
    if (address, size) not in _whole:
        if runtime.pointerGetAttributes(address + size - 1).type != runtime.memoryTypeHost:
            return 0
        if len(_whole) >= 256:
            _whole.clear()
        _whole.add((address, size))
    return int(known.devicePointer)


def owner(address: int) -> int | None:
    """Number of the device that reads and writes memory at an address; None = it is of none."""
    runtime = _runtime()
    known = runtime.pointerGetAttributes(address)
    return None if known.type == runtime.memoryTypeUnregistered else int(known.device)


@functools.cache
def _runtime() -> Any:
    """CuPy's, without the half microsecond that an import takes that is none."""
    from cupy.cuda import runtime
    return runtime


class Errors:
    """Context in which CUDA's errors become the errors of this package.

    A class, since every frame enters one: a generator's context takes a microsecond more.

    :raises OutOfDeviceMemory: an allocation failed; the device is well.
    :raises DeviceLostError: the context is dead; every later engine on this device in this
        process is rejected.
    """

    __slots__ = ('_index',)

    def __init__(self, index: int) -> None:
        self._index = index

    def __enter__(self) -> None:
        index = self._index
        if index in _lost:
            raise DeviceLostError(f'CUDA device {index} was lost ({_lost[index]}): '
                                  'restart the process')

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 _: object) -> None:
        if error is None:
            return
        from cupy.cuda import driver, memory, runtime
        index = self._index
        if isinstance(error, memory.OutOfMemoryError):
            raise OutOfDeviceMemory(_first_line(error)) from error
        if not isinstance(error, (runtime.CUDARuntimeError, driver.CUDADriverError)):
            return
        if error.status == OUT_OF_MEMORY:
            raise OutOfDeviceMemory(
                f'CUDA device {index} has no memory left: {_first_line(error)}') from error
        if error.status in STICKY:
            _lost[index] = _first_line(error)
            raise DeviceLostError(f'CUDA device {index} no longer answers: '
                                  f'{_lost[index]}: restart the process') from error


def is_lost(index: int) -> bool:
    """Whether a sticky error has ended this process's use of a device."""
    return index in _lost


def _has_driver() -> bool:
    try:
        ctypes.CDLL('libcuda.so.1')
    except OSError:
        return False
    return True


def _closed_files() -> list[str]:
    """The driver's files that are there, but not for this user."""
    found = sorted(path for pattern in DEVICE_FILES for path in glob.glob(pattern))
    return [path for path in found if not os.access(path, os.R_OK | os.W_OK)]


def _version(number: int) -> str:
    """CUDA's way to write versions: 13020 is 13.2."""
    return f'{number // 1000}.{number % 1000 // 10}'


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
