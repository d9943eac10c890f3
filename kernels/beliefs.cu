// Stage beliefs: labels from the messages of level 0 in device memory.
#include "beliefs.cuh"

// A warp = nodes of one colour in one row, each with the lanes of its vector; blockIdx.y = row,
// blockIdx.z = colour. ``messages`` are those of both colours, as Pass keeps them, Kind the type of
// the data cost; null = no iteration was asked for.
template <typename Message, int DISPARITIES, typename Kind>
__global__ void __launch_bounds__(128)
select_labels(const void* cost, const typename Message::Unit* messages_0,
              const typename Message::Unit* messages_1, const typename Message::Unit* zero,
              uint32 cost_factor, int width, int height, int half, int slope, int truncation,
              float float_slope, float float_truncation, const __grid_constant__ Matches out) {
    using S = Shape<Message, DISPARITIES>;
    constexpr int NODES = 32 / S::LANES;
    const int self = threadIdx.x % 32, lane = S::LANES == 1 ? 0 : self / NODES;
    const int y = blockIdx.y + 1, colour = blockIdx.z;
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int x = 2 * (warp * NODES + self % NODES) + ((y + colour) & 1);
    const bool is_valid = x > 0 && x < width - 1;
    if (S::LANES == 1 && !is_valid) return;
    if (!is_valid) x = 1 + ((y + colour + 1) & 1);
    const auto* const messages = colour ? messages_0 : messages_1;
    Arriving<Message, DISPARITIES, Kind, true> node = {{cost, half, cost_factor, x, y}};
#pragma unroll
    for (int direction = 0; direction < 4; ++direction) {
        const int from_x = x + column_step(direction), from_y = y + row_step(direction);
        node.from[direction] = {zero, 0};
        if (messages_0 != nullptr && from_x > 0 && from_x < width - 1 && from_y > 0
            && from_y < height - 1)
            node.from[direction] = {messages + size_t(4 * from_y + (direction ^ 1)) * S::UNITS
                                        * half + (from_x >> 1), half};
    }
    const Smoothness<typename Message::Word> smooth = {
        splat<Message>(slope, float_slope), splat<Message>(truncation, float_truncation)};
    select_label<true, 4>(node, smooth, lane, NODES, is_valid, x, y, out);
}

// The label of each pixel of the other image from the beliefs that were offered to it; the keys
// are made ready for the next frame. -1 = none.
__global__ void take_right_labels(uint64* keys, short* labels, int count) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    const uint64 key = keys[at];
    labels[at] = key == ~0ull ? short(-1) : short(key & 0xffff);
    keys[at] = ~0ull;
}
