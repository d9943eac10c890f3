"""Arrays of the caller in memory that the device reads and writes directly."""

from __future__ import annotations

from typing import Any

import numpy as np


def empty(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """An uninitialised C-contiguous NumPy array in page-locked memory.

    :raises BackendUnavailable: there is no CUDA device.
    """
    from stereo_bp_ros.engines.cuda import device
    problem = device.unavailable(0)
    if problem is not None:
        raise problem
    import cupyx
    return np.asarray(cupyx.empty_pinned(shape, dtype))
