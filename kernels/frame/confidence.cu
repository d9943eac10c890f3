// Part of stage refine: the confidence of a pixel. Leads are averaged over a window that is cut at
// the border of the image, and count less near a jump of the disparity, where the map bends and
// where it has holes: rows, then columns.
#include "frame/refine.cuh"

constexpr int RADIUS = 5, BEND_RADIUS = 10, HOLE_RADIUS = 25, ROW_BLOCK = 256;
constexpr int BEND_STEP = 8, MAX_BEND = 128;  // pixels; sixteenths
constexpr int HALVING_BEND = 8;               // mean bend that halves the confidence
constexpr int JUMP = 32;  // sixteenths; neighbours that differ by more are on both sides of one

// What a column of the windows holds, in one word: leads, then bends, then columns to a jump.
constexpr int BENDS = 12, COLUMNS = 24;
constexpr uint32 SUM = 0xfff;
static_assert((2 * RADIUS + 1) * 255 <= SUM && (2 * BEND_RADIUS + 1) * MAX_BEND <= SUM, "12 bits");

// What is added up along a row, in one word: leads, bends, and pixels with a value. The leads of
// the widest window need one bit more; the bends have room for it.
constexpr int ADDED_BENDS = 13, ADDED_VALUES = 26;
constexpr uint32 ADDED = 0x1fff;
static_assert((2 * HOLE_RADIUS + 1) * MAX_BEND < ADDED && 2 * HOLE_RADIUS + 1 < 64, "6 bits left");

// By how much the best label leads the second, in 255ths.
DEVICE int lead(const Frame& f, const Parameters& p, int at) {
    const double second = cost_at(f, f.second, at);
    const double value = __ddiv_rn(__dadd_rn(second, -cost_at(f, f.best, at)),
                                   f.is_sad ? fmax(second, 1.0) : p.largest_cost);
    const double bounded = second >= double(NO_SECOND) || value > 1.0 ? 1.0 : fmax(value, 0.0);
    return int(__dadd_rn(__dmul_rn(255.0, bounded), 0.5));
}

// Whether the disparity jumps or ends between a pixel and one of its four neighbours.
DEVICE bool is_at_jump(const Frame& f, int x, int y) {
    const short* const own = f.filtered + y * f.width + x;
    const auto jumps_to = [&](int step) {
        return (*own < 0) != (own[step] < 0) || abs(*own - own[step]) > JUMP;
    };
    return (x > 0 && jumps_to(-1)) || (x + 1 < f.width && jumps_to(1))
        || (y > 0 && jumps_to(-f.width)) || (y + 1 < f.height && jumps_to(f.width));
}

// The second difference of the filled map, the smaller of those along x and along y; borders are
// replicated.
DEVICE int bend(const Filling& filling, int x, int y) {
    const Frame& f = filling.frame;
    const short* const row = filling.filled + y * f.width;
    const int twice = 2 * row[x];
    const int left = row[max(x - BEND_STEP, 0)], right = row[min(x + BEND_STEP, f.width - 1)];
    const int above = filling.filled[max(y - BEND_STEP, 0) * f.width + x];
    const int below = filling.filled[min(y + BEND_STEP, f.height - 1) * f.width + x];
    return min(min(abs(twice - left - right), abs(twice - above - below)), MAX_BEND);
}

// Sums over the windows' columns of a row, and columns from the nearest jump in the row.
// blockIdx.y = row.
//
// Place i is the column HOLE_RADIUS before that of thread i. A warp has 32 of them at a time.
__global__ void __launch_bounds__(ROW_BLOCK)
    add_confidences(const __grid_constant__ Filling filling) {
    constexpr int WARPS = (ROW_BLOCK + 2 * HOLE_RADIUS) / 32 + 1, PLACES = 32 * WARPS;
    __shared__ uint32 before[PLACES], totals[WARPS];  // of the places of a warp
    __shared__ uint32 jumps[1 + WARPS];  // a bit for each place; the first has none
    const Frame& f = filling.frame;
    const Parameters p = *f.parameters;
    const int y = blockIdx.y, first = blockIdx.x * ROW_BLOCK;
    for (int i = threadIdx.x; i < PLACES; i += ROW_BLOCK) {
        const int x = first - HOLE_RADIUS + i, at = y * f.width + x;
        const bool is_inside = x >= 0 && x < f.width;
        const bool has_value = is_inside && f.filtered[at] >= 0;
        uint32 own = has_value ? lead(f, p, at) | 1u << ADDED_VALUES : 0;
        if (is_inside) own |= bend(filling, x, y) << ADDED_BENDS;
        uint32 sum = own;
#pragma unroll
        for (int lanes = 1; lanes < 32; lanes *= 2) {
            const uint32 others = __shfl_up_sync(~0u, sum, lanes);
            if (i % 32 >= lanes) sum += others;
        }
        before[i] = sum - own;
        if (i % 32 == 31) totals[i / 32] = sum;
    }
    // Apart: beside the division above there would be too few registers.
    for (int i = threadIdx.x; i < PLACES; i += ROW_BLOCK) {
        const int x = first - HOLE_RADIUS + i;
        const uint32 found
            = __ballot_sync(~0u, x >= 0 && x < f.width && is_at_jump(f, x, y));
        if (i % 32 == 0) jumps[1 + i / 32] = found;
    }
    if (threadIdx.x == 0) jumps[0] = 0;
    __syncthreads();
    const int x = first + threadIdx.x;
    if (x >= f.width) return;
    const int own = threadIdx.x + HOLE_RADIUS;
    const auto sum_around = [&](int radius) {
        const int begin = own - radius, end = own + radius + 1;
        uint32 sum = before[end] - before[begin];
        for (int i = begin / 32; i < end / 32; ++i) sum += totals[i];
        return sum;
    };
    // From the pixel on to the right, and up to the pixel from the left.
    const int last = own + 1;
    const uint32 right = __funnelshift_r(jumps[1 + own / 32], jumps[2 + own / 32], own % 32);
    const uint32 left = __funnelshift_r(jumps[last / 32], jumps[1 + last / 32], last % 32);
    int nearest = min(RADIUS, __clz(left));
    if (right != 0) nearest = min(nearest, __ffs(right) - 1);
    filling.row_sums[y * f.width + x] = (sum_around(RADIUS) & ADDED)
        | (sum_around(BEND_RADIUS) >> ADDED_BENDS & ADDED) << BENDS | nearest << COLUMNS;
    filling.row_values[y * f.width + x] = uint8(sum_around(HOLE_RADIUS) >> ADDED_VALUES);
}

// Pixels of a window around one that are inside the image, along one axis.
DEVICE int cut(int at, int end, int radius) {
    return min(at + radius, end - 1) - max(at - radius, 0) + 1;
}

// The confidence. Thread = a pixel.
__global__ void judge_pixels(const __grid_constant__ Filling filling) {
    const Frame& f = filling.frame;
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= f.width || y >= f.height) return;
    int leads = 0, bends = 0, values = 0, nearest = RADIUS;
    for (int row = max(y - HOLE_RADIUS, 0); row <= min(y + HOLE_RADIUS, f.height - 1); ++row) {
        const int at = row * f.width + x, away = abs(row - y);
        values += filling.row_values[at];
        if (away > BEND_RADIUS) continue;
        const uint32 around = filling.row_sums[at];
        bends += around >> BENDS & SUM;
        if (away > RADIUS) continue;
        leads += around & SUM;
        nearest = min(nearest, max(away, int(around >> COLUMNS)));
    }
    const auto pixels_around = [&](int radius) {
        return cut(x, f.width, radius) * cut(y, f.height, radius);
    };
    const int halving = HALVING_BEND * pixels_around(BEND_RADIUS), twice = 2 * (nearest + 1);
    const double found = __ddiv_rn(
        double(leads * twice) * halving,
        double(255 * pixels_around(RADIUS) * (twice + 1)) * (halving + bends));
    const double share = __ddiv_rn(values, pixels_around(HOLE_RADIUS));
    filling.confidence[y * f.width + x] = float(__dmul_rn(found, __dmul_rn(share, share)));
}
