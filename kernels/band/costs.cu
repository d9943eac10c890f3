// Search of a band: the combined data cost of every pixel's labels.
#include "band/windows.cuh"
#include "costs/costs.cuh"
#include "costs/terms.cuh"

constexpr int BAND_COST_THREADS = 256;

struct BandCostLaunch {
    Windows windows;
    const void* left[MAX_COSTS];  // features of the whole images
    const void* right[MAX_COSTS];
    Term terms[MAX_COSTS];
    uint8* cost;  // [height][width], windows of a pixel
    int first_x, first_y;  // of the partition
    int min_disparity, outside_cost;
};

// Adds the costs of four labels of a pixel. ``other``: the pixel that the first one meets.
template <typename... Costs> struct BandCosts {
    static DEVICE void add(const BandCostLaunch&, int, size_t, int, int, uint32 (&)[4]) {}
};
template <typename Cost, typename... Others>
struct BandCosts<Cost, Others...> {
    static DEVICE void add(const BandCostLaunch& p, int index, size_t line, int x, int other,
                           uint32 (&sums)[4]) {
        using Value = typename Cost::Distance::Value;
        const Value own = __ldg(static_cast<const Value*>(p.left[index]) + line + x);
        const Value* const others = static_cast<const Value*>(p.right[index]) + line;
        const Term term = p.terms[index];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            if (unsigned(other - k) < unsigned(p.windows.image_width))
                sums[k] += cost_of(term, Cost::Distance::between(own, __ldg(others + other - k)));
        BandCosts<Others...>::add(p, index + 1, line, x, other, sums);
    }
};

// Thread = four labels.
template <int RADIUS, typename... Costs>
__global__ void __launch_bounds__(BAND_COST_THREADS)
    combine_band(const __grid_constant__ BandCostLaunch p) {
    using W = Window<RADIUS>;
    const int word = blockIdx.x * BAND_COST_THREADS + threadIdx.x;
    const int x = word / W::PIXEL_WORDS, y = blockIdx.y;
    if (x >= p.windows.width) return;
    const int window = word % W::PIXEL_WORDS / W::WORDS, label = 4 * (word % W::WORDS);
    const int image_x = p.first_x + x;
    const int first = centres_at(p.windows, x, y).of(window) - RADIUS + label;
    const int other = image_x - p.min_disparity - first;
    uint32 sums[4] = {}, costs = 0;
    BandCosts<Costs...>::add(p, 0, size_t(p.first_y + y) * p.windows.image_width, image_x, other,
                             sums);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const bool is_inside = unsigned(other - k) < unsigned(p.windows.image_width);
        const uint32 cost = is_inside ? min(sums[k], 255u) : uint32(p.outside_cost);
        costs |= (label + k < W::LABELS ? cost : 255u) << 8 * k;
    }
    reinterpret_cast<uint32*>(p.cost)[p.windows.place(0, y) * W::PIXEL_WORDS + word] = costs;
}
