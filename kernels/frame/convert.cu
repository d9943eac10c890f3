// Stages upload and convert: the bytes of both images to the device, and their grey values, of raw
// images the rectified ones.
#include "frame/convert.cuh"

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

struct Conversion {
    Source sources[2];
    int width, height;              // of the grey values
    int image_width, image_height;  // of the bytes
    int factor;                     // a grey value is the mean of so many pixels along x and y
    int is_mirrored;                // columns are reversed
    float scale;                    // from the sum of pixels of 16 bits to grey values
    uint64* stamp;
};

// Grey is uint8, where both images have 8 bits, or float. One thread per pixel; blockIdx.z =
// image.
template <typename Grey>
__global__ void convert(const __grid_constant__ Conversion p) {
    stamp_time(p.stamp);
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= p.width || y >= p.height) return;
    const Source& source = p.sources[blockIdx.z];
    const int left = (p.is_mirrored ? p.width - 1 - x : x) * p.factor, top = y * p.factor;
    int sum = 0;
    for (int j = 0; j < p.factor; ++j)
        for (int i = 0; i < p.factor; ++i)
            sum += value_at(source, min(left + i, p.image_width - 1),
                            min(top + j, p.image_height - 1), p.image_width, p.image_height);
    const int area = p.factor * p.factor, mean = (sum + area / 2) / area;
    Grey* const grey = static_cast<Grey*>(source.grey) + y * p.width + x;
    if constexpr (sizeof(Grey) == 1) *grey = Grey(mean);
    else *grey = source.layout >= WIDE ? __fmul_rn(float(sum), p.scale) : float(mean);
}

// A pair to be rectified. The maps are OpenCV's: where each rectified pixel lies in the raw image.
struct RawPair {
    Source sources[2];
    const uint32* corners[2];  // the raw pixel up and left of it: column and, above, row, int16
    const uint16* parts[2];  // how far from that, 32nds of a pixel: to the right + 32 x downwards
    float scales[2];         // from 16 bits to grey values; 0 = of 8 bits
    int width, height;       // of the raw images
    int rectified_width, rectified_height;
    int grey_width, grey_height;  // of the grey values
    int factor;                   // a grey value is the mean of so many along x and y
    int is_mirrored;              // columns of the grey values are reversed
    uint64* stamp;
};

// The four raw values around a rectified pixel; outside the image they are 0.
struct Corners { int upper_left, upper_right, lower_left, lower_right; };

DEVICE Corners corners_at(const RawPair& p, const Source& source, int x, int y) {
    const auto value = [&](int column, int row) {
        const bool is_inside = column >= 0 && column < p.width && row >= 0 && row < p.height;
        return is_inside ? value_at(source, column, row, p.width, p.height) : 0;
    };
    return {value(x, y), value(x + 1, y), value(x, y + 1), value(x + 1, y + 1)};
}

// As cv2.remap: in whole numbers where there are 8 bits, rounded half up.
DEVICE int bilinear(const Corners& at, int right, int down) {
    const int upper = at.upper_left * (32 - right) + at.upper_right * right;
    const int lower = at.lower_left * (32 - right) + at.lower_right * right;
    return (upper * (32 - down) + lower * down + 512) >> 10;
}

// As cv2.remap of scaled values: products and sums in its order, each rounded.
DEVICE float bilinear(const Corners& at, int right, int down, float scale) {
    const auto product = [&](int value, int weight) {
        return __fmul_rn(__fmul_rn(float(value), scale), float(weight) * (1.0f / 1024));
    };
    const float upper = __fadd_rn(product(at.upper_left, (32 - right) * (32 - down)),
                                  product(at.upper_right, right * (32 - down)));
    return __fadd_rn(__fadd_rn(upper, product(at.lower_left, (32 - right) * down)),
                     product(at.lower_right, right * down));
}

// Grey, threads and blocks as for ``convert``.
template <typename Grey>
__global__ void rectify(const __grid_constant__ RawPair p) {
    stamp_time(p.stamp);
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= p.grey_width || y >= p.grey_height) return;
    const int side = blockIdx.z;
    const int left = (p.is_mirrored ? p.grey_width - 1 - x : x) * p.factor, top = y * p.factor;
    const Source& source = p.sources[side];
    const bool is_whole = sizeof(Grey) == 1 || p.scales[side] == 0;
    int sum = 0;
    float scaled_sum = 0;
    for (int j = 0; j < p.factor; ++j)
        for (int i = 0; i < p.factor; ++i) {
            const size_t from = size_t(min(top + j, p.rectified_height - 1)) * p.rectified_width
                + min(left + i, p.rectified_width - 1);
            const uint32 corner = p.corners[side][from], parts = p.parts[side][from];
            const int right = parts & 31, down = parts >> 5;
            const Corners at = corners_at(p, source, int16(corner & 0xffff), int16(corner >> 16));
            if (is_whole) sum += bilinear(at, right, down);
            else scaled_sum = __fadd_rn(scaled_sum, bilinear(at, right, down, p.scales[side]));
        }
    const int area = p.factor * p.factor;
    static_cast<Grey*>(source.grey)[y * p.grey_width + x] = is_whole
        ? Grey((sum + area / 2) / area)
        : Grey(__fmul_rn(scaled_sum, 1.0f / area));
}
