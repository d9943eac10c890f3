"""How messages are kept in memory, and small functions of kernels, as C++ on the host."""

from __future__ import annotations

import ctypes
import re
import shutil
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros.engines.cuda.hierarchical import formats
from test.engines.support import host_cuda

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

HALVES_ROUND_TRIP = """
// Both sides of two chunks, one after the other: side, chunk, value.
extern "C" void keep_halves(const float* values, unsigned* kept, float* back) {
    using M = Float32ThreeBytesSplit;
    M::Unit units[3 * 5];
    for (int side = 0; side < 2; ++side) {
        const M::Word words[4] = {values[4 * side], values[4 * side + 1], values[4 * side + 2],
                                  values[4 * side + 3]};
        M::store(units, 5, side, words);
    }
    for (int i = 0; i < 3; ++i) {
        kept[2 * i] = units[5 * i].x;
        kept[2 * i + 1] = units[5 * i].y;
    }
    for (int side = 0; side < 2; ++side) {
        M::Word words[4];
        M::load<false>(units, 5, side, words);
        for (int i = 0; i < 4; ++i) back[4 * side + i] = words[i];
    }
}

// A side of a vector, whose last value is ``middle`` or one slope off it.
extern "C" void keep_fixed(const int* values, int chunks, int middle, int bound, int* back) {
    using M = Fixed32;
    std::vector<uint2> kept(chunks);
    M::Running value = M::begin(middle);
    for (int c = chunks - 1; c >= 0; --c) {
        const M::Word words[4] = {values[4 * c], values[4 * c + 1], values[4 * c + 2],
                                  values[4 * c + 3]};
        kept[c] = M::lead(words, value);
    }
    value = M::begin(bound);
    for (int c = chunks - 1; c >= 0; --c) {
        M::Word words[4];
        M::follow(kept[c], value, words);
        for (int i = 0; i < 4; ++i) back[4 * c + i] = words[i];
    }
}
"""


@pytest.fixture(scope='module')
def library() -> Any:
    source = host_cuda.source('hierarchical/formats.cuh')
    return host_cuda.compiled(source + ROUND_TRIP + HALVES_ROUND_TRIP)


def kept(library: Any, values: np.ndarray, in_halves: bool = False
         ) -> tuple[np.ndarray, np.ndarray]:
    """Words and values of 8 values that were kept in three bytes each."""
    words, back = np.empty(6, np.uint32), np.empty(8, np.float32)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (values, words, back)]
    (library.keep_halves if in_halves else library.keep)(*pointers)
    return words, back


@pytest.mark.parametrize('in_halves', [False, True])
def test_three_bytes_keep_every_value_up_to_half_a_step(library: Any, in_halves: bool) -> None:
    words, back = kept(library, np.zeros(8, np.float32), in_halves)
    assert not words.any()
    assert not back.any()
    rng = np.random.default_rng(0)
    # Alone and among others: each value has bytes of its own.
    alone = [value * one for one in np.eye(8, dtype=np.float32) for value in (
        np.float32(2.0 ** -22), np.float32(1.25), np.nextafter(np.float32(2), np.float32(0)))]
    for values in (*alone, *rng.uniform(0, 2, (200, 8)).astype(np.float32)):
        back = kept(library, values, in_halves)[1]
        assert np.abs(back.astype(float) - values).max() <= 2.0 ** -23
        assert not back[values == 0].any()
        # What has been kept once does not change any more.
        assert np.array_equal(kept(library, back, in_halves)[1], back)


@pytest.mark.parametrize('chunks', [8, 13, 16])
def test_whole_numbers_lose_a_constant_and_nothing_else(library: Any, chunks: int) -> None:
    rng = np.random.default_rng(1)
    slope, bound = formats.MAX_SLOPE_OF_FIXED, 127 * formats.MAX_SLOPE_OF_FIXED
    for steps in (rng.integers(-slope, slope + 1, 4 * chunks),
                  np.full(4 * chunks, slope), np.full(4 * chunks, -slope)):
        # From the middle, where the other side is, outwards.
        values = (bound // 2 + np.cumsum(steps)[::-1]).astype(np.int32)
        back = np.empty_like(values)
        library.keep_fixed(values.ctypes.data_as(ctypes.c_void_p), chunks, bound // 2, bound,
                           back.ctypes.data_as(ctypes.c_void_p))
        assert np.array_equal(back - bound, values - bound // 2)


def test_what_is_replaced_on_the_host_is_in_the_kernels_and_no_constant_stands_for_a_result(
        ) -> None:
    kernels = ''.join(path.read_text(encoding='utf-8')
                      for path in host_cuda.KERNELS.rglob('*.cu*'))
    assert [start for start in host_cuda.BODIES if start not in kernels] == []
    # Clocks are no results.
    constants = [start for start, body in host_cuda.BODIES.items()
                 if re.fullmatch(r'return \w*(\(\))?;', body) and not start.startswith('void')]
    assert constants == ['uint64 time_in_ns()', 'int hide_from_optimiser(']


FOUR = """
extern "C" unsigned four(unsigned pixel, unsigned others, unsigned truncation) {
    return PackedCosts<Bytes, Multiples, 16>::four(pixel, others, truncation);
}
"""


def test_four_costs_at_once_are_the_truncated_differences_of_their_bytes() -> None:
    library = host_cuda.compiled(host_cuda.source('hierarchical/cost.cu') + FOUR)
    library.four.restype = ctypes.c_uint32
    rng = np.random.default_rng(3)
    for truncation in (1, 7, 15, 64, 127):
        for _ in range(50):
            pixel, *others = (int(value) for value in rng.integers(0, 256, 5))
            packed = sum(other << 8 * i for i, other in enumerate(others))
            found = library.four(ctypes.c_uint32(0x01010101 * pixel), ctypes.c_uint32(packed),
                                 ctypes.c_uint32(0x01010101 * truncation))
            assert [found >> 8 * i & 0xff for i in range(4)] == [
                min(abs(pixel - other), truncation) for other in others]


FRACTIONS = """
extern "C" void run(int count, const int* before, const int* least, const int* after, int* to) {
    for (int i = 0; i < count; ++i) to[i] = whole_sixteenths(before[i], least[i], after[i]);
}
"""

#: The largest SAD of a window.
MAX_SAD = 51 * 51 * 255


def test_fractions_of_sad_are_where_two_lines_meet() -> None:
    library = host_cuda.compiled(host_cuda.source('frame/subpixel.cuh') + FRACTIONS)
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
