// The grey value itself.
#pragma once
#include "costs/distances.cuh"
#include "costs/features.cuh"

struct Grey : OfPixels {
    using Distance = AbsoluteDifference;

    static DEVICE uint8 feature(const GreyTile& tile, int x, int y, const FeatureSettings&) {
        return uint8(tile.at(x, y));
    }
};
