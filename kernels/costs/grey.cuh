// The grey value itself.
#pragma once
#include "costs/distances.cuh"
#include "costs/features.cuh"

struct Grey : OfPixels {
    using Distance = AbsoluteDifference;

    static DEVICE void find(const GreyTile& tile, int x, int y, const FeatureSettings&,
                            uint8 (&found)[PIXELS]) {
        found[0] = uint8(tile.at(x, y));
    }
};
