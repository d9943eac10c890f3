// Stage cost, combined costs: the features of both images. blockIdx.z = image.
#include "costs/costs.cuh"

extern __shared__ uint4 shared[];

template <typename Cost>
DEVICE void make_feature(const FeatureLaunch& p, const GreyTile& tile, void* features) {
    auto* const to = static_cast<typename Cost::Distance::Value*>(features);
    for (int i = threadIdx.x; i < TILE_WIDTH * TILE_HEIGHT; i += THREADS) {
        const int column = i % TILE_WIDTH, row = i / TILE_WIDTH;
        const int x = blockIdx.x * TILE_WIDTH + column, y = blockIdx.y * TILE_HEIGHT + row;
        if (x < p.width && y < p.height)
            to[y * p.width + x] = Cost::feature(tile, column, row, p.settings);
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
