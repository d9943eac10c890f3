// The labels that a pixel has in a search of a band: two windows around its centres.
//
// What belongs to the labels of a pixel takes six words in memory, three of each window: label r of
// a window, from 0 on, is in its byte r, and bytes without a label are 255. Two neighbouring threads
// of a warp have a pixel, one window each, with two labels in a word.
#pragma once
#include "hierarchical/formats/int16.cuh"

constexpr int WINDOW_WORDS = 3, PIXEL_WORDS = 6;  // in memory
constexpr int PAIRS = 5;                          // words of a thread
constexpr int WINDOW_BYTES = 4 * WINDOW_WORDS;

// Above every value, also with a few of these added.
constexpr uint32 NEVER = 0x0fff0fffu;

// Of a partition.
struct Windows {
    const short* centres;  // [y][x][window] of the image, from the first pixel of the partition on
    int image_width, width, height;
    int radius;  // labels on each side of a centre, at most 4
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

DEVICE size_t first_word(const Windows& w, int x, int y, int window) {
    return (size_t(y) * w.width + x) * PIXEL_WORDS + window * WINDOW_WORDS;
}

// The values of a window.
struct Pairs {
    uint32 words[PAIRS];

    DEVICE static Pairs splat(uint32 word) {
        Pairs pairs;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) pairs.words[i] = word;
        return pairs;
    }
    DEVICE static Pairs of(const uint32 (&bytes)[WINDOW_WORDS]) {
        Pairs pairs;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i)
            pairs.words[i] = __byte_perm(bytes[i / 2], 0, i % 2 ? 0x4342 : 0x4140);
        return pairs;
    }
    DEVICE static Pairs from(const uint32* at) {
        const uint32 bytes[WINDOW_WORDS] = {at[0], at[1], at[2]};
        return of(bytes);
    }
    // Of values of at most 255, and NEVER.
    DEVICE void to(uint32* bytes) const {
#pragma unroll
        for (int i = 0; i < WINDOW_WORDS; ++i)
            bytes[i] = __byte_perm(words[2 * i], 2 * i + 1 < PAIRS ? words[2 * i + 1] : ~0u, 0x6420);
    }
    // A label's value, from 0 on.
    DEVICE uint32 label(int r) const { return words[r / 2] >> 16 * (r % 2) & 0xffffu; }

    // NEVER where there is no label.
    DEVICE void leave_out(int radius) {
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            if (2 * i > 2 * radius) words[i] = NEVER;
            if (2 * i + 1 > 2 * radius) words[i] |= NEVER & 0xffff0000u;
        }
    }
    DEVICE void add(const Pairs& others) {
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) words[i] += others.words[i];
    }
    DEVICE void cut(uint32 greatest) {
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) words[i] = Int16::least_small(words[i], greatest);
    }
    DEVICE void cut(const Pairs& others) {
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) words[i] = Int16::least_small(words[i], others.words[i]);
    }
    // The least value of the pixel, in both halves.
    DEVICE uint32 least() const {
        uint32 word = Int16::least_small(Int16::least_small(words[0], words[1]),
                                         Int16::least_small(words[2], words[3]));
        word = Int16::least_small(word, words[4]);
        word = Int16::least_small(word, __shfl_xor_sync(~0u, word, 1));
        return Int16::least_small(word, Int16::swap(word));
    }
    // The values of the labels 2 i and 2 i + 1, and of 2 i - 1 and 2 i; NEVER beyond the window.
    DEVICE uint32 at(int i) const { return i < 0 || i >= PAIRS ? NEVER : words[i < 0 ? 0 : i]; }
    DEVICE uint32 before(int i) const { return __byte_perm(at(i - 1), at(i), 0x5432); }
};
