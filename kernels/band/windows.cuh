// The labels that a pixel has in a search of a band: two windows around its centres.
//
// Label r of a window, from 0 on, is in its byte r, and bytes without a label are 255. Two
// neighbouring threads of a warp have a pixel, one window each, with two labels in a word.
#pragma once
#include "hierarchical/formats/int16.cuh"

// Above every value, also with a few of these added.
constexpr uint32 NEVER = 0x0fff0fffu;

// Of a partition.
struct Windows {
    const short* centres;  // [y][x][window] of the image, from the first pixel of the partition on
    int image_width, width, height;

    DEVICE size_t place(int x, int y) const { return size_t(y) * width + x; }
};

struct Centres {
    uint32 both;
    DEVICE int of(int window) const { return int(both >> 16 * window & 0xffffu); }
};

DEVICE Centres centres_at(const Windows& w, int x, int y) {
    return {__ldg(reinterpret_cast<const uint32*>(w.centres) + size_t(y) * w.image_width + x)};
}

// The window of a thread.
DEVICE int own_window() { return threadIdx.x % 2; }

// The values of a window whose labels reach RADIUS to both sides of its centre.
template <int RADIUS>
struct Window {
    static constexpr int LABELS = 2 * RADIUS + 1;
    static constexpr int WORDS = (LABELS + 3) / 4;   // in memory
    static constexpr int PIXEL_WORDS = 2 * WORDS;    // of both windows
    static constexpr int PAIRS = RADIUS + 1;
    uint32 pairs[PAIRS];

    DEVICE static Window splat(uint32 word) {
        Window window;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) window.pairs[i] = word;
        return window;
    }
    DEVICE static Window of(const uint32 (&bytes)[WORDS]) {
        Window window;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i)
            window.pairs[i] = __byte_perm(bytes[i / 2], 0, i % 2 ? 0x4342 : 0x4140);
        return window;
    }
    DEVICE static Window from(const uint32* at) {
        uint32 bytes[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; ++i) bytes[i] = at[i];
        return of(bytes);
    }
    // Of values of at most 255, and NEVER.
    DEVICE void to(uint32* at) const {
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
            at[i] = __byte_perm(pair(2 * i), pair(2 * i + 1), 0x6420);
    }

    // The values of the labels 2 i and 2 i + 1, and of 2 i - 1 and 2 i; NEVER beyond the window.
    DEVICE uint32 pair(int i) const {
        return i < 0 || i >= PAIRS ? NEVER : pairs[i < 0 || i >= PAIRS ? 0 : i];
    }
    DEVICE uint32 odd_pair(int i) const { return __byte_perm(pair(i - 1), pair(i), 0x5432); }
    DEVICE uint32 label(int r) const { return pairs[r / 2] >> 16 * (r % 2) & 0xffffu; }

    // The last pair has one label: NEVER for the other.
    DEVICE void leave_out() { pairs[PAIRS - 1] |= NEVER & 0xffff0000u; }
    DEVICE void add(const Window& others) {
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) pairs[i] += others.pairs[i];
    }
    DEVICE void cut(uint32 greatest) {
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) pairs[i] = Int16::least_small(pairs[i], greatest);
    }
    DEVICE void cut(const Window& others) {
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) pairs[i] = Int16::least_small(pairs[i], others.pairs[i]);
    }
    // The least value of the pixel, in both halves.
    DEVICE uint32 least() const {
        uint32 word = pairs[0];
#pragma unroll
        for (int i = 1; i + 1 < PAIRS; i += 2) word = Int16::least(word, pairs[i], pairs[i + 1]);
        if (PAIRS % 2 == 0) word = Int16::least_small(word, pairs[PAIRS - 1]);
        word = Int16::least_small(word, __shfl_xor_sync(~0u, word, 1));
        return Int16::least_small(word, Int16::swap(word));
    }
};
