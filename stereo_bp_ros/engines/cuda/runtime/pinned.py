"""Memory of the caller that the device reads and writes directly."""

from __future__ import annotations

import contextlib
import logging
import weakref
from typing import Any

import numpy as np

from stereo_bp_ros.engines.cuda.runtime import device

_PORTABLE, _MAPPED = 1, 2           # cudaHostRegister flags

_log = logging.getLogger(__name__)


def empty(shape: tuple[int, ...], dtype: str, index: int) -> np.ndarray[Any, Any]:
    """An uninitialised C-contiguous NumPy array in page-locked memory.

    :param index: of the device; no other one is touched.
    :raises BackendUnavailable: the device cannot be used.
    """
    device.require(index)
    import cupyx
    from cupy.cuda import Device
    with Device(index):
        return np.asarray(cupyx.empty_pinned(shape, dtype))


def pin(buffer: Any, index: int) -> bool:
    """Page-lock the memory of a buffer until the buffer is gone; returns whether it could be.

    Where it could not, everything works as before, with a copy more.

    :param buffer: owns its memory, never resizes it, and takes weak references (array.array).
    :param index: of the device.
    """
    from cupy.cuda import Device, runtime
    view = np.frombuffer(buffer, np.uint8)
    address = view.ctypes.data
    try:
        with Device(index):
            runtime.hostRegister(address, view.nbytes, _PORTABLE | _MAPPED)
    except runtime.CUDARuntimeError as error:
        _log.debug('%d bytes cannot be page-locked: %s', view.nbytes, error)
        return False
    # Weak references are told before the memory is freed: nothing else may find it registered.
    weakref.finalize(buffer, _unpin, address, index).atexit = False
    return True


def _unpin(address: int, index: int) -> None:
    from cupy.cuda import Device, runtime
    if device.is_lost(index):       # it has forgotten, and must not be touched again
        return
    with contextlib.suppress(runtime.CUDARuntimeError), Device(index):
        runtime.hostUnregister(address)
