// Stage messages: n iterations of belief propagation on one level of the pyramid, over tiles with
// a halo. Threads take the next node of a list; messages_small_tiles.cu has the kernel whose
// threads keep their nodes.
#include "hierarchical/update.cuh"

// Kind is the format of the level's data cost. SINGLE: one iteration, which reads device memory;
// else messages stay in shared memory from one iteration to the next. SELECTED: the labels.
template <typename Message, int DISPARITIES, typename Kind, int DIRECTIONS, int THREADS,
          int BLOCKS, bool SINGLE, Labels SELECTED>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    pass_messages(const __grid_constant__ Launch p) {
    using S = Shape<Message, DISPARITIES>;
    using U = Update<Message, DISPARITIES, Kind, DIRECTIONS>;
    using T = typename U::T;
    using Unit = typename Message::Unit;
    constexpr bool SELECTS = are_all(SELECTED), HAS_MORE = SELECTED == Labels::ALL_AND_MORE;
    constexpr bool CHOOSES_OWN = SELECTED == Labels::OWN;
    static_assert(SINGLE || !CHOOSES_OWN, "own labels are those of a single iteration");
    extern __shared__ uint4 shared[];
    Unit* const slots = reinterpret_cast<Unit*>(shared);
    stamp_time(p.stamp);

    const HaloTile tile(p);
    // A single iteration without the other colour's labels reads and writes device memory alone.
    if constexpr (!SINGLE || SELECTS) {
        if (tile.clear<Message>(p, slots, 4 * S::UNITS * plane_units(p))) __syncthreads();
    }
    if constexpr (!SINGLE) {
        U::load_slots(p, tile, p.iterations - 1 + SELECTS, slots);
        __syncthreads();
    }

    // Where labels are all that is wanted, the last iteration selects those of the colour it
    // updates.
    constexpr bool CHOOSES = SELECTED == Labels::ALL;
    const T team;
    for (int i = 0;; ++i) {
        const bool is_last = SINGLE || i == p.iterations - 1;
        const int colour = (p.first + i + 1) & 1;
        Unit* const target = static_cast<Unit*>(colour ? p.target[1] : p.target[0]);
        if (SELECTS && is_last) {
            // The rest of Matches comes from messages that the update overwrites.
            if constexpr (!CHOOSES) {
                U::template select_colour<SINGLE, HAS_MORE>(p, tile, colour, slots);
                __syncthreads();
            }
            U::template update_colour<SINGLE, CHOOSES>(p, tile, team, colour, 1, slots, true,
                                                       nullptr);
            break;
        }
        U::template update_colour<SINGLE, CHOOSES_OWN>(
            p, tile, team, colour, SINGLE ? 0 : p.iterations - 1 - i + SELECTS, slots, !is_last,
            is_last || (p.finish == BOTH_COLOURS && i == p.iterations - 2) ? target : nullptr);
        if (is_last) break;
        __syncthreads();
    }
    if constexpr (SELECTS) {
        __syncthreads();
        U::template select_colour<false, HAS_MORE>(p, tile, p.first + p.iterations + 1 & 1, slots);
        U::publish(p, tile);
    }
}

// Messages of the parents of one colour's nodes as the nodes' own: for a level whose only
// iteration leaves that colour as it started.
template <typename Message, int DISPARITIES>
__global__ void inherit_messages(const __grid_constant__ Launch p, int colour) {
    using S = Shape<Message, DISPARITIES>;
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = item / p.columns, x = 2 * (item % p.columns) + ((y + colour) & 1);
    if (y >= p.height || x >= p.width) return;
    using Unit = typename Message::Unit;
    Unit* const target = static_cast<Unit*>(colour ? p.target[1] : p.target[0]);
    const int parent_x = x >> 1, parent_y = y >> 1;
    const bool is_zero = p.start == FROM_ZERO || is_border(x, y, p.width, p.height)
        || is_border(parent_x, parent_y, p.parent_width, p.parent_height);
    const Unit* const source = static_cast<const Unit*>((parent_x + parent_y) & 1 ? p.parents[1]
                                                                                  : p.parents[0]);
    for (int unit = 0; unit < 4 * S::UNITS; ++unit)
        target[size_t(4 * y * S::UNITS + unit) * p.columns + (x >> 1)] = is_zero
            ? *static_cast<const Unit*>(p.zero)
            : source[size_t(4 * parent_y * S::UNITS + unit) * p.parent_columns + (parent_x >> 1)];
}
