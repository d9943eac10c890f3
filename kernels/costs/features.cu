// Stage cost, multi-feature costs: the features of both images. blockIdx.z = image.
#include "costs/costs.cuh"

extern __shared__ uint4 shared[];

template <typename Cost>
DEVICE void make_feature(const FeatureLaunch& p, const GreyTile& tile, void* features) {
    using Value = typename Cost::Distance::Value;
    auto* const to = static_cast<Value*>(features);
    for (int i = threadIdx.x * Cost::PIXELS; i < TILE_WIDTH * TILE_HEIGHT;
         i += THREADS * Cost::PIXELS) {
        const int column = i % TILE_WIDTH, row = i / TILE_WIDTH;
        const int x = blockIdx.x * TILE_WIDTH + column, y = blockIdx.y * TILE_HEIGHT + row;
        if (x >= p.width || y >= p.height) continue;
        Value found[Cost::PIXELS];
        Cost::find(tile, column, row, p.settings, found);
#pragma unroll
        for (int pixel = 0; pixel < Cost::PIXELS; ++pixel)
            if (x + pixel < p.width) to[y * p.width + x + pixel] = found[pixel];
    }
}

// Pixel: uint8, or float, which is rounded to 8 bits.
template <typename Pixel, typename... Costs>
__global__ void __launch_bounds__(THREADS) make_features(const __grid_constant__ FeatureLaunch p) {
    stamp_time(p.stamp);
    const GreyTile tile(shared, p.halo);
    tile.load(static_cast<const Pixel*>(p.grey[blockIdx.z]), p.width, p.height);
    __syncthreads();
    (Costs::prepare(tile, p.settings), ...);
    __syncthreads();
    int cost = 0;
    (make_feature<Costs>(p, tile, p.features[cost++][blockIdx.z]), ...);
}
