// Stage messages: belief propagation on one level of the pyramid, in passes over tiles. Threads
// take nodes as they come; ``resident.cu`` has the pass whose nodes stay with their threads.
#include "passes.cuh"

// Kind is the type of the level's data cost.
template <typename Message, int DISPARITIES, typename Kind, int DIRECTIONS, int THREADS,
          int BLOCKS, Work WORK>
__global__ void __launch_bounds__(THREADS, BLOCKS)
pass_messages(const __grid_constant__ Pass p) {
    using S = Shape<Message, DISPARITIES>;
    using U = Update<Message, DISPARITIES, Kind, DIRECTIONS>;
    using T = typename U::T;
    using Unit = typename Message::Unit;
    constexpr bool IS_ON_CHIP = WORK != ONE_ITERATION, SELECTS = WORK == ITERATIONS_AND_LABELS;
    extern __shared__ uint4 shared[];
    Unit* const slots = reinterpret_cast<Unit*>(shared);
    stamp_time(p.stamp);

    const Tile tile(p);
    if constexpr (IS_ON_CHIP) {
        if (tile.clear<Message>(p, slots, 4 * S::UNITS * plane_units(p))) __syncthreads();
        U::fetch(p, tile, p.iterations - 1 + SELECTS, slots);
        __syncthreads();
    }

    const T team;
    for (int i = 0;; ++i) {
        const bool is_last = !IS_ON_CHIP || i == p.iterations - 1;
        const int colour = (p.first + i + 1) & 1;
        // Labels of one colour before the messages that they come from are overwritten, those of
        // the other after the last iteration.
        if (SELECTS && i >= p.iterations - 1) {
            U::select(p, tile, colour, slots);
            __syncthreads();
        }
        if (IS_ON_CHIP && i == p.iterations) break;
        const bool writes = is_last ? !SELECTS
            : p.finish == BOTH_COLOURS && i == p.iterations - 2;
        Unit* const target =
            !writes ? nullptr : static_cast<Unit*>(colour ? p.target[1] : p.target[0]);
        const Slots where(p, colour);
        const Nodes nodes(p, colour, IS_ON_CHIP ? p.iterations - 1 - i + SELECTS : 0);
        const int inside = Nodes(p, colour, 0).count;
        const int step = blockDim.x / 32 * T::NODES;
        for (int first = threadIdx.x / 32 * T::NODES; first < nodes.count; first += step) {
            const int item = first + team.node;
            const Node node(p, tile, __ldg(nodes.list + min(item, nodes.count - 1)),
                            item < nodes.count);
            if (T::IS_ALONE && !node.exists) continue;
            U::template send<!IS_ON_CHIP>(p, team, node, where, slots,
                                          IS_ON_CHIP && (!is_last || SELECTS),
                                          item < inside ? target : nullptr);
        }
        if (!IS_ON_CHIP) break;
        __syncthreads();
    }
    if (SELECTS) U::publish(p, tile);
}

// What the parents of one colour's nodes send, as the nodes' own messages: for a level whose only
// iteration leaves that colour as it started.
template <typename Message, int DISPARITIES>
__global__ void inherit_messages(const __grid_constant__ Pass p, int colour) {
    using S = Shape<Message, DISPARITIES>;
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = item / p.half, x = 2 * (item % p.half) + ((y + colour) & 1);
    if (y >= p.height || x >= p.width) return;
    using Unit = typename Message::Unit;
    Unit* const target = static_cast<Unit*>(colour ? p.target[1] : p.target[0]);
    const int parent_x = x >> 1, parent_y = y >> 1;
    const bool nothing = p.start == FROM_ZERO || is_border(x, y, p.width, p.height)
        || is_border(parent_x, parent_y, p.parent_width, p.parent_height);
    const Unit* const source = static_cast<const Unit*>(
        (parent_x + parent_y) & 1 ? p.parents[1] : p.parents[0]);
    for (int unit = 0; unit < 4 * S::UNITS; ++unit)
        target[size_t(4 * y * S::UNITS + unit) * p.half + (x >> 1)] = nothing
            ? *static_cast<const Unit*>(p.zero)
            : source[size_t(4 * parent_y * S::UNITS + unit) * p.parent_half + (parent_x >> 1)];
}
