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
    constexpr bool HAS_MORE = WORK == ONE_ITERATION_AND_MORE || WORK == ITERATIONS_AND_MORE;
    constexpr bool SELECTS =
        WORK == ONE_ITERATION_AND_LABELS || WORK == ITERATIONS_AND_LABELS || HAS_MORE;
    // The only iteration reads what has arrived where it lies.
    constexpr bool HAS_SLOTS = WORK != ONE_ITERATION && WORK != ONE_ITERATION_AND_OWN_LABELS;
    constexpr bool IS_ONE = !HAS_SLOTS || WORK == ONE_ITERATION_AND_LABELS
        || WORK == ONE_ITERATION_AND_MORE;
    extern __shared__ uint4 shared[];
    Unit* const slots = reinterpret_cast<Unit*>(shared);
    stamp_time(p.stamp);

    const Tile tile(p);
    if constexpr (HAS_SLOTS) {
        if (tile.clear<Message>(p, slots, 4 * S::UNITS * plane_units(p))) __syncthreads();
    }
    if constexpr (!IS_ONE) {
        U::fetch(p, tile, p.iterations - 1 + SELECTS, slots);
        __syncthreads();
    }

    // Where nothing but labels is wanted, those of the colour that the last iteration updates come out
    // of it.
    constexpr bool CHOOSES = SELECTS && !HAS_MORE;
    const T team;
    for (int i = 0;; ++i) {
        const bool is_last = IS_ONE || i == p.iterations - 1;
        const int colour = (p.first + i + 1) & 1;
        Unit* const target = static_cast<Unit*>(colour ? p.target[1] : p.target[0]);
        if (SELECTS && is_last) {
            // More is chosen before what it comes from is overwritten.
            if constexpr (!CHOOSES) {
                U::template select<IS_ONE, HAS_MORE>(p, tile, colour, slots);
                __syncthreads();
            }
            U::template send_all<IS_ONE, CHOOSES>(p, tile, team, colour, 1, slots, true, nullptr);
            break;
        }
        U::template send_all<IS_ONE, WORK == ONE_ITERATION_AND_OWN_LABELS>(
            p, tile, team, colour, IS_ONE ? 0 : p.iterations - 1 - i + SELECTS, slots,
            !is_last, is_last || (p.finish == BOTH_COLOURS && i == p.iterations - 2)
                ? target : nullptr);
        if (is_last) break;
        __syncthreads();
    }
    if constexpr (SELECTS) {
        __syncthreads();
        U::template select<false, HAS_MORE>(p, tile, p.first + p.iterations + 1 & 1, slots);
        U::publish(p, tile);
    }
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
