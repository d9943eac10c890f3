// Stage cost: the combined data cost of every pixel and label, a volume.
#include "costs/costs.cuh"
#include "costs/terms.cuh"
#include "costs/volume.cuh"

// Pixels and rows of a block of ``combine_costs``; a warp has a row.
constexpr int ROW_WIDTH = 64, ROWS = 4;

struct CombineLaunch {
    const void* left[MAX_COSTS];  // features of the whole images
    const void* right[MAX_COSTS];
    Term terms[MAX_COSTS];
    uint8* cost;  // [height][width][padded labels]
    int image_width;
    int first_x, first_y, width, height;  // of the partition
    int min_disparity, outside_cost;
};

// A row of the features of all costs, and what can be done with it.
template <int PADDED, typename... Costs> struct Rows;

template <int PADDED>
struct Rows<PADDED> {
    DEVICE void load(const CombineLaunch&, int, size_t, int, int) {}
    DEVICE void add(const CombineLaunch&, int, int, int, uint32 (&)[4][4]) const {}
};

template <int PADDED, typename Cost, typename... Others>
struct Rows<PADDED, Cost, Others...> {
    using Distance = typename Cost::Distance;
    using Value = typename Distance::Value;

    typename Distance::template Row<ROW_WIDTH, ROW_WIDTH + PADDED> row;
    Rows<PADDED, Others...> others;

    // By all lanes of a warp. ``line``: first element of the row in an image.
    DEVICE void load(const CombineLaunch& p, int index, size_t line, int first_x,
                     int first_other_x) {
        const Value* const own = static_cast<const Value*>(p.left[index]) + line;
        const Value* const other = static_cast<const Value*>(p.right[index]) + line;
        for (int i = threadIdx.x % 32; i < ROW_WIDTH; i += 32)
            row.set_own(i, first_x + i < p.image_width ? __ldg(own + first_x + i) : Value(0));
        for (int i = threadIdx.x % 32; i < ROW_WIDTH + PADDED; i += 32) {
            const bool is_inside = unsigned(first_other_x + i) < unsigned(p.image_width);
            row.set_other(i, is_inside ? __ldg(other + first_other_x + i) : Value(0));
        }
        others.load(p, index + 1, line, first_x, first_other_x);
    }
    // Adds the costs of four labels of four pixels.
    DEVICE void add(const CombineLaunch& p, int index, int u, int first,
                    uint32 (&sums)[4][4]) const {
        const typename Distance::Four distance(row, u, first);
        const Term term = p.terms[index];
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int k = 0; k < 4; ++k)
                sums[j][k] += cost_of(term, distance(j, k));
        others.add(p, index + 1, u, first, sums);
    }
};

// Thread = four labels of four neighbouring pixels at a time.
template <int DISPARITIES, typename... Costs>
__global__ void __launch_bounds__(32 * ROWS)
    combine_costs(const __grid_constant__ CombineLaunch p) {
    constexpr int PADDED = Volume<DISPARITIES>::PADDED, GROUPS = PADDED / 4;
    __shared__ Rows<PADDED, Costs...> rows_of_warps[ROWS];
    const int y = blockIdx.y * ROWS + threadIdx.x / 32;
    if (y >= p.height) return;
    auto& rows = rows_of_warps[threadIdx.x / 32];
    const int first_x = blockIdx.x * ROW_WIDTH;
    // In the image. Pixel u of the row meets, with label d, the element u + PADDED - 1 - d.
    const int image_x = p.first_x + first_x;
    const int first_other_x = image_x - p.min_disparity - (PADDED - 1);
    rows.load(p, 0, size_t(p.first_y + y) * p.image_width, image_x, first_other_x);
    __syncwarp();
    for (int item = threadIdx.x % 32; item < ROW_WIDTH / 4 * GROUPS; item += 32) {
        const int group = item % GROUPS, u = 4 * (item / GROUPS);
        const int first = u + PADDED - 4 * (group + 1);
        uint32 sums[4][4] = {};
        rows.add(p, 0, u, first, sums);
        uint8* const to = p.cost + (size_t(y) * p.width + first_x + u) * PADDED + 4 * group;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            uint32 word = 0;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const bool is_inside
                    = unsigned(first_other_x + first + 3 - k + j) < unsigned(p.image_width);
                uint32 cost = is_inside ? min(sums[j][k], 255u) : p.outside_cost;
                if (PADDED > DISPARITIES && 4 * group + k >= DISPARITIES) cost = 255;
                word |= cost << 8 * k;
            }
            if (first_x + u + j < p.width) *reinterpret_cast<uint32*>(to + j * PADDED) = word;
        }
    }
}
