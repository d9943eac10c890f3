"""The arrays of a CUDA engine in ordinary memory."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from stereo_bp_ros.engines.geometry import ALIGNMENT

_LIBC = ctypes.CDLL(None)
_LIBC.free.argtypes = [ctypes.c_void_p]


class HostArena:
    """As ``Arena``, in ordinary memory. A sanitizer sees where each array ends."""

    def __init__(self, wanted: Any) -> None:
        self._specs = {spec.name: spec for spec in wanted.arrays}
        self.nbytes = {name: spec.nbytes for name, spec in self._specs.items()}
        self.device = {name: _allocated(nbytes) for name, nbytes in self.nbytes.items()}
        weakref.finalize(self, _free, list(self.device.values()))
        self.spoil('')

    def stamp(self, _stage: str) -> None:
        return None

    def spoil(self, start: str) -> None:
        """Rubbish into all arrays whose names begin so."""
        for name, spec in self._specs.items():
            if name.startswith(start):
                ctypes.memset(self.device[name], 0x5b, spec.nbytes)

    def view(self, name: str) -> np.ndarray:
        spec = self._specs[name]
        memory = (ctypes.c_char * spec.nbytes).from_address(self.device[name])
        return np.frombuffer(memory, spec.dtype).reshape(spec.shape)


def _allocated(nbytes: int) -> int:
    """Address of so many bytes, aligned as those of an ``Arena``."""
    address = ctypes.c_void_p()
    if _LIBC.posix_memalign(ctypes.byref(address), ALIGNMENT, ctypes.c_size_t(nbytes)):
        raise MemoryError(f'{nbytes} bytes')
    return int(address.value or 0)


def _free(addresses: list[int]) -> None:
    for address in addresses:
        _LIBC.free(address)
