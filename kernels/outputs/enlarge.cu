// From reduced images back to the size of the images.
#include "outputs/enlarging.cuh"
#include "outputs/finished.cuh"

struct Enlarging {
    Finished finished;                // ``disparity`` is not read
    const short* reduced;             // h x w: sixteenths of a reduced pixel
    const float* reduced_confidence;  // h x w
    int reduced_width, reduced_height;
    int factor;  // pixels of the image for each reduced one
};

// A thread has a pixel.
__global__ void enlarge(const __grid_constant__ Enlarging e) {
    const Finished& f = e.finished;
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < f.width && y < f.height) {
        const Parameters p = *f.parameters;
        const int at = y * f.width + x;
        const auto value = [&](int reduced_y, int reduced_x) {
            return int(e.reduced[reduced_y * e.reduced_width + reduced_x]);
        };
        write_disparity<true>(
            p, at, f.min_disparity,
            enlarged(value, x, y, e.factor, e.reduced_width, e.reduced_height));
        if (p.confidence != nullptr) {
            const int nearest = min(y / e.factor, e.reduced_height - 1) * e.reduced_width
                + min(x / e.factor, e.reduced_width - 1);
            p.confidence[at] = e.reduced_confidence[nearest];
        }
    }
    stamp_last(f.end, f.ended);
}
