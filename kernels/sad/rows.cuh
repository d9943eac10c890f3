// The pixels that a block of stage sad needs, as 8 bits in shared memory.
#pragma once
#include "sad/sad.cuh"

// Four neighbouring pixels of an image of ``count``, from pixel ``at`` on, the first in the lowest
// byte. Outside the image any readable value will do: windows that have a label lie inside. Free
// of branches, so that many of these loads are under way at once.
DEVICE uint32 four_pixels(const uint8* image, int at, int count, int) {
    const uint32* const words = reinterpret_cast<const uint32*>(image);
    const int last = (count - 1) >> 2, word = at >> 2;
    return __funnelshift_r(words[min(max(word, 0), last)], words[min(max(word + 1, 0), last)],
                           8 * (at & 3));
}

DEVICE uint32 four_pixels(const float* image, int at, int count, int offset) {
    uint32 word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        word |= rounded(image[min(max(at + i, 0), count - 1)], offset) << 8 * i;
    return word;
}

// The rows of both images that one block needs, in shared memory. Byte 0 of a row of the left one
// is the first pixel of the first window. In the right one that pixel is compared with byte LABELS
// - 1 for label 0, and with byte 0 for the last label. COPIES = 4 keeps the right row four times,
// copy s from byte s on, so that any four neighbours are one aligned word.
template <int TILES, int LABELS, int STRIPS, int COPIES> struct Rows {
    static constexpr int LEFT_WORDS = 8 * STRIPS + 4 * (TILES - 1);
    static constexpr int RIGHT_WORDS = LEFT_WORDS + LABELS / 4;
    // Copies begin 8 or 24 banks apart: the four that a warp reads at once lie in different banks.
    static constexpr int PITCH = (RIGHT_WORDS + 7) / 16 * 16 + 8;
    static constexpr int ROW_WORDS = LEFT_WORDS + COPIES * PITCH;

    // Fills ``count`` rows from (x, y) on, which may lie outside the image.
    template <typename Image>
    static __device__ void load(uint32* rows, const Windows& p, int x, int y, int count) {
        const int right_x = x - p.min_disparity - (LABELS - 1);
        for (int first = 0; first < LEFT_WORDS; first += 32)
            load_columns<Image, 0, LEFT_WORDS>(rows, p, p.left, x, y, count, first);
        for (int first = 0; first < RIGHT_WORDS; first += 31)
            load_columns<Image, COPIES, RIGHT_WORDS>(rows + LEFT_WORDS, p, p.right, right_x, y,
                                                     count, first);
    }

    // Rows of up to 32 words, one in each lane. For SHIFTED copies the last lane holds the word
    // after that of the lane before it.
    template <typename Image, int SHIFTED, int WORDS>
    static DEVICE void load_columns(uint32* to, const Windows& p, const void* image, int x, int y,
                                    int count, int first) {
        constexpr int TOGETHER = 8;
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
        const int column = first + lane;
        for (int begin = warp; begin < count; begin += TOGETHER * warps) {
            uint32 words[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i)
                words[i] = four_pixels(static_cast<const Image*>(image),
                                       (y + begin + i * warps) * p.width + x + 4 * column,
                                       p.width * p.height, p.offset);
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                const int row = begin + i * warps;
                if (row >= count) break;
                uint32* const place = to + row * ROW_WORDS + column;
                if constexpr (SHIFTED == 0) {
                    if (column < WORDS) *place = words[i];
                } else {
                    const uint32 after = __shfl_down_sync(~0u, words[i], 1);
                    if (lane == 31 || column >= WORDS) continue;
#pragma unroll
                    for (int copy = 0; copy < SHIFTED; ++copy)
                        place[copy * PITCH] = copy ? __funnelshift_r(words[i], after, 8 * copy)
                                                   : words[i];
                }
            }
        }
    }
};
