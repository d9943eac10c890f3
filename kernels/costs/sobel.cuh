// The Sobel x derivative, scaled and clipped, rounded half up, plus 128.
#pragma once
#include "costs/distances.cuh"
#include "costs/features.cuh"

struct Sobel : OfPixels {
    using Distance = AbsoluteDifference;

    static DEVICE void find(const GreyTile& tile, int x, int y, const FeatureSettings& settings,
                            uint8 (&found)[PIXELS]) {
        int derivative = 0;
#pragma unroll
        for (int row = -1; row <= 1; ++row)
            derivative += (row == 0 ? 2 : 1) * (tile.at(x + 1, y + row) - tile.at(x - 1, y + row));
        const float cap = fminf(settings.sobel_cap, 512.0f);  // beyond it a byte cuts as well
        const float value = fmaxf(
            fminf(__fmul_rn(float(derivative), settings.sobel_scale), cap), -cap);
        // In float64 the sum is exact wherever it comes near a whole number.
        found[0] = cut_to_byte(int(floor(__dadd_rn(double(value), 128.5))));
    }
};
