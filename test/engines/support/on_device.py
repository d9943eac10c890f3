"""Arrays that say that they are on a CUDA device, or on the host; their memory is NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np


class WithInterface:
    """Has the CUDA array interface, as Numba's arrays have."""

    def __init__(self, array: np.ndarray, is_read_only: bool = False) -> None:
        self.array = array
        dense = array.flags.c_contiguous
        self.__cuda_array_interface__ = {
            'data': (array.ctypes.data, is_read_only), 'shape': array.shape, 'version': 3,
            'typestr': array.dtype.str, 'strides': None if dense else array.strides}


class WithDlpack:
    """Has DLPack, as PyTorch's tensors have; notes for which streams it was asked."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (2, 0)) -> None:
        self.array, self._device = array, device
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, stream: int | None = None, **kwargs: Any) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__(**kwargs)
