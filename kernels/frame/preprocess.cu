// Stage preprocess: from grey values to the image that is matched, in float32; borders are
// replicated. Grey is uint8 or float; blockIdx.z = image. Sums of whole numbers are exact, as
// OpenCV's are, and so the results are equal.
#include "device.cuh"

// Pixels of a block.
constexpr int TILE_WIDTH = 32, TILE_HEIGHT = 16, THREADS = 256;

struct Planes {
    const void* from[2];  // H x W
    float* to[2];
    int width, height;
    uint64* stamp;  // time at which the stage starts, ns; null = none
};

template <typename Grey>
DEVICE Grey value_at(const Planes& p, int x, int y) {
    return static_cast<const Grey*>(
        p.from[blockIdx.z])[min(max(y, 0), p.height - 1) * p.width + min(max(x, 0), p.width - 1)];
}

// A tile of an image with its halo, for sums over rows and then over columns.
template <typename Element, typename Sum>
struct FilterTile {
    Sum* sums;          // [TILE_HEIGHT + 2 halo][TILE_WIDTH], of the rows
    Element* elements;  // [TILE_HEIGHT + 2 halo][TILE_WIDTH + 2 halo]
    int halo, rows, columns, thread;

    DEVICE FilterTile(void* shared, int halo)
        : sums(static_cast<Sum*>(shared)), halo(halo), rows(TILE_HEIGHT + 2 * halo),
          columns(TILE_WIDTH + 2 * halo), thread(threadIdx.y * TILE_WIDTH + threadIdx.x) {
        elements = reinterpret_cast<Element*>(sums + rows * TILE_WIDTH);
    }

    template <typename Grey, typename Change>
    DEVICE void load(const Planes& p, Change change) const {
        const int first_x = blockIdx.x * TILE_WIDTH - halo;
        const int first_y = blockIdx.y * TILE_HEIGHT - halo;
        for (int i = thread; i < rows * columns; i += THREADS)
            elements[i] = change(value_at<Grey>(p, first_x + i % columns, first_y + i / columns));
        __syncthreads();
    }
    // ``sum(first, step)`` adds up elements or sums around first[halo * step].
    template <typename Add>
    DEVICE void sum_rows(Add add) const {
        for (int i = thread; i < rows * TILE_WIDTH; i += THREADS)
            sums[i] = add(elements + i / TILE_WIDTH * columns + i % TILE_WIDTH, 1);
        __syncthreads();
    }
    // Calls ``write`` with each pixel of the tile, its element and its sum.
    template <typename Add, typename Write>
    DEVICE void sum_columns(const Planes& p, Add add, Write write) const {
        for (int row = threadIdx.y; row < TILE_HEIGHT; row += THREADS / TILE_WIDTH) {
            const int x = blockIdx.x * TILE_WIDTH + threadIdx.x,
                      y = blockIdx.y * TILE_HEIGHT + row;
            if (x >= p.width || y >= p.height) return;
            const Element own = elements[(row + halo) * columns + threadIdx.x + halo];
            write(y * p.width + x, own, add(sums + row * TILE_WIDTH + threadIdx.x, TILE_WIDTH));
        }
    }
};

extern __shared__ double shared_memory[];

constexpr int MAX_RADIUS = 41;  // of the Gaussian: ceil(4 sigma) + 1 with sigma 10

struct Gaussian {
    Planes planes;
    int radius;
    float weights[MAX_RADIUS + 1];  // from the middle outwards
};

template <typename Grey>
__global__ void __launch_bounds__(THREADS) gaussian(const __grid_constant__ Gaussian p) {
    stamp_time(p.planes.stamp);
    const FilterTile<float, float> tile(shared_memory, p.radius);
    const auto weigh = [&p](const float* first, int step) {
        const float* const middle = first + p.radius * step;
        float sum = p.weights[0] * *middle;
        for (int i = 1; i <= p.radius; ++i)
            sum += p.weights[i] * (middle[i * step] + middle[-i * step]);
        return sum;
    };
    tile.template load<Grey>(p.planes, [](Grey value) { return float(value); });
    tile.sum_rows(weigh);
    float* const to = p.planes.to[blockIdx.z];
    tile.sum_columns(p.planes, weigh, [to](int at, float, float sum) { to[at] = sum; });
}

struct Box {
    Planes planes;
    int radius;
    double share;  // residual: 1 / pixels of the box
};

// Sum of a box: exact for whole numbers, else in float64.
template <typename Sum>
struct BoxSum {
    int side;

    template <typename Value>
    DEVICE Sum operator()(const Value* first, int step) const {
        Sum sum = 0;
        for (int i = 0; i < side; ++i) sum += Sum(first[i * step]);
        return sum;
    }
};

template <typename Grey> struct SumOf { using Type = double; };
template <> struct SumOf<uint8> { using Type = int; };

// The image minus its box mean.
template <typename Grey>
__global__ void __launch_bounds__(THREADS) residual(const __grid_constant__ Box p) {
    using Sum = typename SumOf<Grey>::Type;
    stamp_time(p.planes.stamp);
    const FilterTile<Grey, Sum> tile(shared_memory, p.radius);
    const BoxSum<Sum> add = {2 * p.radius + 1};
    tile.template load<Grey>(p.planes, [](Grey value) { return value; });
    tile.sum_rows(add);
    float* const to = p.planes.to[blockIdx.z];
    const double share = p.share;
    tile.sum_columns(p.planes, add, [to, share](int at, Grey own, Sum sum) {
        to[at] = __fadd_rn(float(own), -float(__dmul_rn(double(sum), share)));
    });
}

// Sum of the absolute values of a derivative over a box.
__global__ void __launch_bounds__(THREADS) texture(const __grid_constant__ Box p) {
    stamp_time(p.planes.stamp);
    const FilterTile<float, double> tile(shared_memory, p.radius);
    const BoxSum<double> add = {2 * p.radius + 1};
    tile.load<float>(p.planes, [](float value) { return fabsf(value); });
    tile.sum_rows(add);
    float* const to = p.planes.to[blockIdx.z];
    tile.sum_columns(p.planes, add, [to](int at, float, double sum) { to[at] = float(sum); });
}

struct Derivative {
    Planes planes;
    float scale, cap;  // factor, and bound of the absolute result
};

// OpenCV's 3x3 Sobel x derivative, or the magnitude of the gradient, scaled and clipped.
template <typename Grey, bool IS_MAGNITUDE>
__global__ void __launch_bounds__(THREADS) sobel(const __grid_constant__ Derivative p) {
    stamp_time(p.planes.stamp);
    const int x = blockIdx.x * TILE_WIDTH + threadIdx.x;
    for (int row = threadIdx.y; row < TILE_HEIGHT; row += THREADS / TILE_WIDTH) {
        const int y = blockIdx.y * TILE_HEIGHT + row;
        if (x >= p.planes.width || y >= p.planes.height) return;
        float across[3], along[3];  // derivative and smoothed value of each row
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const float before = value_at<Grey>(p.planes, x - 1, y + i - 1);
            const float after = value_at<Grey>(p.planes, x + 1, y + i - 1);
            across[i] = after - before;
            if (IS_MAGNITUDE)
                along[i] = before + 2 * float(value_at<Grey>(p.planes, x, y + i - 1)) + after;
        }
        float value = across[0] + 2 * across[1] + across[2];
        if (IS_MAGNITUDE) {
            const float vertical = along[2] - along[0];
            value = __fsqrt_rn(value * value + vertical * vertical);
        }
        p.planes.to[blockIdx.z][y * p.planes.width + x] = fmaxf(
            fminf(__fmul_rn(value, p.scale), p.cap), -p.cap);
    }
}

// The least range of grey values in a window of CONTRAST_SIDE pixels that has the pixel. The
// centres of the windows are inside the image; what lies outside is not looked at, so replicated
// borders will do. Of a pixel that is not BRIGHT it is not asked for: UNASKED.
constexpr int CONTRAST_SIDE = 7;
constexpr float BRIGHT = 128.0f, UNASKED = 3e38f;

template <typename Grey>
__global__ void __launch_bounds__(THREADS) contrast(const __grid_constant__ Planes p) {
    constexpr int RADIUS = CONTRAST_SIDE / 2;
    constexpr int ROWS = TILE_HEIGHT + 4 * RADIUS, COLUMNS = TILE_WIDTH + 4 * RADIUS;
    constexpr int CENTRE_ROWS = TILE_HEIGHT + 2 * RADIUS, CENTRES = TILE_WIDTH + 2 * RADIUS;
    __shared__ Grey grey[ROWS][COLUMNS], least[ROWS][CENTRES], largest[ROWS][CENTRES];
    __shared__ float ranges[CENTRE_ROWS][CENTRES];
    stamp_time(p.stamp);
    const int thread = threadIdx.y * TILE_WIDTH + threadIdx.x;
    const int first_x = blockIdx.x * TILE_WIDTH - 2 * RADIUS;
    const int first_y = blockIdx.y * TILE_HEIGHT - 2 * RADIUS;
    for (int i = thread; i < ROWS * COLUMNS; i += THREADS)
        grey[i / COLUMNS][i % COLUMNS] =
            value_at<Grey>(p, first_x + i % COLUMNS, first_y + i / COLUMNS);
    __syncthreads();
    for (int i = thread; i < ROWS * CENTRES; i += THREADS) {
        const Grey* const first = &grey[i / CENTRES][i % CENTRES];
        Grey low = *first, high = *first;
        for (int k = 1; k < CONTRAST_SIDE; ++k) {
            low = min(low, first[k]);
            high = max(high, first[k]);
        }
        least[i / CENTRES][i % CENTRES] = low;
        largest[i / CENTRES][i % CENTRES] = high;
    }
    __syncthreads();
    for (int i = thread; i < CENTRE_ROWS * CENTRES; i += THREADS) {
        const int row = i / CENTRES, column = i % CENTRES;
        Grey low = least[row][column], high = largest[row][column];
        for (int k = 1; k < CONTRAST_SIDE; ++k) {
            low = min(low, least[row + k][column]);
            high = max(high, largest[row + k][column]);
        }
        const int x = first_x + RADIUS + column, y = first_y + RADIUS + row;
        const bool is_centre = x >= 0 && x < p.width && y >= 0 && y < p.height;
        ranges[row][column] = is_centre ? float(high) - float(low) : UNASKED;
    }
    __syncthreads();
    for (int row = threadIdx.y; row < TILE_HEIGHT; row += THREADS / TILE_WIDTH) {
        const int x = blockIdx.x * TILE_WIDTH + threadIdx.x, y = blockIdx.y * TILE_HEIGHT + row;
        if (x >= p.width || y >= p.height) return;
        float found = UNASKED;
        const bool is_bright
            = float(grey[row + 2 * RADIUS][threadIdx.x + 2 * RADIUS]) >= BRIGHT;
        for (int k = 0; is_bright && k < CONTRAST_SIDE * CONTRAST_SIDE; ++k)
            found = fminf(found, ranges[row + k / CONTRAST_SIDE][threadIdx.x + k % CONTRAST_SIDE]);
        p.to[blockIdx.z][y * p.width + x] = found;
    }
}
