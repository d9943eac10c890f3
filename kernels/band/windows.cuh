// The labels that a pixel has in a search of a band: two windows around its centres.
//
// What belongs to the labels of a pixel takes eight words, four of each window. Label r of a
// window, from 0 on, is in its byte BAND_FIRST + r. Eight neighbouring threads of a warp have a
// pixel, one word each.
#pragma once
#include "device.cuh"

constexpr int BAND_WORDS = 8, BAND_FIRST = 3;

// Of a block.
constexpr int BAND_THREADS = 256;

// Of a partition.
struct Windows {
    const short* centres;  // [y][x][window] of the image, from the first pixel of the partition on
    int image_width, width, height;
    int radius;  // labels on each side of a centre
};

struct Centres { int first, second; };

DEVICE Centres centres_at(const Windows& w, int x, int y) {
    const uint32 both = __ldg(reinterpret_cast<const uint32*>(w.centres)
                              + size_t(y) * w.image_width + x);
    return {int(both & 0xffffu), int(both >> 16)};
}

DEVICE int band_word() { return threadIdx.x % BAND_WORDS; }

// The label of a thread's first byte.
DEVICE int first_label(Centres centres, int radius) {
    const int word = band_word();
    return (word < 4 ? centres.first : centres.second) - radius - BAND_FIRST + 4 * (word % 4);
}

DEVICE uint32 splat_bytes(uint32 byte) { return byte * 0x01010101u; }

// 255 in a thread's bytes that have no label.
DEVICE uint32 unsearched_bytes(int radius) {
    uint32 bytes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint32 place = 4 * (band_word() % 4) + i - BAND_FIRST;
        bytes |= (place <= uint32(2 * radius) ? 0u : 0xffu) << 8 * i;
    }
    return bytes;
}

// The least value of a pixel's threads.
DEVICE uint32 least_of_pixel(uint32 value) {
#pragma unroll
    for (int i = 1; i < BAND_WORDS; i *= 2) value = min(value, __shfl_xor_sync(~0u, value, i));
    return value;
}

// The least byte of a pixel, in all bytes.
DEVICE uint32 least_byte(uint32 word) {
    return splat_bytes(least_of_pixel(min(min(word & 0xffu, word >> 8 & 0xffu),
                                          min(word >> 16 & 0xffu, word >> 24))));
}

// Four bytes of a window of the same pixel, from byte ``first`` on; 0 beyond it.
DEVICE uint32 bytes_from(uint32 word, int window, int first) {
    const int at = first >> 2;
    const uint32 low = __shfl_sync(~0u, word, 4 * window + (at & 3), BAND_WORDS);
    const uint32 high = __shfl_sync(~0u, word, 4 * window + (at + 1 & 3), BAND_WORDS);
    return __funnelshift_r(uint32(at) < 4u ? low : 0u, uint32(at + 1) < 4u ? high : 0u,
                           8 * (first & 3));
}

// Values of a pixel's labels, from those of a neighbour's: 0 where a label is not one of them, the
// greater one where both of its windows have it.
DEVICE uint32 from_neighbour(uint32 word, Centres own, Centres other) {
    const int window = band_word() / 4, byte = 4 * (band_word() % 4);
    const int centre = window ? own.second : own.first;
    const int same = centre - (window ? other.second : other.first);
    const int crossed = centre - (window ? other.first : other.second);
    return __vmaxu4(bytes_from(word, window, byte + same),
                    bytes_from(word, 1 - window, byte + crossed));
}

// The words before and after a thread's in its window; 0 beyond.
struct Beside {
    uint32 before, after;
    DEVICE explicit Beside(uint32 word) {
        before = __shfl_up_sync(~0u, word, 1, 4);
        after = __shfl_down_sync(~0u, word, 1, 4);
        if (band_word() % 4 == 0) before = 0;
        if (band_word() % 4 == 3) after = 0;
    }
};

// The greater of the values so many labels below and above each, less ``cost``: 0 at least.
template <int LABELS>
DEVICE uint32 moved(uint32 word, const Beside& beside, uint32 cost) {
    const uint32 below = __funnelshift_r(beside.before, word, 32 - 8 * LABELS);
    const uint32 above = __funnelshift_r(word, beside.after, 8 * LABELS);
    return __vsubus4(__vmaxu4(below, above), cost);
}
