// Refinement of one pixel, for the kernels of this stage and for those that select labels.
//
// Between the steps an image is int16, in sixteenths of a pixel relative to min_disparity, or
// INVALID. It is in the frame of matching: mirrored in x where the right image is the reference.
#pragma once
#include "device.cuh"

constexpr short INVALID = -16;

// Values that may change between two frames of one graph; uploaded with each frame.
struct Parameters {
    // H x W, in memory that the device can write, or null.
    float* disparity;
    float* depth;
    float* confidence;
    short* fixed_disparity;
    unsigned short* depth_mm;
    uint8* disparity_color;  // H x W x 3: blue, green and red
    float* points;           // H x W x 4, of every ``decimation``-th row and column
    short* final;            // sixteenths from min_disparity on, INVALID where invalid
    double margin;           // uniqueness: least lead of the best over the second
    double texture_threshold;
    double largest_cost;     // of one pixel, in units of the beliefs
    double published_shift;  // pixels that disparities are shifted by
    double shift;            // the same for depth
    double focal_baseline;   // pixels x metres
    double best_factor;      // uniqueness of SAD: of the best against 100 of the second
    double confidence_threshold, contrast_threshold;
    double plane_threshold;      // confidence below which a pixel gets a plane
    double cx, cy;               // of the reference camera, pixels
    double per_column, per_row;  // reciprocals of the focal lengths in pixels
    double nearest, farthest;    // of points, metres
    int is_subpixel, is_unique, is_textured, keeps_border;
    int fills;              // invalid pixels get values
    int bilateral_factor;   // from differences to 65536ths of that which has no weight
    int needs_partner;      // a pixel whose partner is outside is invalid
    int max_difference;     // left-right check, 0 = off
    int speckle_size;       // pixels
    int speckle_range;      // sixteenths
    int decimation;         // of points
    float wide_scale;       // from 16 bits to grey values
    int color_range;        // sixteenths
    uint8 colors[3 * 256];
};

struct Frame {
    const Parameters* parameters;
    const short* label;  // H x W, -1 = none
    const signed char* fraction;
    const void* best;  // uint32; float32 where beliefs are
    const void* second;
    const short* right_label;
    const float* texture;
    short* sixteenths;
    short* filtered;    // written by the median, read by publish
    int* regions;       // a pixel of the same region, at most the pixel itself; or null
    int* region_sizes;  // pixels, at the least number of a region
    uint64* stamp;      // time at which the stage starts, ns; null = none
    uint64* end;        // time at which a separate publication ends
    uint32* ended;      // blocks that have published
    int width, height;
    int x_begin, x_end, y_begin, y_end;  // valid window in the frame of matching
    int min_disparity;
    int is_mirrored, has_float_costs, is_sad;
};

// The frame where a map without holes lies between rejection and publication.
struct Filling {
    Frame frame;              // ``filtered``: which pixels are valid
    short* filled;            // H x W; less than 0 where nothing was found
    short* smoothed;          // between the two halves of a pass of the bilateral filter; before
                              // that what planes are compared with
    uint32* row_sums;         // of a row of the windows of the confidence, and pixels with a value
    uint8* row_values;
    float* confidence;        // null = it is not asked for
    const void* grey;         // of the reference image, uint8 or float
    const float* contrast;    // null = is not asked for
    int most;                 // sixteenths of the last label
    int has_float_grey;
};

DEVICE double cost_at(const Frame& f, const void* costs, int at) {
    return f.has_float_costs ? double(static_cast<const float*>(costs)[at])
                             : double(static_cast<const uint32*>(costs)[at]);
}

DEVICE bool is_outside(const Frame& f, int x, int y) {
    return x < f.x_begin || x >= f.x_end || y < f.y_begin || y >= f.y_end;
}

// The nearest pixel of a row whose bit is set before x, or -1, and after x, or ``width``.
DEVICE int valid_before(const uint32* valid, int x) {
    int i = x / 32;
    uint32 word = valid[i] & ~(~0u << x % 32);
    while (word == 0 && i > 0) word = valid[--i];
    return 32 * i + 31 - __clz(word);
}
DEVICE int valid_after(const uint32* valid, int x, int width) {
    int i = x / 32;
    uint32 word = valid[i] & ~1u << x % 32;
    while (word == 0 && 32 * (i + 1) < width) word = valid[++i];
    return word == 0 ? width : 32 * i + __ffs(word) - 1;
}

DEVICE short reject(const Frame& f, const Parameters& p, int x, int y) {
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
    if (p.needs_partner) {
        const int other_x = x - f.min_disparity - label;
        if (other_x < 0 || other_x >= f.width) return INVALID;
        if (p.max_difference > 0) {
            const int other = f.right_label[y * f.width + other_x];
            if (other < 0 || abs(label - other) > p.max_difference) return INVALID;
        }
    }
    return short(16 * label + (p.is_subpixel ? f.fraction[at] : 0));
}

// Writes a pixel's disparity in every form that is asked for; below 0 = invalid. KEEPS: also in
// millimetres, and where other outputs are computed from. Kernels that select labels have no
// registers left for that.
template <bool KEEPS>
DEVICE void write_disparity(const Parameters& p, int to, int min_disparity, int sixteenths) {
    if (KEEPS && p.final != nullptr) p.final[to] = short(sixteenths < 0 ? INVALID : sixteenths);
    if (p.fixed_disparity != nullptr)
        p.fixed_disparity[to] = short(16 * min_disparity
                                      + (sixteenths < 0 ? INVALID : sixteenths));
    const double disparity = __dadd_rn(double(min_disparity), sixteenths * 0.0625);
    if (p.disparity != nullptr)
        p.disparity[to] = sixteenths < 0 ? float(min_disparity - p.published_shift - 1.0)
                                         : float(__dadd_rn(disparity, -p.published_shift));
    const double shifted = __dadd_rn(disparity, -p.shift);
    const bool is_in_front = sixteenths >= 0 && shifted > 0.0;
    if (p.depth != nullptr)
        p.depth[to] = is_in_front ? float(__ddiv_rn(p.focal_baseline, shifted))
                                  : __int_as_float(0x7fc00000);
    if (KEEPS && p.depth_mm != nullptr) {
        const double factor = __dmul_rn(1000.0, p.focal_baseline);
        const double rounded = is_in_front ? __dadd_rn(__ddiv_rn(factor, shifted), 0.5) : 0.0;
        p.depth_mm[to] = (unsigned short)(rounded < 65536.0 ? rounded : 0.0);
    }
}

// ``confidence``: of pixels, where it is asked for.
template <bool KEEPS>
DEVICE void publish(const Frame& f, const Parameters& p, int x, int y, int sixteenths,
                    bool is_filled, const float* confidence = nullptr) {
    const int at = y * f.width + x;
    const int to = f.is_mirrored ? y * f.width + f.width - 1 - x : at;
    write_disparity<KEEPS>(p, to, f.min_disparity, sixteenths);
    if (KEEPS && p.confidence != nullptr)
        p.confidence[to] = sixteenths < 0 || is_filled ? 0.0f : confidence[at];
}

// Rejects and publishes a tile whose labels the block has selected, where no filter lies between:
// a warp for each row.
DEVICE void publish_tile(const Frame& f, int left, int top, int width, int height) {
    const Parameters p = *f.parameters;
    for (int y = top + threadIdx.x / 32; y < min(top + height, f.height); y += blockDim.x / 32)
        for (int x = left + threadIdx.x % 32; x < min(left + width, f.width); x += 32)
            publish<false>(f, p, x, y, reject(f, p, x, y), false);
}
// The same for a part of one row; a thread has a pixel.
DEVICE void publish_row(const Frame& f, int left, int y, int width) {
    const Parameters p = *f.parameters;
    const int end = min(left + width, f.width);
    for (int x = left + threadIdx.x; x < end; x += blockDim.x)
        publish<false>(f, p, x, y, reject(f, p, x, y), false);
}
