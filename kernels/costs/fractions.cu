// Fractions of a label from the data cost: where two lines of one slope meet.
#include "costs/volume.cuh"

constexpr int FRACTION_WIDTH = 32, FRACTION_HEIGHT = 4;  // pixels of a block
constexpr int WINDOW_RADIUS = 2;

struct FractionLaunch {
    const uint8* cost;      // [height][width][padded labels], before path aggregation
    const short* label;     // of the image, from the first pixel of the partition on
    signed char* fraction;  // the same
    int image_width;
    int width, height;  // of the partition; windows are replicated beyond it
    int kept_left, kept_top, kept_width, kept_height;
};

// a, b and c: sums over the window of the costs of the label before, of the label and of the one
// after. floor(8 (a - c) / (max(a, c) - b) + 1/2) sixteenths, 0 where b is not the least, where
// all are equal, and at the first and last label. Thread = a pixel that is kept.
template <int DISPARITIES>
__global__ void __launch_bounds__(FRACTION_WIDTH * FRACTION_HEIGHT)
    take_fractions(const __grid_constant__ FractionLaunch p) {
    constexpr int WORDS = Volume<DISPARITIES>::PADDED / 4;
    const int column = blockIdx.x * FRACTION_WIDTH + threadIdx.x % FRACTION_WIDTH;
    const int row = blockIdx.y * FRACTION_HEIGHT + threadIdx.x / FRACTION_WIDTH;
    if (column >= p.kept_width || row >= p.kept_height) return;
    const int x = p.kept_left + column, y = p.kept_top + row, at = y * p.image_width + x;
    const int label = p.label[at];
    int fraction = 0;
    if (label > 0 && label < DISPARITIES - 1) {
        // Three bytes from ``first`` on, which lie in one word or in two.
        const int first = label - 1, shift = 8 * (first % 4);
        const bool is_split = shift >= 16;
        const uint32* const words = reinterpret_cast<const uint32*>(p.cost) + first / 4;
        uint32 outer = 0, middle = 0;  // of the label before and after; of the label
#pragma unroll
        for (int i = -WINDOW_RADIUS; i <= WINDOW_RADIUS; ++i) {
            const size_t line = size_t(min(max(y + i, 0), p.height - 1)) * p.width;
#pragma unroll
            for (int j = -WINDOW_RADIUS; j <= WINDOW_RADIUS; ++j) {
                const uint32* const pixel
                    = words + (line + min(max(x + j, 0), p.width - 1)) * WORDS;
                const uint32 next = is_split ? __ldg(pixel + 1) : 0;
                const uint32 costs = __funnelshift_r(__ldg(pixel), next, shift);
                outer += costs & 0x00ff00ffu;
                middle += costs >> 8 & 0xffu;
            }
        }
        const int before = outer & 0xffffu, after = outer >> 16, least = middle;
        const int rise = max(before, after) - least;
        // The quotient is raised by 8, so that it is never below 0.
        if (rise > 0 && least <= before && least <= after)
            fraction = (16 * (before - after) + 17 * rise) / (2 * rise) - 8;
    }
    p.fraction[at] = fraction;
}
