"""The fraction of SAD that kernels take, run on the host, is the one that its formula gives."""

from __future__ import annotations

import ctypes
import shutil

import numpy as np
import pytest

from test.engines.support import host_cuda

pytest.importorskip('cupy')
pytestmark = pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++')

RUN = """
extern "C" void run(int count, const int* before, const int* least, const int* after, int* to) {
    for (int i = 0; i < count; ++i) to[i] = whole_sixteenths(before[i], least[i], after[i]);
}
"""

#: The largest SAD of a window.
MAX_SAD = 51 * 51 * 255


def test_fractions_of_sad_are_where_two_lines_meet() -> None:
    library = host_cuda.compiled(host_cuda.source('frame/subpixel.cuh') + RUN)
    random = np.random.default_rng(0)
    least = np.concatenate([random.integers(0, limit, 20000) for limit in (3, 300, MAX_SAD)])
    before, after = (least + random.integers(0, np.maximum(1, np.minimum(
        least + 20, MAX_SAD - least))) for _ in range(2))
    sums = [array.astype(np.int32) for array in (before, least, after)]
    found = np.empty(least.shape, np.int32)
    library.run(found.size, *(array.ctypes.data_as(ctypes.c_void_p) for array in (*sums, found)))
    rise = np.maximum(before, after) - least
    expected = (16 * (before - after) + rise) // (2 * np.maximum(rise, 1))
    assert np.array_equal(found, np.where(rise > 0, expected, 0))
    assert (found.min(), found.max()) == (-8, 8)
