"""Arrays of other libraries, where they lie: on the host, or in the memory of a CUDA device.

No such library is imported. Arrays are asked in the two ways that all of them know: DLPack
(https://dmlc.github.io/dlpack/latest) and the CUDA array interface
(https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html).
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.errors import InputError, StereoError, quoted, shown
from stereo_bp_ros.issues import IssueCode

#: DLPack's numbers of devices: memory of the host, pinned or not, and of CUDA, managed or not.
_HOST, _CUDA = (1, 3), (2, 13)

#: DLPack's numbers of types, as NumPy's letters.
_KINDS = {0: 'i', 1: 'u', 2: 'f'}

#: Lets an exporter wait for nothing: ``StereoMatcher.compute`` waits for the caller's stream.
_NO_STREAM = -1


class Flags(NamedTuple):
    """As those of a NumPy array."""

    c_contiguous: bool
    writeable: bool


@dataclasses.dataclass(frozen=True, eq=False)
class DeviceArray:
    """An array in the memory of a CUDA device, described as NumPy describes its own.

    address: of the first element.
    strides: bytes from one element to the next, by dimension.
    owner:   keeps the memory alive.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: Any
    is_writeable: bool = True

    @property
    def flags(self) -> Flags:
        return Flags(self.is_dense(0), self.is_writeable)

    @property
    def extent(self) -> int:
        """Bytes from the first element to the end of the last one."""
        return self.dtype.itemsize + sum(
            (size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))

    def is_dense(self, first: int) -> bool:
        """Whether the dimensions from the first one on are C-contiguous."""
        step = self.dtype.itemsize
        for size, stride in reversed([*zip(self.shape, self.strides, strict=True)][first:]):
            if size > 1 and stride != step:
                return False
            step *= size
        return True


class _Tensor(ctypes.Structure):
    """``DLTensor``, the beginning of what an unversioned capsule holds."""

    _fields_ = (('data', ctypes.c_void_p), ('device_type', ctypes.c_int32),
                ('device_id', ctypes.c_int32), ('dimensions', ctypes.c_int32),
                ('kind', ctypes.c_uint8), ('bits', ctypes.c_uint8), ('lanes', ctypes.c_uint16),
                ('shape', ctypes.POINTER(ctypes.c_int64)),
                ('strides', ctypes.POINTER(ctypes.c_int64)), ('byte_offset', ctypes.c_uint64))


_held_by = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ('PyCapsule_GetPointer', ctypes.pythonapi))


def is_exported(array: Any) -> bool:
    """Whether ``located`` finds where an array lies."""
    return hasattr(array, '__dlpack__') or hasattr(array, '__cuda_array_interface__')


def located(array: Any, name: str = 'the array') -> np.ndarray[Any, Any] | DeviceArray:
    """An array of whatever library where it lies, never copied: on the host as NumPy's.

    :raises InputError: bad array, because it lies elsewhere, or its library does not say where.
    """
    if isinstance(array, np.ndarray):
        return array
    reason = 'it has neither __dlpack__ nor __cuda_array_interface__'
    # PyTorch has no interface for some types, and exports only what is on its current device.
    for locate in (_by_interface, _by_dlpack):
        try:
            found = locate(array)
        except (BufferError, KeyError, RuntimeError) as error:
            reason = f'it cannot be shared: {quoted(error)}'
        else:
            if found is not None:
                return found
    raise InputError(IssueCode.BAD_ARRAY, f'{name} is a {type(array).__name__}', reason)


def _by_interface(array: Any) -> DeviceArray | None:
    found = getattr(array, '__cuda_array_interface__', None)
    if found is None:
        return None
    address, is_read_only = found['data']
    dtype, shape = np.dtype(found['typestr']), tuple(found['shape'])
    return DeviceArray(address, shape, found.get('strides') or _dense(shape, dtype.itemsize),
                       dtype, array, not is_read_only)


def _by_dlpack(array: Any) -> np.ndarray[Any, Any] | DeviceArray | None:
    if not hasattr(array, '__dlpack__'):
        return None
    kind, _ = array.__dlpack_device__()
    if kind in _CUDA:
        return _of_capsule(array.__dlpack__(stream=_NO_STREAM))
    if kind in _HOST:
        # NumPy 1.21 knows no DLPack.
        return np.from_dlpack(array) if hasattr(np, 'from_dlpack') else np.asarray(array)
    raise InputError(IssueCode.BAD_ARRAY, f'an array on a device of DLPack type {kind}',
                     'arrays lie on the host or on a CUDA device')


def _of_capsule(capsule: Any) -> DeviceArray:
    """What a DLPack capsule holds; its memory is given back when the capsule is deleted."""
    tensor = _Tensor.from_address(_held_by(capsule, b'dltensor'))
    if tensor.lanes != 1 or tensor.kind not in _KINDS:
        raise InputError(IssueCode.BAD_ARRAY, f'an array of DLPack type {tensor.kind} x '
                         f'{tensor.lanes}', 'its elements must be integers or floats')
    dtype = np.dtype(f'{_KINDS[tensor.kind]}{tensor.bits // 8}')
    shape = tuple(tensor.shape[:tensor.dimensions])
    strides = (tuple(dtype.itemsize * stride for stride in tensor.strides[:tensor.dimensions])
               if tensor.strides else _dense(shape, dtype.itemsize))
    return DeviceArray((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, capsule)


def _dense(shape: tuple[int, ...], step: int) -> tuple[int, ...]:
    strides = []
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def among(named: Mapping[str, Any]) -> dict[str, DeviceArray]:
    """Those that lie in the memory of a device."""
    return {name: array for name, array in named.items() if isinstance(array, DeviceArray)}


def stream_handle(stream: Any) -> int:
    """CUDA's handle of a stream of CuPy or PyTorch, or of one's own; None = the default stream.

    :raises StereoError: it is none.
    """
    if stream is None:
        return 0
    for name in ('cuda_stream', 'ptr'):
        stream = getattr(stream, name, stream)
    if not isinstance(stream, int):
        raise StereoError(f'stream is {shown(stream)}; it must be a whole number, or have one as '
                          '.cuda_stream (PyTorch) or .ptr (CuPy)')
    return stream
