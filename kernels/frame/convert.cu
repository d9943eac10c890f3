// Stages upload and convert: the bytes of both images to the device, and their grey values.
#include "device.cuh"

// A copy of units of 16 bytes, and of the remaining bytes.
struct Segment {
    const uint4* from;
    uint4* to;
    int count, rest;
};

struct Upload {
    Segment segments[3];      // parameters of the frame, left image, right image
    const uint64* addresses;  // of the images, where they differ from those above; or null
    uint64* stamp;            // time at which the stage starts, ns; null = none
};

// Reads the host's pinned memory where it lies. blockIdx.y = segment.
__global__ void upload(const __grid_constant__ Upload p) {
    constexpr int AT_ONCE = 4;
    stamp_time(p.stamp);
    const int number = blockIdx.y;
    const Segment segment = p.segments[number];
    // One thread asks for the address of the image: each answer comes through the bus.
    __shared__ const uint4* source;
    if (threadIdx.x == 0)
        source = number > 0 && p.addresses != nullptr
            ? reinterpret_cast<const uint4*>(p.addresses[number - 1])
            : segment.from;
    __syncthreads();
    const uint4* const from = source;
    const int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < segment.count;
         i += AT_ONCE * threads) {
        uint4 units[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j)
            if (i + j * threads < segment.count) units[j] = from[i + j * threads];
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j)
            if (i + j * threads < segment.count) segment.to[i + j * threads] = units[j];
    }
    if (blockIdx.x == 0 && threadIdx.x < segment.rest)
        reinterpret_cast<uint8*>(segment.to + segment.count)[threadIdx.x] =
            reinterpret_cast<const uint8*>(from + segment.count)[threadIdx.x];
}

// How the bytes of an image are read; rows are tight.
enum PixelLayout {
    CHANNEL,  // one byte of each pixel is its grey value
    COLOUR,   // three colours of 8 bits, green in the second byte
    MOSAIC,   // one colour for each pixel
    WIDE      // 16 bits
};

struct Source {
    const uint8* bytes;
    void* grey;  // H x W, written
    int layout;
    int pixel_bytes;
    // CHANNEL: number of the byte that is taken. COLOUR: of the byte of red. MOSAIC: column (bit
    // 0) and row (bit 1) of the first red pixel. WIDE: number of the more significant byte.
    int first;
};

struct Conversion {
    Source sources[2];
    int width, height;
    int is_mirrored;  // columns are reversed
    float scale;      // from 16 bits to grey values
    uint64* stamp;
};

// OpenCV's integer BT.601: 15 bits, rounded half up.
__device__ __forceinline__ int luma(int red, int green, int blue) {
    return (9798 * red + 19235 * green + 3735 * blue + (1 << 14)) >> 15;
}

// OpenCV's bilinear demosaicing to grey in one step; a border pixel is its inner neighbour.
__device__ __forceinline__ int demosaiced(const uint8* bytes, int x, int y, int width, int height,
                                          int first) {
    constexpr int RED = 4899, GREEN = 9617, BLUE = 1868;  // 14 bits
    if (width < 3 || height < 3) return 0;
    x = min(max(x, 1), width - 2);
    y = min(max(y, 1), height - 2);
    const uint8* const at = bytes + y * width + x;
    const int own = at[0], across = at[-1] + at[1], along = at[-width] + at[width];
    const int diagonal = at[-width - 1] + at[-width + 1] + at[width - 1] + at[width + 1];
    const bool is_red_column = (x & 1) == (first & 1), is_red_row = (y & 1) == first >> 1;
    if (is_red_column != is_red_row)  // green
        return (across * (is_red_row ? RED : BLUE) + along * (is_red_row ? BLUE : RED)
                + own * 2 * GREEN + (1 << 14))
            >> 15;
    return (diagonal * (is_red_row ? BLUE : RED) + (across + along) * GREEN
            + own * 4 * (is_red_row ? RED : BLUE) + (1 << 15))
        >> 16;
}

__device__ __forceinline__ int value_at(const Source& source, int x, int y, int width,
                                        int height) {
    const uint8* const at = source.bytes + (size_t(y) * width + x) * source.pixel_bytes;
    switch (source.layout) {
        case COLOUR: return luma(at[source.first], at[1], at[2 - source.first]);
        case MOSAIC: return demosaiced(source.bytes, x, y, width, height, source.first);
        case WIDE: return at[source.first] << 8 | at[1 - source.first];
        default: return at[source.first];
    }
}

// Grey is uint8, where both images have 8 bits, or float. One thread per pixel; blockIdx.z =
// image.
template <typename Grey>
__global__ void convert(const __grid_constant__ Conversion p) {
    stamp_time(p.stamp);
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= p.width || y >= p.height) return;
    const Source& source = p.sources[blockIdx.z];
    const int value = value_at(source, p.is_mirrored ? p.width - 1 - x : x, y, p.width, p.height);
    Grey* const grey = static_cast<Grey*>(source.grey) + y * p.width + x;
    if constexpr (sizeof(Grey) == 1) *grey = Grey(value);
    else *grey = source.layout == WIDE ? __fmul_rn(float(value), p.scale) : float(value);
}
