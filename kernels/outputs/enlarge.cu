// From reduced images back to the size of the images.
#include "outputs/finished.cuh"

// Sixteenths of a reduced pixel by which neighbours on one surface may differ.
constexpr int ONE_SURFACE = 16;

struct Enlarging {
    Finished finished;                // ``disparity`` is not read
    const short* reduced;             // h x w: sixteenths of a reduced pixel
    const float* reduced_confidence;  // h x w
    int reduced_width, reduced_height;
    int factor;  // pixels of the image for each reduced one
};

// Two reduced pixels around the centre of a pixel, in one direction, and the weight of the second
// in parts of 2 * factor.
struct Place { int first, second, weight; };
DEVICE Place place_of(int at, int factor, int length) {
    const int place = 2 * at + 1 - factor;
    const int first = place < 0 ? -1 : place / (2 * factor);
    return {min(max(first, 0), length - 1), min(first + 1, length - 1),
            place - 2 * factor * first};
}

// Bilinear within a surface, the nearest across its borders: of the four around a pixel, those
// that are invalid or far from the nearest count as the nearest. A thread has a pixel.
__global__ void enlarge(const __grid_constant__ Enlarging e) {
    const Finished& f = e.finished;
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < f.width && y < f.height) {
        const Parameters p = *f.parameters;
        const int nearest = min(y / e.factor, e.reduced_height - 1) * e.reduced_width
            + min(x / e.factor, e.reduced_width - 1);
        const int own = e.reduced[nearest], at = y * f.width + x;
        const Place column = place_of(x, e.factor, e.reduced_width);
        const Place row = place_of(y, e.factor, e.reduced_height);
        const auto value = [&](int reduced_y, int reduced_x) {
            const int found = e.reduced[reduced_y * e.reduced_width + reduced_x];
            return found < 0 || abs(found - own) > ONE_SURFACE ? own : found;
        };
        const int weights = 2 * e.factor;
        const auto across = [&](int reduced_y) {
            return (weights - column.weight) * value(reduced_y, column.first)
                + column.weight * value(reduced_y, column.second);
        };
        const int total = (weights - row.weight) * across(row.first)
            + row.weight * across(row.second);
        write_disparity<true>(p, at, f.min_disparity,
                              own < 0 ? INVALID : (total + weights) / (2 * weights));
        if (p.confidence != nullptr) p.confidence[at] = e.reduced_confidence[nearest];
    }
    stamp_last(f.end, f.ended);
}
