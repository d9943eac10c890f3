// The sums of 32 windows in a row, in the registers of one warp, on the tensor cores.
//
// Along x, the sum over a window is a product with a band of ones: 16 windows of one label are a
// 16 x K matrix times the K absolute differences that they cover. Matrix units compute it in
// 8-bit integers with 32-bit sums, so that no window overflows and a step costs the same for all
// windows up to 17. Down the rows the sums slide: one product adds the row that enters, one with
// the negative band takes away the row that leaves.
//
// The band holds KEY_SCALE in place of ones and the sums start from the label: each is a key,
// the SAD above the label, and the least key is the least SAD with the lowest label.
#pragma once
#include "sad/sad.cuh"

constexpr int KEY_BITS = 6, KEY_SCALE = 1 << KEY_BITS;  // labels of one warp, at most 64
constexpr int BEYOND = 1 << 30;  // key of a label beyond the range; SADs are below 2^20
constexpr int STRIP = 32;        // windows in x of one warp: two tiles of 16
constexpr int STRIP_TILES = STRIP / 16;

// Bands of the matrix product, for 16 windows and TILES times 16 pixels from the first window's
// first pixel on: KEY_SCALE where the pixel is in the window. Lane 4 g + t holds four pixels from
// 4 t on of the windows g and g + 8.
template <int TILES> struct Band {
    uint32 words[TILES][2];

    DEVICE Band(int window, int lane) {
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                words[tile][part] = 0;
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int from_first = 16 * tile + 4 * (lane & 3) + i - (lane >> 2) - 8 * part;
                    if (from_first >= 0 && from_first < window)
                        words[tile][part] |= KEY_SCALE << 8 * i;
                }
            }
    }

    // The band that subtracts: each byte times -1, 64 -> -64.
    DEVICE void negate() {
#pragma unroll
        for (int i = 0; i < 2 * TILES; ++i) words[i / 2][i % 2] *= 3;
    }

    // Hides the origin of the words from the optimiser, which would compute them again in every
    // row.
    DEVICE void hold() {
#pragma unroll
        for (int i = 0; i < 2 * TILES; ++i) asm volatile("" : "+r"(words[i / 2][i % 2]));
    }
};

// sums += band x differences, for one or two tiles of 16 pixels; 16 windows and 8 labels.
DEVICE void multiply(int (&sums)[4], const uint32 (&band)[2], uint32 difference) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(band[0]), "r"(band[1]), "r"(difference));
#else
#pragma unroll
    for (int part = 0; part < 2; ++part)
        asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+r"(sums[2 * part]), "+r"(sums[2 * part + 1])
            : "r"(band[part]), "r"(difference));
#endif
}

DEVICE void multiply(int (&sums)[4], const uint32 (&band)[2], const uint32 (&band_after)[2],
                     uint32 difference, uint32 difference_after) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(band[0]), "r"(band[1]), "r"(band_after[0]), "r"(band_after[1]), "r"(difference),
          "r"(difference_after));
#else
    multiply(sums, band, difference);
    multiply(sums, band_after, difference_after);
#endif
}

// Keys of the lanes of a warp, for the lane that reads the labels beside the best.
template <int LABEL_TILES> struct BestKeys {
    static constexpr int VECTORS = (LABEL_TILES + 3) / 4;
    int4 keys[4][VECTORS][32];  // window j, label tile q / 4, lane

    // The SAD of a label, counted from the first of the warp, of window 8 j + g.
    DEVICE int sad(int j, int g, uint32 label) const {
        const uint32 q = label >> 3, lane = 4 * g + (label >> 1 & 3);
        return reinterpret_cast<const int*>(&keys[j][0][0])[128 * (q >> 2) + 4 * lane + (q & 3)]
            >> KEY_BITS;
    }
};

// Sums of 32 windows for 8 LABEL_TILES labels in one warp. Lane 4 g + t holds the windows
// 8 j + g, j = 0 to 3, and of them the labels 8 q + 2 t + e, e = 0 and 1.
template <int TILES, int LABEL_TILES> struct Sums {
    static constexpr int KEYS = 4 * BestKeys<LABEL_TILES>::VECTORS;
    static constexpr int OFFERS = (LABEL_TILES + 7) / 4;
    int keys[STRIP_TILES][LABEL_TILES][4];

    DEVICE int& key(int j, int q, int e) { return keys[j >> 1][q][(j & 1) * 2 + e]; }

    // Labels from ``beyond`` on, counted from the first of this warp, lose to all others.
    DEVICE void clear(int t, int beyond) {
#pragma unroll
        for (int q = 0; q < LABEL_TILES; ++q)
#pragma unroll
            for (int e = 0; e < 2; ++e)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const int label = 8 * q + 2 * t + e;
                    key(j, q, e) = label < beyond ? label : label + BEYOND;
                }
    }

    // Adds the products of one row with a band. ``left`` and ``right`` point at this lane's first
    // word; with one copy the words of the right row are ``shift`` bits further on.
    template <int COPIES>
    DEVICE void slide(const Band<TILES>& band, const uint32* left, const uint32* right,
                      int shift) {
        constexpr int PIXEL_TILES = STRIP_TILES + TILES - 1;
        // A tile of pixels and 16 labels further is the same place in the right row.
        constexpr int PLACES = LABEL_TILES + 2 * (PIXEL_TILES - 1);
        uint32 own[PIXEL_TILES], other[PLACES];
#pragma unroll
        for (int i = 0; i < PIXEL_TILES; ++i) own[i] = left[4 * i];
#pragma unroll
        for (int i = 0; i < PLACES; ++i)
            other[i] = COPIES == 4 ? right[2 * i]
                                   : __funnelshift_r(right[2 * i], right[2 * i + 1], shift);
#pragma unroll
        for (int q = 0; q < LABEL_TILES; ++q) {
            uint32 difference[PIXEL_TILES];
#pragma unroll
            for (int i = 0; i < PIXEL_TILES; ++i)
                difference[i] = __vabsdiffu4(own[i], other[LABEL_TILES - 1 - q + 2 * i]);
#pragma unroll
            for (int tile = 0; tile < STRIP_TILES; ++tile) {
#pragma unroll
                for (int i = 0; i + 1 < TILES; i += 2)
                    multiply(keys[tile][q], band.words[i], band.words[i + 1], difference[tile + i],
                             difference[tile + i + 1]);
                if (TILES % 2)
                    multiply(keys[tile][q], band.words[TILES - 1], difference[tile + TILES - 1]);
            }
        }
    }

    // The least key of each window; all lanes that hold the window get it.
    DEVICE void least(int (&found)[4]) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            found[j] = min(key(j, 0, 0), key(j, 0, 1));
#pragma unroll
            for (int q = 1; q < LABEL_TILES; ++q)
                found[j] = __vimin3_s32(found[j], key(j, q, 0), key(j, q, 1));
        }
        share_least(found);
    }

    // The least key of each window among the labels further than 1 from ``label``, as above.
    DEVICE void second(const int (&label)[4], int t, int (&found)[4]) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const uint32 nearest = label[j] - 1 - 2 * t;
            found[j] = BEYOND;
#pragma unroll
            for (int q = 0; q < LABEL_TILES; ++q)
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    if (8 * q + e - nearest > 2u) found[j] = min(found[j], key(j, q, e));
        }
        share_least(found);
    }

    static DEVICE void share_least(int (&found)[4]) {
#pragma unroll
        for (int step = 1; step < 4; step *= 2)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                found[j] = min(found[j], __shfl_xor_sync(~0u, found[j], step));
    }

    // The least keys that the first ``count`` windows offer to pixels of the other image. Window
    // x with label l lies at pixel x - l; lane 4 g + t gets those of the pixels
    // 8 (OFFERS t + i - LABEL_TILES) + g.
    DEVICE void offer(int count, int g, int t, int (&offers)[OFFERS]) {
        // Windows and labels 8 further lie at the same pixel: pixels 8 d + g - 2 t - e of each
        // lane, d = k - LABEL_TILES, go to the lane with this t whose g is theirs.
        int least[4 * OFFERS];
#pragma unroll
        for (int k = 0; k < 4 * OFFERS; ++k) least[k] = BEYOND;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int from = g + 2 * t + e;
            int before = BEYOND;
#pragma unroll
            for (int k = 0; k < LABEL_TILES + 4; ++k) {
                int own = BEYOND;
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const int q = j - (k - LABEL_TILES);
                    if (q >= 0 && q < LABEL_TILES && 8 * j + g < count)
                        own = min(own, key(j, q, e));
                }
                const int got = __shfl_sync(~0u, own, 4 * (from & 7) + t);
                // From a lane beyond the last g come its values of the 8 pixels after.
                if (k > 0) least[k - 1] = min(least[k - 1], from < 8 ? before : got);
                before = got;
            }
            least[LABEL_TILES + 3] = min(least[LABEL_TILES + 3], from < 8 ? before : BEYOND);
        }
        // The four lanes with this g share the pixels.
        int kept[2 * OFFERS];
#pragma unroll
        for (int k = 0; k < 2 * OFFERS; ++k) {
            const int sent = t & 2 ? least[k] : least[k + 2 * OFFERS];
            kept[k] = min(t & 2 ? least[k + 2 * OFFERS] : least[k], __shfl_xor_sync(~0u, sent, 2));
        }
#pragma unroll
        for (int k = 0; k < OFFERS; ++k) {
            const int sent = t & 1 ? kept[k] : kept[k + OFFERS];
            offers[k] = min(t & 1 ? kept[k + OFFERS] : kept[k], __shfl_xor_sync(~0u, sent, 1));
        }
    }

    // The keys of window j with this e, one for each label tile.
    DEVICE void choose(int j, bool e, int (&chosen)[KEYS]) {
#pragma unroll
        for (int q = 0; q < KEYS; ++q) {
            const int at = q < LABEL_TILES ? q : 0;
            chosen[q] = e ? key(j, at, 1) : key(j, at, 0);
        }
    }
};
