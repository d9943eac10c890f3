// The grey value minus the mean of a box, rounded half up, plus 128.
#pragma once
#include "costs/distances.cuh"
#include "costs/features.cuh"

struct Residual {
    static constexpr int PIXELS = 1;
    using Distance = AbsoluteDifference;

    // Sums over the rows of the box of every pixel.
    static DEVICE void prepare(const GreyTile& tile, const FeatureSettings& settings) {
        const int radius = settings.residual_radius;
        for (int i = threadIdx.x; i < tile.rows * TILE_WIDTH; i += THREADS) {
            const int x = i % TILE_WIDTH, y = i / TILE_WIDTH - tile.halo;
            int sum = 0;
            for (int step = -radius; step <= radius; ++step) sum += tile.at(x + step, y);
            tile.sums[i] = sum;
        }
    }
    static DEVICE void find(const GreyTile& tile, int x, int y, const FeatureSettings& settings,
                            uint8 (&found)[PIXELS]) {
        const int radius = settings.residual_radius;
        const int count = (2 * radius + 1) * (2 * radius + 1);
        int sum = 0;
        for (int step = -radius; step <= radius; ++step)
            sum += tile.sums[(y + step + tile.halo) * TILE_WIDTH + x];
        // floor(value - mean + 1/2), with 256 added so that the quotient is not negative.
        const int doubled = 2 * (count * (tile.at(x, y) + 256) - sum) + count;
        found[0] = cut_to_byte(doubled / (2 * count) - 128);
    }
};
