// Census: which neighbours in a window are darker than its centre.
#pragma once
#include "costs/distances.cuh"
#include "costs/features.cuh"

template <int WIDTH, int HEIGHT>
struct Census : OfPixels {
    using Distance = Hamming;
    static_assert(WIDTH * HEIGHT <= 65, "a bit for each neighbour");

    static DEVICE uint64 feature(const GreyTile& tile, int x, int y, const FeatureSettings&) {
        const int centre = tile.at(x, y);
        uint32 bits[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < WIDTH * HEIGHT - 1; ++i) {
            const int place = i + (i >= WIDTH * HEIGHT / 2);  // the centre has no bit
            const int other = tile.at(x + place % WIDTH - WIDTH / 2,
                                      y + place / WIDTH - HEIGHT / 2);
            bits[i / 32] |= uint32(other < centre) << i % 32;
        }
        return uint64(bits[1]) << 32 | bits[0];
    }
};
