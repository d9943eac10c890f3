// Part of stage refine: the confidence of a pixel, averaged over a window that is cut at the
// border of the image: sums of rows, then of columns.
#include "frame/refine.cuh"

constexpr int MOST_RADIUS = 25, ROW_BLOCK = 256;

// Sums over the window's columns of a row, in steps of 1 / 255; invalid pixels count as 0.
// blockIdx.y = row.
__global__ void __launch_bounds__(ROW_BLOCK)
    add_confidences(const __grid_constant__ Filling filling) {
    __shared__ uint8 steps[ROW_BLOCK + 2 * MOST_RADIUS];
    const Frame& f = filling.frame;
    const Parameters p = *f.parameters;
    const int radius = p.confidence_radius, y = blockIdx.y, first = blockIdx.x * ROW_BLOCK;
    for (int i = threadIdx.x; i < ROW_BLOCK + 2 * radius; i += ROW_BLOCK) {
        const int x = first - radius + i, at = y * f.width + x;
        const bool counts = x >= 0 && x < f.width && f.filtered[at] >= 0;
        steps[i] = counts ? uint8(int(__dadd_rn(__dmul_rn(255.0, own_confidence(f, p, at)), 0.5)))
                          : uint8(0);
    }
    __syncthreads();
    const int x = first + threadIdx.x;
    if (x >= f.width) return;
    int sum = 0;
    for (int i = 0; i <= 2 * radius; ++i) sum += steps[threadIdx.x + i];
    filling.confidence_sums[y * f.width + x] = uint16(sum);
}

// The mean over the window. Thread = a pixel.
__global__ void average_confidences(const __grid_constant__ Filling filling) {
    const Frame& f = filling.frame;
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= f.width || y >= f.height) return;
    const int radius = f.parameters->confidence_radius;
    const int top = max(y - radius, 0), bottom = min(y + radius, f.height - 1);
    const int columns = min(x + radius, f.width - 1) - max(x - radius, 0) + 1;
    int sum = 0;
    for (int row = top; row <= bottom; ++row) sum += filling.confidence_sums[row * f.width + x];
    filling.confidence[y * f.width + x] =
        float(__ddiv_rn(double(sum), 255.0 * (bottom - top + 1) * columns));
}
