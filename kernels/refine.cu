// Stage refine: from labels to disparity, depth and confidence. One thread per pixel.
#include "refine.cuh"

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
