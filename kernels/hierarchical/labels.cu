// Label selection: labels from the messages of level 0 in device memory.
#include "frame/refine.cuh"
#include "hierarchical/labels.cuh"

constexpr int THREADS = 128;  // of a block

struct Selection {
    const void* cost;
    uint32 cost_factor;       // as in Launch
    const void* messages[2];  // by colour of the sender, as in Launch; null = none
    const void* zero;
    int width, height, columns;
    int first_colour, colours;  // nodes of one colour, or of both
    int slope, truncation;      // of integer messages
    float float_slope, float_truncation;
    Matches matches;
    int publishes;  // refinement is part of it
    Frame frame;
};

// Block = a part of one row; warp = nodes of one colour, each with the lanes of its vector. Kind
// is the format of the data cost. Sums are those of threads that compute DIRECTIONS messages each.
// MORE: also the rest of Matches.
template <typename Message, int DISPARITIES, typename Kind, int DIRECTIONS, bool MORE>
__global__ void __launch_bounds__(THREADS) select_labels(const __grid_constant__ Selection p) {
    using S = Shape<Message, DISPARITIES>;
    using Unit = typename Message::Unit;
    constexpr int NODES = 32 / S::LANES;
    const int self = threadIdx.x % 32, lane = S::LANES == 1 ? 0 : self / NODES;
    const int nodes = blockDim.x / S::LANES;
    const int left = blockIdx.x * 2 * nodes, y = blockIdx.y;
    const Smoothness<typename Message::Word> smooth = {
        splat<Message>(p.slope, p.float_slope), splat<Message>(p.truncation, p.float_truncation)};
    const int colours = y > 0 && y < p.height - 1 ? p.colours : 0;
#pragma unroll 1
    for (int i = 0; i < colours; ++i) {
        const int colour = (p.first_colour + i) & 1;
        int x = left + 2 * (threadIdx.x / 32 * NODES + self % NODES) + ((y + colour) & 1);
        const bool exists = x > 0 && x < p.width - 1;
        if (S::LANES == 1 && !exists) continue;
        if (!exists) x = 1 + ((y + colour + 1) & 1);
        const auto* const messages = static_cast<const Unit*>(colour ? p.messages[0]
                                                                     : p.messages[1]);
        NodeBelief<Message, DISPARITIES, Kind, true> node = {
            {p.cost, p.columns, p.cost_factor, x, y}, lane};
#pragma unroll
        for (int direction = 0; direction < 4; ++direction) {
            const int from_x = x + column_step(direction), from_y = y + row_step(direction);
            node.from[direction] = {static_cast<const Unit*>(p.zero), 0};
            if (messages != nullptr && from_x > 0 && from_x < p.width - 1 && from_y > 0
                && from_y < p.height - 1)
                node.from[direction] = {
                    messages + size_t(4 * from_y + (direction ^ 1)) * S::UNITS * p.columns
                        + (from_x >> 1),
                    p.columns};
        }
        select_label<MORE, DIRECTIONS>(node, smooth, NODES, exists, x, y, p.matches);
    }
    if (!p.publishes) return;
    __syncthreads();
    publish_row(p.frame, left, y, 2 * nodes);
    stamp_end(p.frame.stamp);
}
