"""The arrays of a CUDA engine in ordinary memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np


class HostArena:
    """As ``Arena``, in ordinary memory."""

    def __init__(self, wanted: Any) -> None:
        self._memory = np.full(wanted.total // 8 + 64, 0x5b5b5b5b5b5b5b5b, np.uint64)     # rubbish
        base = -(-self._memory.ctypes.data // 256) * 256
        self.device = {spec.name: base + spec.offset for spec in wanted.arrays}
        self._specs = {spec.name: spec for spec in wanted.arrays}

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
