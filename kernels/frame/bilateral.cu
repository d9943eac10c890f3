// Part of stage refine: a separable bilateral filter of the filled map, in whole numbers, with
// Tukey's biweight over disparities and a Gaussian over pixels.
#include "frame/refine.cuh"

// Weights of the pixels -7 to 7: 64 exp(-k^2 / 128), rounded half up.
constexpr int RADIUS = 7;
constexpr int SPACE[2 * RADIUS + 1] = {44, 48, 53, 56, 60, 62, 64, 64, 64, 62, 60, 56, 53, 48, 44};

// Thread = a pixel. Along x from ``filled`` to ``smoothed``, along y back; borders replicated.
template <bool IS_ALONG_X>
__global__ void smooth(const __grid_constant__ Filling filling) {
    const Frame& f = filling.frame;
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= f.width || y >= f.height) return;
    const int at = y * f.width + x, factor = f.parameters->bilateral_factor;
    const short* const from = (IS_ALONG_X ? filling.filled : filling.smoothed) + at;
    const int place = IS_ALONG_X ? x : y, last = (IS_ALONG_X ? f.width : f.height) - 1;
    const int stride = IS_ALONG_X ? 1 : f.width, own = *from;
    int weights = 1, sum = 0;
    if (own >= 0) {
        weights = 0;
#pragma unroll
        for (int k = -RADIUS; k <= RADIUS; ++k) {
            const int other = from[(min(max(place + k, 0), last) - place) * stride];
            const int distance = min(abs(other - own) * factor >> 8, 256);
            const int fall = 256 - (distance * distance >> 8);
            const int weight = other < 0 ? 0 : SPACE[k + RADIUS] * (fall * fall >> 8);
            weights += weight;
            sum += weight * other;
        }
    }
    (IS_ALONG_X ? filling.smoothed : filling.filled)[at] =
        own < 0 ? INVALID : short(uint32(sum + weights / 2) / uint32(weights));
}
