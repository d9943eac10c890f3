// Census: which neighbours in a window are darker than its centre.
#pragma once
#include "costs/distances.cuh"
#include "costs/features.cuh"

// ``image``: of the tile. SPACING: pixels from one neighbour to the next.
template <int WIDTH, int HEIGHT, int SPACING>
DEVICE uint64 darker_neighbours(const GreyTile& tile, const uint8* image, int x, int y) {
    static_assert(WIDTH * HEIGHT <= 65, "a bit for each neighbour");
    const int centre = tile.at(image, x, y);
    uint32 bits[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < WIDTH * HEIGHT - 1; ++i) {
        const int place = i + (i >= WIDTH * HEIGHT / 2);  // the centre has no bit
        const int other = tile.at(image, x + SPACING * (place % WIDTH - WIDTH / 2),
                                  y + SPACING * (place / WIDTH - HEIGHT / 2));
        bits[i / 32] |= uint32(other < centre) << i % 32;
    }
    return uint64(bits[1]) << 32 | bits[0];
}

template <int WIDTH, int HEIGHT>
struct Census : OfPixels {
    using Distance = Hamming;

    static DEVICE uint64 feature(const GreyTile& tile, int x, int y, const FeatureSettings&) {
        return darker_neighbours<WIDTH, HEIGHT, 1>(tile, tile.pixels, x, y);
    }
};

// Of the mean of 3 x 3 pixels, with twice the spacing.
template <int WIDTH, int HEIGHT>
struct SparseCensus {
    using Distance = Hamming;

    static DEVICE void prepare(const GreyTile& tile, const FeatureSettings&) { tile.fill_means(); }
    static DEVICE uint64 feature(const GreyTile& tile, int x, int y, const FeatureSettings&) {
        return darker_neighbours<WIDTH, HEIGHT, 2>(tile, tile.means, x, y);
    }
};
