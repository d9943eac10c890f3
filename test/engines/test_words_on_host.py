"""How messages are kept in memory, as C++ of the kernels on the host."""

from __future__ import annotations

import ctypes
import pathlib
import shutil
from typing import Any

import host_cuda
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++')

ROUND_TRIP = """
extern "C" void keep(const float* values, unsigned* kept, float* back) {
    using M = Float32ThreeBytes;
    M::Word words[4];
    for (int i = 0; i < 4; ++i) words[i] = make_float2(values[2 * i], values[2 * i + 1]);
    M::Unit units[3 * 5];
    std::memset(units, 0xff, sizeof units);
    M::store(units, 5, words);
    for (int i = 0; i < 3; ++i) {
        kept[2 * i] = units[5 * i].x;
        kept[2 * i + 1] = units[5 * i].y;
    }
    M::load(units, 5, words);
    for (int i = 0; i < 4; ++i) {
        back[2 * i] = words[i].x;
        back[2 * i + 1] = words[i].y;
    }
}
"""


@pytest.fixture(scope='module')
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory: pathlib.Path = tmp_path_factory.mktemp('words')
    return host_cuda.compiled(host_cuda.source('words.cuh') + ROUND_TRIP, directory)


def kept(library: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Words and values of 8 values that were kept in three bytes each."""
    words, back = np.empty(6, np.uint32), np.empty(8, np.float32)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (values, words, back)]
    library.keep(*pointers)
    return words, back


def test_three_bytes_keep_values_up_to_half_a_step(library: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = rng.uniform(0, 2, 8).astype(np.float32)
        back = kept(library, values)[1]
        assert np.abs(back.astype(float) - values).max() <= 2.0 ** -23
        # What has been kept once does not change any more.
        assert np.array_equal(kept(library, back)[1], back)


def test_every_value_has_bytes_of_its_own(library: Any) -> None:
    for i in range(8):
        for value in (2.0 ** -22, 1.0, 1.25, np.nextafter(np.float32(2), np.float32(0))):
            values = np.zeros(8, np.float32)
            values[i] = value
            back = kept(library, values)[1]
            assert abs(back[i] - value) <= 2.0 ** -23
            assert not np.delete(back, i).any()


def test_zeros_are_bytes_of_zero(library: Any) -> None:
    words, back = kept(library, np.zeros(8, np.float32))
    assert not words.any()
    assert not back.any()
