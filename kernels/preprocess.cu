// Stage preprocess: the image that is matched, from 8-bit grey values. One thread per pixel;
// borders replicated. blockIdx.z = image.
#include "words.cuh"

struct Images {
    const uint8* grey[2];
    float* matched[2];
    int width, height;
    float scale, cap;               // sobel_x
    int radius;                     // residual
    double share;                   // 1 / pixels of the box
};

__device__ __forceinline__ int grey_at(const Images& p, const uint8* grey, int x, int y) {
    return grey[min(max(y, 0), p.height - 1) * p.width + min(max(x, 0), p.width - 1)];
}

// OpenCV's 3x3 Sobel x derivative times the scale, clipped to +-cap.
__global__ void sobel_x(const __grid_constant__ Images p) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= p.width || y >= p.height) return;
    const uint8* const grey = blockIdx.z ? p.grey[1] : p.grey[0];
    float* const matched = blockIdx.z ? p.matched[1] : p.matched[0];
    int derivative = 0;
#pragma unroll
    for (int row = -1; row <= 1; ++row)
        derivative += (2 - abs(row))
            * (grey_at(p, grey, x + 1, y + row) - grey_at(p, grey, x - 1, y + row));
    const float value = __fmul_rn(float(derivative), p.scale);
    matched[y * p.width + x] = fmaxf(fminf(value, p.cap), -p.cap);
}

// The image minus its box mean; the sum of whole numbers is exact in any order.
__global__ void residual(const __grid_constant__ Images p) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= p.width || y >= p.height) return;
    const uint8* const grey = blockIdx.z ? p.grey[1] : p.grey[0];
    float* const matched = blockIdx.z ? p.matched[1] : p.matched[0];
    int sum = 0;
    for (int row = -p.radius; row <= p.radius; ++row)
        for (int column = -p.radius; column <= p.radius; ++column)
            sum += grey_at(p, grey, x + column, y + row);
    const float mean = float(__dmul_rn(double(sum), p.share));
    matched[y * p.width + x] = __fadd_rn(float(grey[y * p.width + x]), -mean);
}
