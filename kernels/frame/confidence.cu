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
__global__ void __launch_bounds__(ROW_BLOCK)
    add_confidences(const __grid_constant__ Filling filling) {
    __shared__ uint8 steps[ROW_BLOCK + 2 * MAX_RADIUS];
    __shared__ bool jumps[ROW_BLOCK + 2 * MAX_RADIUS];
    const Frame& f = filling.frame;
    const Parameters p = *f.parameters;
    const int radius = p.confidence_radius, y = blockIdx.y, first = blockIdx.x * ROW_BLOCK;
    for (int i = threadIdx.x; i < ROW_BLOCK + 2 * radius; i += ROW_BLOCK) {
        const int x = first - radius + i, at = y * f.width + x;
        const bool counts = x >= 0 && x < f.width && f.filtered[at] >= 0;
        steps[i] = counts ? uint8(int(__dadd_rn(__dmul_rn(255.0, own_confidence(f, p, at)), 0.5)))
                          : uint8(0);
    }
    // Apart: beside the division above there would be too few registers.
    for (int i = threadIdx.x; i < ROW_BLOCK + 2 * radius; i += ROW_BLOCK) {
        const int x = first - radius + i;
        jumps[i] = x >= 0 && x < f.width && is_at_jump(f, x, y);
    }
    __syncthreads();
    const int x = first + threadIdx.x;
    if (x >= f.width) return;
    int sum = 0, nearest = radius;
    for (int i = 0; i <= 2 * radius; ++i) {
        sum += steps[threadIdx.x + i];
        if (jumps[threadIdx.x + i]) nearest = min(nearest, abs(i - radius));
    }
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
