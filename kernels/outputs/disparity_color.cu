// The disparity as a picture: a color of a table for each pixel, black where it is invalid.
#include "outputs/finished.cuh"

constexpr int PIXELS = 256;  // of a block, one after the other in the image

// Bytes are gathered on chip, so that each sector of the picture is written whole. A thread has a
// pixel.
__global__ void color_disparities(const __grid_constant__ Finished f) {
    stamp_time(f.stamp);
    __shared__ uint8 picture[3 * PIXELS];
    const Parameters& p = *f.parameters;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int first = PIXELS * (blockIdx.y * gridDim.x + blockIdx.x);
    const int pixels = min(PIXELS, f.width * f.height - first);
    if (thread < pixels) {
        const int value = f.disparity[first + thread], last = p.color_range;
        const uint8* const color = p.colors + 3 * min((255 * value + last / 2) / last, 255);
        for (int channel = 0; channel < 3; ++channel)
            picture[3 * thread + channel] = value < 0 ? 0 : color[channel];
    }
    __syncthreads();
    for (int i = thread; i < 3 * pixels; i += PIXELS)
        p.disparity_color[3 * first + i] = picture[i];
    stamp_last(f.end, f.ended);
}
