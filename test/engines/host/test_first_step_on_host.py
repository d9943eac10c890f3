"""The lower envelope with a first step of its own, as C++ of the kernels on the host."""

from __future__ import annotations

import ctypes
import shutil
from typing import Any

import numpy as np
import pytest

from test.engines.support import host_cuda, naive_costs

pytestmark = pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++')

#: Ranges of each format.
RANGES = {'Int16': (2, 21, 64, 512),
          'Int16Bytes': (3, 16, 130), 'Int16SixBits': (64, 128)}

LOWER = """
// Vectors of one warp: sums in, messages as they come back from memory out, all of D labels.
// Returns how many they are.
template <typename Message, int D>
int lower(const unsigned short* sums, unsigned short* sent, int slope, int first_step,
           int truncation) {
    using S = Shape<Message, D>;
    using V = Vector<Message, D>;
    constexpr int NODES = 32 / S::LANES;
    const Smoothness<uint32> smooth = {Message::splat(slope), Message::splat(truncation),
                                       Message::splat(first_step)};
    std::vector<typename Message::Unit> memory(NODES * S::UNITS);
    HostBlock block(32);
    block.run({}, {1, 1, 1}, [&] {
        const int node = threadIdx.x % NODES, lane = threadIdx.x / NODES;
        const unsigned short* const own = sums + node * D;
        uint32 words[S::WORDS];
        for (int r = 0; r < S::WORDS; ++r) {
            const int label = 4 * V::chunk(lane, r / 4) + r % 4, mirrored = S::PADDED - 1 - label;
            const uint32 low = label >= 0 && label < D ? own[label] : 5;
            words[r] = low | uint32(label >= 0 && mirrored < D ? own[mirrored] : 7) << 16;
        }
        const uint32 middle = Envelope<Message, D>::compute(words, lane, NODES, smooth);
        auto* const at = memory.data() + node * S::UNITS;
        V::store(words, middle, lane, at, 1);
        __syncthreads();
        V::template read<false>({at, 1}, lane, smooth, words);
        for (int r = 0; r < S::WORDS; ++r) {
            const int label = 4 * V::chunk(lane, r / 4) + r % 4, mirrored = S::PADDED - 1 - label;
            if (label >= 0 && label < D) sent[node * D + label] = words[r] & 0xffff;
            if (label >= 0 && mirrored < D) sent[node * D + mirrored] = words[r] >> 16;
        }
    });
    return NODES;
}
"""

ENTRY = """
extern "C" int NAME(const unsigned short* sums, unsigned short* sent, int slope, int first_step,
                    int truncation) {
    return lower<FORMAT, DISPARITIES>(sums, sent, slope, first_step, truncation);
}
"""


@pytest.fixture(scope='module')
def library() -> Any:
    entries = [ENTRY.replace('NAME', f'{kind}_{disparities}').replace(
        'FORMAT', f'{kind}FirstStep').replace('DISPARITIES', str(disparities))
        for kind, ranges in RANGES.items() for disparities in ranges]
    return host_cuda.compiled(
        host_cuda.source('hierarchical/envelope.cuh') + LOWER + ''.join(entries))


@pytest.mark.parametrize(('kind', 'disparities'), [
    (kind, disparities) for kind, ranges in RANGES.items() for disparities in ranges])
def test_messages_come_back_as_the_envelope_that_is_defined(library: Any, kind: str,
                                                            disparities: int) -> None:
    rng = np.random.default_rng(disparities)
    for slope, first_step, truncation in ((20, 10, 120), (31, 0, 255), (30, 29, 40), (7, 3, 250)):
        for largest in (2 * truncation, 12 * slope):
            sums = rng.integers(0, largest, (32, disparities)).astype(np.uint16)
            sums[::3] += np.uint16(1000)
            sent = np.zeros_like(sums)
            nodes = getattr(library, f'{kind}_{disparities}')(
                sums.ctypes.data_as(ctypes.c_void_p), sent.ctypes.data_as(ctypes.c_void_p), slope,
                first_step, truncation)
            expected = naive_costs.envelope(sums[:nodes].astype(int), first_step, slope,
                                            truncation)
            found = sent[:nodes].astype(np.int16).astype(int)
            if kind == 'Int16SixBits':      # a constant is lost
                found -= found.min(axis=1, keepdims=True)
            np.testing.assert_array_equal(found, expected)
