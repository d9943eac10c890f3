// Part of stage refine: the confidence of a pixel. Leads are averaged over a window that is cut at
// the border of the image, and count less near a jump of the disparity: rows, then columns.
#include "frame/refine.cuh"

constexpr int MAX_RADIUS = 25, ROW_BLOCK = 256;
constexpr int JUMP = 32;  // sixteenths; neighbours that differ by more are on both sides of one

// Whether the disparity jumps or ends between a pixel and one of its four neighbours.
DEVICE bool is_at_jump(const Frame& f, int x, int y) {
    const short* const own = f.filtered + y * f.width + x;
    const auto jumps_to = [&](int step) {
        return (*own < 0) != (own[step] < 0) || abs(*own - own[step]) > JUMP;
    };
    return (x > 0 && jumps_to(-1)) || (x + 1 < f.width && jumps_to(1))
        || (y > 0 && jumps_to(-f.width)) || (y + 1 < f.height && jumps_to(f.width));
}

// Sums over the window's columns of a row, in steps of 1 / 255; invalid pixels count as 0. And
// columns from the nearest jump in the row. blockIdx.y = row.
//
// Place i is the column ``radius`` before that of thread i. A warp has 32 of them at a time.
__global__ void __launch_bounds__(ROW_BLOCK)
    add_confidences(const __grid_constant__ Filling filling) {
    constexpr int WARPS = (ROW_BLOCK + 2 * MAX_RADIUS) / 32 + 1, PLACES = 32 * WARPS;
    static_assert(MAX_RADIUS < 32, "two words of jumps have the window");
    __shared__ int before[PLACES], totals[WARPS];  // of the places of a warp
    __shared__ uint32 jumps[1 + WARPS];            // a bit for each place; the first has none
    const Frame& f = filling.frame;
    const Parameters p = *f.parameters;
    const int radius = p.confidence_radius, y = blockIdx.y, first = blockIdx.x * ROW_BLOCK;
    for (int i = threadIdx.x; i < PLACES; i += ROW_BLOCK) {
        const int x = first - radius + i, at = y * f.width + x;
        const bool counts = x >= 0 && x < f.width && f.filtered[at] >= 0;
        const int steps
            = counts ? int(__dadd_rn(__dmul_rn(255.0, own_confidence(f, p, at)), 0.5)) : 0;
        int sum = steps;
#pragma unroll
        for (int lanes = 1; lanes < 32; lanes *= 2) {
            const int others = __shfl_up_sync(~0u, sum, lanes);
            if (i % 32 >= lanes) sum += others;
        }
        before[i] = sum - steps;
        if (i % 32 == 31) totals[i / 32] = sum;
    }
    // Apart: beside the division above there would be too few registers.
    for (int i = threadIdx.x; i < PLACES; i += ROW_BLOCK) {
        const int x = first - radius + i;
        const uint32 found
            = __ballot_sync(~0u, x >= 0 && x < f.width && is_at_jump(f, x, y));
        if (i % 32 == 0) jumps[1 + i / 32] = found;
    }
    if (threadIdx.x == 0) jumps[0] = 0;
    __syncthreads();
    const int x = first + threadIdx.x;
    if (x >= f.width) return;
    const int begin = threadIdx.x, end = begin + 2 * radius + 1;
    int sum = before[end] - before[begin];
    for (int i = begin / 32; i < end / 32; ++i) sum += totals[i];
    // From the pixel on to the right, and up to the pixel from the left.
    const int own = begin + radius, last = own + 1;
    const uint32 right = __funnelshift_r(jumps[1 + own / 32], jumps[2 + own / 32], own % 32);
    const uint32 left = __funnelshift_r(jumps[last / 32], jumps[1 + last / 32], last % 32);
    int nearest = min(radius, __clz(left));
    if (right != 0) nearest = min(nearest, __ffs(right) - 1);
    filling.confidence_sums[y * f.width + x] = uint16(sum);
    filling.jump_columns[y * f.width + x] = uint8(nearest);
}

// The confidence: the mean over the window, less near a jump. Thread = a pixel.
__global__ void average_confidences(const __grid_constant__ Filling filling) {
    const Frame& f = filling.frame;
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= f.width || y >= f.height) return;
    const int radius = f.parameters->confidence_radius;
    const int top = max(y - radius, 0), bottom = min(y + radius, f.height - 1);
    const int columns = min(x + radius, f.width - 1) - max(x - radius, 0) + 1;
    int sum = 0, nearest = radius;
    for (int row = top; row <= bottom; ++row) {
        sum += filling.confidence_sums[row * f.width + x];
        nearest = min(nearest, max(abs(row - y), int(filling.jump_columns[row * f.width + x])));
    }
    const int twice = 2 * (nearest + 1);
    filling.confidence[y * f.width + x] = float(
        __ddiv_rn(double(sum * twice), 255.0 * (bottom - top + 1) * columns * (twice + 1)));
}
