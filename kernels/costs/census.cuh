// Census: which neighbours in a window are darker than its centre.
#pragma once
#include "costs/distances.cuh"
#include "costs/features.cuh"

// The top bit of every byte of ``a`` that is less than that of ``b``; other bits are any.
DEVICE uint32 less_bytes(uint32 a, uint32 b) {
    const uint32 top = 0x80808080u, difference = (a | top) - (b & ~top);
    return (~a & b) | (~(a ^ b) & ~difference);
}

// Bits of four pixels side by side. ``image``: of the tile; SPACING: pixels from one neighbour to
// the next.
template <int WIDTH, int HEIGHT, int SPACING>
DEVICE void darker_neighbours(const GreyTile& tile, const uint8* image, int x, int y,
                              uint64 (&bits)[4]) {
    constexpr int COUNT = WIDTH * HEIGHT - 1;  // the centre has no bit
    static_assert(COUNT <= 64, "a bit for each neighbour");
    constexpr int REACH = SPACING * (WIDTH / 2), WORDS = (2 * REACH + 7) / 4;
    const uint32 centre = tile.bytes_at(image, x, y);
    uint32 groups[8] = {};  // bytes of the pixels: of eight bits, the first one lowest
#pragma unroll
    for (int row = 0; row < HEIGHT; ++row) {
        uint32 words[WORDS];
        tile.bytes_at(image, x - REACH, y + SPACING * (row - HEIGHT / 2), words);
#pragma unroll
        for (int column = 0; column < WIDTH; ++column) {
            if (row == HEIGHT / 2 && column == WIDTH / 2) continue;
            const int place = row * WIDTH + column, i = place - (place > COUNT / 2);
            const int first = SPACING * column, word = first / 4;
            const uint32 others = __funnelshift_r(
                words[word], words[word + (first % 4 > 0)], 8 * (first % 4));
            groups[i / 8] = groups[i / 8] >> 1 | (less_bytes(others, centre) & 0x80808080u);
        }
    }
    groups[COUNT / 8 % 8] >>= (8 - COUNT % 8) % 8;
#pragma unroll
    for (int pixel = 0; pixel < 4; ++pixel) {
        uint32 halves[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32* const four = groups + 4 * half;
            const int pick = pixel * 0x11 + 0x40;  // a byte of either word
            halves[half] = __byte_perm(__byte_perm(four[0], four[1], pick),
                                       __byte_perm(four[2], four[3], pick), 0x5410);
        }
        bits[pixel] = uint64(halves[1]) << 32 | halves[0];
    }
}

template <int WIDTH, int HEIGHT>
struct Census : OfPixels {
    using Distance = Hamming;
    static constexpr int PIXELS = 4;

    static DEVICE void find(const GreyTile& tile, int x, int y, const FeatureSettings&,
                            uint64 (&found)[PIXELS]) {
        darker_neighbours<WIDTH, HEIGHT, 1>(tile, tile.pixels, x, y, found);
    }
};

// Of the mean of 3 x 3 pixels, with twice the spacing.
template <int WIDTH, int HEIGHT>
struct SparseCensus {
    using Distance = Hamming;
    static constexpr int PIXELS = 4;

    static DEVICE void prepare(const GreyTile& tile, const FeatureSettings&) { tile.fill_means(); }
    static DEVICE void find(const GreyTile& tile, int x, int y, const FeatureSettings&,
                            uint64 (&found)[PIXELS]) {
        darker_neighbours<WIDTH, HEIGHT, 2>(tile, tile.means, x, y, found);
    }
};
