// Points in space and their colours, each from its own disparity and pixel.
#include "outputs/finished.cuh"

// Red << 16 | green << 8 | blue; three times its grey value where a pixel has no colours.
DEVICE uint32 packed_colour(const Finished& f, float wide_scale, int x, int y) {
    const int width = f.reference_width, height = f.reference_height;
    x = min(x / f.reference_factor, width - 1);
    y = min(y / f.reference_factor, height - 1);
    if (f.is_mirrored) x = width - 1 - x;
    if (f.layout == VALUES) {
        const float value = reinterpret_cast<const float*>(f.reference)[y * width + x];
        return uint32(__fadd_rn(fminf(value, 255.0f), 0.5f)) * 0x10101;
    }
    if (f.layout == COLOUR) {
        const uint8* const at = f.reference + (size_t(y) * width + x) * f.pixel_bytes;
        return uint32(at[f.first]) << 16 | uint32(at[1]) << 8 | at[2 - f.first];
    }
    const Source source{f.reference, nullptr, f.layout, f.pixel_bytes, f.first};
    const int value = value_at(source, x, y, width, height);
    // Of 16 bits, more than 255 is white.
    const int grey = f.layout < WIDE
        ? value
        : int(__fadd_rn(fminf(__fmul_rn(float(value), wide_scale), 255.0f), 0.5f));
    return uint32(grey) * 0x10101;
}

// At once, where that can be: the caller's array may begin at any float.
DEVICE void write_point(float* to, float x, float y, float z, float colour) {
    if (reinterpret_cast<size_t>(to) % sizeof(float4) == 0) {
        *reinterpret_cast<float4*>(to) = {x, y, z, colour};
    } else {
        to[0] = x;
        to[1] = y;
        to[2] = z;
        to[3] = colour;
    }
}

// A thread has a point: one for every column and row of a number, in as many rows without gaps.
__global__ void points(const __grid_constant__ Finished f) {
    stamp_time(f.stamp);
    const Parameters p = *f.parameters;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int x = column * p.decimation, y = row * p.decimation;
    if (x < f.width && y < f.height) {
        const int sixteenths = f.disparity[y * f.width + x];
        const double disparity = __dadd_rn(__dadd_rn(double(f.min_disparity), sixteenths * 0.0625),
                                           -p.shift);
        const double depth = __ddiv_rn(p.focal_baseline, disparity);
        const bool is_there = sixteenths >= 0 && disparity > 0.0 && depth >= p.nearest
            && depth <= p.farthest;
        const double right = __dmul_rn(__dadd_rn(double(x), -p.cx), p.per_column);
        const double down = __dmul_rn(__dadd_rn(double(y), -p.cy), p.per_row);
        const float none = __int_as_float(0x7fc00000);
        const int columns = (f.width + p.decimation - 1) / p.decimation;
        write_point(p.points + 4 * (size_t(row) * columns + column),
                    is_there ? float(__dmul_rn(right, depth)) : none,
                    is_there ? float(__dmul_rn(down, depth)) : none,
                    is_there ? float(depth) : none,
                    __uint_as_float(packed_colour(f, p.wide_scale, x, y)));
    }
    stamp_last(f.end, f.ended);
}
