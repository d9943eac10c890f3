// Stage cost: which messages of a level cross an edge of the image.
#include "costs/features.cuh"
#include "hierarchical/vector.cuh"

// Nodes of a block, one for each thread.
constexpr int EDGE_WIDTH = 32, EDGE_HEIGHT = 8;

struct EdgeLaunch {
    const void* grey;  // level 0: uint8 or float pixels; else int, the sums of the finer level
    int grey_width, grey_height;
    int pitch;         // elements from one row of these to the next
    int* sums;         // of the level, H x W
    uint8* edges;      // H x W: bit d = the message in direction d crosses an edge
    int width, height;
    int threshold;     // least sum of three differences that is an edge
};

// The grey value of a node: of level 0 rounded to 8 bits, else the sum of its children. The last
// row and the last column count twice where their number is odd.
template <typename Value>
DEVICE int sum_at(const EdgeLaunch& p, int x, int y) {
    return rounded(static_cast<const Value*>(p.grey)[y * p.pitch + x]);
}
template <>
DEVICE int sum_at<int>(const EdgeLaunch& p, int x, int y) {
    const int right = min(2 * x + 1, p.grey_width - 1), below = min(2 * y + 1, p.grey_height - 1);
    const int* const children = static_cast<const int*>(p.grey);
    return children[2 * y * p.pitch + 2 * x] + children[2 * y * p.pitch + right]
        + children[below * p.pitch + 2 * x] + children[below * p.pitch + right];
}

// Value: of ``grey``. Nodes on the border send nothing.
template <typename Value>
__global__ void __launch_bounds__(EDGE_WIDTH* EDGE_HEIGHT)
    find_edges(const __grid_constant__ EdgeLaunch p) {
    const int x = blockIdx.x * EDGE_WIDTH + threadIdx.x % EDGE_WIDTH;
    const int y = blockIdx.y * EDGE_HEIGHT + threadIdx.x / EDGE_WIDTH;
    if (x >= p.width || y >= p.height) return;
    const int place = y * p.width + x;
    if (x == 0 || y == 0 || x == p.width - 1 || y == p.height - 1) {
        p.sums[place] = sum_at<Value>(p, x, y);
        p.edges[place] = 0;
        return;
    }
    int around[3][3], edges = 0;
#pragma unroll
    for (int i = 0; i < 9; ++i)
        around[i / 3][i % 3] = sum_at<Value>(p, x + i % 3 - 1, y + i / 3 - 1);
    p.sums[place] = around[1][1];
#pragma unroll
    for (int direction = 0; direction < 4; ++direction) {
        const int row = 1 + row_step(direction), column = 1 + column_step(direction);
        int difference = 0;
#pragma unroll
        for (int beside = 0; beside < 3; ++beside)
            difference += direction & 2 ? around[beside][1] - around[beside][column]
                                        : around[1][beside] - around[row][beside];
        edges |= int(abs(difference) >= p.threshold) << direction;
    }
    p.edges[place] = uint8(edges);
}
