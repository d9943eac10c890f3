// Stage refine: from labels to disparity, depth and confidence; frame/speckles.cu finds speckles.
#include "frame/refine.cuh"
#include "hierarchical/formats/int16.cuh"

// Rejection alone, where filters follow.
__global__ void reject_matches(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    stamp_time(f.stamp);
    if (x >= f.width || y >= f.height) return;
    f.sixteenths[y * f.width + x] = reject(f, *f.parameters, x, y);
}

// Rejection and publication in one, where no filter lies between them.
__global__ void refine_matches(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    stamp_time(f.stamp);
    if (x < f.width && y < f.height) {
        const Parameters p = *f.parameters;
        publish<true>(f, p, x, y, reject(f, p, x, y), false);
    }
    stamp_last(f.end, f.ended);
}

// The median of an odd number of words, for the low and the high 16 bits separately. Of COUNT / 2
// + 2 values neither the least nor the greatest can be the median. Both leave, another value comes
// in, and so on.
template <int COUNT>
DEVICE uint32 median_of(uint32 (&values)[COUNT]) {
    constexpr int END = (COUNT + 3) / 2;
    const auto order = [&](int a, int b) {
        const uint32 least = Int16::least(values[a], values[b]);
        values[b] = values[a] + values[b] - least;
        values[a] = least;
    };
#pragma unroll
    for (int first = 0; first < END - 2; ++first) {
        const int count = END - first, last = END - 1;
#pragma unroll
        for (int i = 0; i < count / 2; ++i) order(first + i, last - i);
#pragma unroll
        for (int i = 1; i < (count + 1) / 2; ++i) {
            order(first, first + i);
            order(last - i, last);
        }
        if (END + first < COUNT) values[last] = values[END + first];
    }
    return values[END - 2];
}

// Median over SIDE x SIDE, borders replicated. A word holds two pixels, one below the other, in
// its low and high 16 bits. Pixels without label, or outside the valid window unless the border is
// kept, stay invalid.
template <int SIDE>
__global__ void median(const __grid_constant__ Frame f) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = 2 * (blockIdx.y * blockDim.y + threadIdx.y);
    if (x >= f.width || y >= f.height) return;
    uint32 values[SIDE * SIDE];
#pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        const int column = min(max(x + i - SIDE / 2, 0), f.width - 1);
        uint32 upper = 0;
#pragma unroll
        for (int j = 0; j <= SIDE; ++j) {
            const int row = min(max(y + j - SIDE / 2, 0), f.height - 1);
            const uint32 lower = f.sixteenths[row * f.width + column] - INVALID;
            if (j > 0) values[i * SIDE + j - 1] = upper | lower << 16;
            upper = lower;
        }
    }
    const uint32 found = median_of(values);
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
        const int at = (y + lower) * f.width + x;
        if (y + lower >= f.height) return;
        const bool is_dropped = f.label[at] < 0
            || (!f.parameters->keeps_border && is_outside(f, x, y + lower));
        f.filtered[at] = is_dropped ? INVALID : short((found >> 16 * lower & 0xffffu) + INVALID);
    }
}

// The region of a valid pixel is small.
DEVICE bool is_speckle(const Frame& f, int at, int largest) {
    while (f.regions[at] != at) at = f.regions[at];
    return f.region_sizes[at] <= largest;
}

// Removes speckles, fills from the background side and hands each pixel to ``take``, with its
// value and whether it was filled. ``valid`` has a bit for each pixel.
template <typename Take>
DEVICE void fill_row(const Frame& f, const Parameters& p, bool fills, uint32* valid,
                     const Take& take) {
    const int y = blockIdx.x, ahead = y * f.width;
    short* const row = f.filtered + ahead;
    for (int x = threadIdx.x; x < (f.width + 31) / 32 * 32; x += blockDim.x) {
        int value = x < f.width ? row[x] : INVALID;
        if (value >= 0 && f.regions != nullptr && is_speckle(f, ahead + x, p.speckle_size))
            value = INVALID;
        if (!fills) {
            if (x < f.width) take(x, y, value, false);
            continue;
        }
        if (x < f.width) row[x] = value;
        const uint32 bits = __ballot_sync(~0u, value >= 0 && !is_outside(f, x, y));
        if (x % 32 == 0) valid[x / 32] = bits;
    }
    if (!fills) return;
    __syncthreads();
    for (int x = threadIdx.x; x < f.width; x += blockDim.x) {
        int value = row[x];
        const bool is_filled = value < 0 && !is_outside(f, x, y);
        if (is_filled) {
            const int before = valid_before(valid, x), after = valid_after(valid, x, f.width);
            const int left = before >= 0 ? row[before] : INVALID;
            const int right = after < f.width ? row[after] : INVALID;
            value = left < 0 || right < 0 ? max(left, right) : min(left, right);
        }
        take(x, y, value, is_filled);
    }
}

// Removes speckles, fills and publishes: a block for each row.
__global__ void publish_matches(const __grid_constant__ Frame f) {
    extern __shared__ uint32 valid[];
    const Parameters p = *f.parameters;
    fill_row(f, p, p.fills, valid, [&](int x, int y, int value, bool is_filled) {
        publish<true>(f, p, x, y, value, is_filled);
    });
    stamp_last(f.end, f.ended);
}

// The same where more lies between filling and publication.
__global__ void fill_matches(const __grid_constant__ Filling filling) {
    extern __shared__ uint32 valid[];
    const Frame& f = filling.frame;
    const Parameters p = *f.parameters;
    fill_row(f, p, true, valid, [&](int x, int y, int value, bool) {
        filling.filled[y * f.width + x] = short(value);
    });
}

// Whether confidence and contrast of a valid pixel reach what is asked for.
DEVICE bool is_published(const Filling& filling, const Parameters& p, int at) {
    if (p.confidence_threshold > 0.0 && double(filling.confidence[at]) < p.confidence_threshold)
        return false;
    return filling.contrast == nullptr || double(filling.contrast[at]) >= p.contrast_threshold;
}

__global__ void publish_filled(const __grid_constant__ Filling filling) {
    const Frame& f = filling.frame;
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < f.width && y < f.height) {
        const Parameters p = *f.parameters;
        const int at = y * f.width + x;
        const bool is_valid = f.filtered[at] >= 0;
        const bool leaves = p.fills || (is_valid && is_published(filling, p, at));
        publish<true>(f, p, x, y, leaves ? filling.filled[at] : INVALID, !is_valid,
                      filling.confidence);
    }
    stamp_last(f.end, f.ended);
}
