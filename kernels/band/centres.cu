// Search of a band: from the map of the first pass to the centres of each pixel's windows.
#include "band/windows.cuh"
#include "outputs/enlarging.cuh"

// Pixels of a block of ``widen_estimates``, and how far it looks to each side.
constexpr int CENTRE_WIDTH = 32, CENTRE_HEIGHT = 8, NEAR = 8;
constexpr int CENTRE_COLUMNS = CENTRE_WIDTH + 2 * NEAR, CENTRE_ROWS = CENTRE_HEIGHT + 2 * NEAR;

struct HalveLaunch {
    const void* source[2];  // H x W, left and right: uint8 or float
    float* to[2];            // h x w
    int width, height, reduced_width, reduced_height;
};

// Means of 2 x 2 pixels; an image of one row or column is continued. blockIdx.z = image,
// thread = a mean.
template <typename Pixel>
__global__ void halve(const __grid_constant__ HalveLaunch p) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= p.reduced_width || y >= p.reduced_height) return;
    const Pixel* const from = static_cast<const Pixel*>(p.source[blockIdx.z]);
    float total = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        total += float(from[min(2 * y + i / 2, p.height - 1) * p.width
                            + min(2 * x + i % 2, p.width - 1)]);
    p.to[blockIdx.z][y * p.reduced_width + x] = 0.25f * total;
}

struct CentreLaunch {
    const short* reduced;  // h x w: sixteenths of a reduced pixel
    short* estimates;      // H x W labels
    short* centres;        // [y][x][window]
    int reduced_width, reduced_height, width, height;
    int left, top, right, bottom;  // where the map counts; beyond, its border is repeated
    int offset;                    // from sixteenths of ``reduced`` to labels
    int least, most;               // of a centre
};

// Thread = a pixel.
__global__ void make_estimates(const __grid_constant__ CentreLaunch p) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= p.width || y >= p.height) return;
    const auto value = [&](int row, int column) {
        if (p.right > p.left) {
            row = min(max(row, p.top), p.bottom - 1);
            column = min(max(column, p.left), p.right - 1);
        }
        return int(p.reduced[row * p.reduced_width + column]);
    };
    const int sixteenths = enlarged(value, x, y, 2, p.reduced_width, p.reduced_height);
    p.estimates[y * p.width + x] = short((sixteenths + 8 >> 4) + p.offset);
}

// The largest of 17 x 17 estimates. Thread = a pixel.
__global__ void __launch_bounds__(CENTRE_WIDTH* CENTRE_HEIGHT)
    widen_estimates(const __grid_constant__ CentreLaunch p) {
    __shared__ short near[CENTRE_ROWS][CENTRE_COLUMNS], rows[CENTRE_ROWS][CENTRE_WIDTH];
    const int first_x = blockIdx.x * CENTRE_WIDTH, first_y = blockIdx.y * CENTRE_HEIGHT;
    constexpr int THREADS = CENTRE_WIDTH * CENTRE_HEIGHT;
    for (int i = threadIdx.x; i < CENTRE_ROWS * CENTRE_COLUMNS; i += THREADS) {
        const int x = min(max(first_x + i % CENTRE_COLUMNS - NEAR, 0), p.width - 1);
        const int y = min(max(first_y + i / CENTRE_COLUMNS - NEAR, 0), p.height - 1);
        near[i / CENTRE_COLUMNS][i % CENTRE_COLUMNS] = p.estimates[y * p.width + x];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < CENTRE_ROWS * CENTRE_WIDTH; i += THREADS) {
        int largest = near[i / CENTRE_WIDTH][i % CENTRE_WIDTH];
        for (int k = 1; k <= 2 * NEAR; ++k)
            largest = max(largest, int(near[i / CENTRE_WIDTH][i % CENTRE_WIDTH + k]));
        rows[i / CENTRE_WIDTH][i % CENTRE_WIDTH] = short(largest);
    }
    __syncthreads();
    const int column = threadIdx.x % CENTRE_WIDTH, row = threadIdx.x / CENTRE_WIDTH;
    const int x = first_x + column, y = first_y + row;
    if (x >= p.width || y >= p.height) return;
    int largest = rows[row][column];
    for (int k = 1; k <= 2 * NEAR; ++k) largest = max(largest, int(rows[row + k][column]));
    const int own = near[row + NEAR][column + NEAR];
    short* const to = p.centres + 2 * (size_t(y) * p.width + x);
    to[0] = short(min(max(own, p.least), p.most));
    to[1] = short(min(max(largest, p.least), p.most));
}
