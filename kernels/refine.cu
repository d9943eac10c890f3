// Stage refine: from labels to disparity, depth and confidence. One thread per pixel.
//
// Between the steps an image of int16 sixteenths of a pixel relative to min_disparity, or
// INVALID, in the frame of matching: mirrored in x where the right image is the reference.
#include "words.cuh"

constexpr short INVALID = -16;
constexpr double NO_SECOND = 2147483647.0;

// What may change from one frame to the next without another graph; uploaded with each frame.
struct Parameters {
    double margin;                  // uniqueness: least lead of the best over the second
    double texture_threshold;
    double largest_cost;            // of one pixel, in units of the beliefs
    double published_shift;         // pixels that disparities are shifted by
    double shift;                   // the same for depth
    double focal_baseline;          // pixels x metres
    double best_factor;             // uniqueness of SAD: of the best against 100 of the second
    int is_subpixel, is_unique, is_textured, keeps_border, fills;
    int max_difference;             // left-right check, 0 = off
    int speckle_size;               // pixels
    int speckle_range;              // sixteenths
};

struct Frame {
    const Parameters* parameters;
    const short* label;             // H x W, -1 = none
    const signed char* fraction;
    const void* best;               // uint32, or float32 where beliefs are
    const void* second;
    const short* right_label;
    const float* texture;
    short* sixteenths;
    short* filtered;                // what the median writes, and publish reads
    int* regions;                   // number of a pixel of the same region, at most its own
    int* region_sizes;              // pixels, at the least number of a region
    float* disparity;               // H x W or null
    float* depth;
    float* confidence;
    uint64* stamp;                  // time at which the stage starts, ns; null = not wanted
    int width, height;
    int x_begin, x_end, y_begin, y_end;     // valid window in the frame of matching
    int min_disparity;
    int is_mirrored, has_float_costs, is_sad;
};

__device__ __forceinline__ double cost_at(const Frame& f, const void* costs, int at) {
    return f.has_float_costs ? double(static_cast<const float*>(costs)[at])
                             : double(static_cast<const uint32*>(costs)[at]);
}

__device__ __forceinline__ bool is_outside(const Frame& f, int x, int y) {
    return x < f.x_begin || x >= f.x_end || y < f.y_begin || y >= f.y_end;
}

__device__ short reject(const Frame& f, const Parameters& p, int x, int y) {
    const int at = y * f.width + x;
    const int label = f.label[at];
    if (label < 0 || (!p.keeps_border && is_outside(f, x, y))) return INVALID;
    if (p.is_unique) {
        const double best = cost_at(f, f.best, at), second = cost_at(f, f.second, at);
        if (f.is_sad ? __dmul_rn(100.0, second) <= __dmul_rn(p.best_factor, best)
                     : __dadd_rn(second, -best) < p.margin)
            return INVALID;
    }
    if (p.is_textured && double(f.texture[at]) < p.texture_threshold) return INVALID;
    if (p.max_difference > 0) {
        const int other_x = x - f.min_disparity - label;
        if (other_x < 0 || other_x >= f.width) return INVALID;
        const int other = f.right_label[y * f.width + other_x];
        if (other < 0 || abs(label - other) > p.max_difference) return INVALID;
    }
    return short(16 * label + (p.is_subpixel ? f.fraction[at] : 0));
}

__device__ void publish(const Frame& f, const Parameters& p, int x, int y, int sixteenths,
                        bool is_filled) {
    const int at = y * f.width + x;
    const int to = f.is_mirrored ? y * f.width + f.width - 1 - x : at;
    const double disparity = __dadd_rn(double(f.min_disparity), sixteenths * 0.0625);
    if (f.disparity != nullptr)
        f.disparity[to] = sixteenths < 0
            ? float(f.min_disparity - p.published_shift - 1.0)
            : float(__dadd_rn(disparity, -p.published_shift));
    if (f.depth != nullptr) {
        const double shifted = __dadd_rn(disparity, -p.shift);
        f.depth[to] = sixteenths >= 0 && shifted > 0.0
            ? float(__ddiv_rn(p.focal_baseline, shifted)) : __int_as_float(0x7fc00000);
    }
    if (f.confidence != nullptr) {
        const double second = cost_at(f, f.second, at);
        double value = __ddiv_rn(__dadd_rn(second, -cost_at(f, f.best, at)),
                                 f.is_sad ? fmax(second, 1.0) : p.largest_cost);
        value = second >= NO_SECOND || value > 1.0 ? 1.0 : fmax(value, 0.0);
        f.confidence[to] = sixteenths < 0 || is_filled ? 0.0f : float(value);
    }
}

// Rejection alone, where filters follow.
__global__ void reject_matches(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    stamp_time(f.stamp);
    if (x >= f.width || y >= f.height) return;
    f.sixteenths[y * f.width + x] = reject(f, *f.parameters, x, y);
}

// Rejection and publication in one, where nothing lies between them.
__global__ void refine_matches(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    stamp_time(f.stamp);
    if (x >= f.width || y >= f.height) return;
    const Parameters p = *f.parameters;
    publish(f, p, x, y, reject(f, p, x, y), false);
}

// Median over SIDE x SIDE, borders replicated. Pixels without label, or outside the valid window
// unless the border is kept, stay invalid.
template <int SIDE>
__global__ void median(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= f.width || y >= f.height) return;
    constexpr int COUNT = SIDE * SIDE;
    short value[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int column = min(max(x + i % SIDE - SIDE / 2, 0), f.width - 1);
        const int row = min(max(y + i / SIDE - SIDE / 2, 0), f.height - 1);
        value[i] = f.sixteenths[row * f.width + column];
    }
    short result = INVALID;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        int smaller = 0;
#pragma unroll
        for (int j = 0; j < COUNT; ++j)
            smaller += value[j] < value[i] || (value[j] == value[i] && j < i);
        if (smaller == COUNT / 2) result = value[i];
    }
    const int at = y * f.width + x;
    if (f.label[at] < 0 || (!f.parameters->keeps_border && is_outside(f, x, y))) result = INVALID;
    f.filtered[at] = result;
}

// Speckles, as cv2.filterSpeckles has them: regions of valid pixels whose neighbours to the four
// sides differ by at most a range. Each pixel points at one of a smaller number until the
// smallest of its region is reached; which one points at which does not change the regions.
__global__ void start_regions(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= f.width || y >= f.height) return;
    f.regions[y * f.width + x] = y * f.width + x;
    f.region_sizes[y * f.width + x] = 0;
}

__device__ int root_of(const int* regions, int at) {
    const volatile int* const links = regions;
    while (links[at] != at) at = links[at];
    return at;
}

__device__ void join(int* regions, int a, int b) {
    for (;;) {
        a = root_of(regions, a);
        b = root_of(regions, b);
        if (a == b) return;
        if (a > b) {
            const int swapped = a;
            a = b;
            b = swapped;
        }
        // b stops being a root only if nobody else has linked it meanwhile.
        if (atomicCAS(&regions[b], b, a) == b) return;
    }
}

__global__ void join_regions(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= f.width || y >= f.height) return;
    const int at = y * f.width + x, range = f.parameters->speckle_range;
    const int value = f.filtered[at];
    if (value == INVALID) return;
    if (x + 1 < f.width && f.filtered[at + 1] != INVALID
        && abs(f.filtered[at + 1] - value) <= range)
        join(f.regions, at, at + 1);
    if (y + 1 < f.height && f.filtered[at + f.width] != INVALID
        && abs(f.filtered[at + f.width] - value) <= range)
        join(f.regions, at, at + f.width);
}

__global__ void count_regions(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= f.width || y >= f.height) return;
    atomicAdd(&f.region_sizes[root_of(f.regions, y * f.width + x)], 1);
}

__global__ void remove_speckles(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= f.width || y >= f.height) return;
    const int at = y * f.width + x;
    if (f.region_sizes[root_of(f.regions, at)] <= f.parameters->speckle_size)
        f.filtered[at] = INVALID;
}

// Filling from the background side, then publication.
__global__ void publish_matches(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= f.width || y >= f.height) return;
    const Parameters p = *f.parameters;
    const short* const row = f.filtered + y * f.width;
    int value = row[x];
    const bool is_filled = value < 0 && p.fills && !is_outside(f, x, y);
    if (is_filled) {
        int before = x - 1, after = x + 1;
        while (before >= f.x_begin && row[before] < 0) --before;
        while (after < f.x_end && row[after] < 0) ++after;
        const int left = before >= f.x_begin ? row[before] : INVALID;
        const int right = after < f.x_end ? row[after] : INVALID;
        value = left < 0 || right < 0 ? max(left, right) : min(left, right);
    }
    publish(f, p, x, y, value, is_filled);
}
