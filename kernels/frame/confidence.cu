// Stage refine: the confidence of a pixel, averaged over a window that is cut at the border of the
// image. It is separable: sums along rows, then along columns.
#include "frame/refine.cuh"

constexpr int MOST_CONFIDENCE_RADIUS = 25, CONFIDENCE_BLOCK = 256;

// Sums of the confidences of a row, in steps of 1 / 255. blockIdx.y = row.
__global__ void __launch_bounds__(CONFIDENCE_BLOCK)
    add_confidences(const __grid_constant__ Frame f) {
    __shared__ uint8 steps[CONFIDENCE_BLOCK + 2 * MOST_CONFIDENCE_RADIUS];
    const int radius = f.parameters->confidence_radius, y = blockIdx.y;
    const int first = blockIdx.x * CONFIDENCE_BLOCK;
    for (int i = threadIdx.x; i < CONFIDENCE_BLOCK + 2 * radius; i += CONFIDENCE_BLOCK) {
        const int x = first - radius + i, at = y * f.width + x;
        const bool counts = x >= 0 && x < f.width && f.filtered[at] >= 0;
        steps[i] = counts
            ? uint8(int(__dadd_rn(__dmul_rn(255.0, own_confidence(f, *f.parameters, at)), 0.5)))
            : 0;
    }
    __syncthreads();
    const int x = first + threadIdx.x;
    if (x >= f.width) return;
    int sum = 0;
    for (int i = 0; i <= 2 * radius; ++i) sum += steps[threadIdx.x + i];
    f.confidence_sums[y * f.width + x] = uint16(sum);
}

// The mean over the window from the sums of its rows.
__global__ void average_confidences(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= f.width || y >= f.height) return;
    const int radius = f.parameters->confidence_radius;
    const int top = max(y - radius, 0), bottom = min(y + radius, f.height - 1);
    const int columns = min(x + radius, f.width - 1) - max(x - radius, 0) + 1;
    int sum = 0;
    for (int row = top; row <= bottom; ++row) sum += f.confidence_sums[row * f.width + x];
    f.confidence[y * f.width + x] = float(__ddiv_rn(
        double(sum), __dmul_rn(__dmul_rn(255.0, double(bottom - top + 1)), double(columns))));
}
