// Stage messages for small tiles: threads keep their nodes for all iterations. A team of threads
// has two neighbours of one row, one of each colour. Slots, data costs and lifetimes are found
// once.
#include "hierarchical/update.cuh"

template <typename Message, int DISPARITIES, typename Kind, int DIRECTIONS>
struct SmallTileNode {
    using U = Update<Message, DISPARITIES, Kind, DIRECTIONS>;
    using V = typename U::V;
    using S = typename V::S;
    using T = typename U::T;
    using Word = typename Message::Word;
    using Unit = typename Message::Unit;

    int x, y;
    int last;                  // last iteration that updates the node; below 0 = none
    bool is_inside;            // of the tile itself
    Unit* slots[DIRECTIONS];   // of its edges
    bool is_open[DIRECTIONS];  // the neighbour is off the border
    typename U::CostShare cost;
    typename U::Crossings crossings;

    // ``first``: the iteration that updates this colour first. Nodes that no iteration updates get
    // no slots: some of these would lie beyond the halo.
    DEVICE SmallTileNode(const Launch& p, const HaloTile& tile, const T& team, Unit* all_slots,
                         int row, int column, int colour, int first, bool selects)
        : y(tile.halo_top + row) {
        x = tile.halo_left + 2 * column + ((y + colour) & 1);
        const int outside = max(max(tile.left - x, x - (tile.left + p.tile_width - 1)),
                                max(tile.top - y, y - (tile.top + p.tile_height - 1)));
        is_inside = outside <= 0;
        const bool exists = row < p.halo_tile_height && !is_border(x, y, p.width, p.height);
        last = exists ? p.iterations - 1 + selects - max(outside, 0) : -1;
        if (last >= p.iterations) last = p.iterations - 1;
        if (last < first) {
            last = -1;
            x = y = 0;  // any place will do for threads without a node
            is_inside = false;
        }
        const Slots where(p, colour);
#pragma unroll
        for (int k = 0; k < DIRECTIONS; ++k) {
            const int direction = team.sender * DIRECTIONS + k;
            slots[k] = all_slots
                + (last < 0 ? plane_units(p) - 1
                            : row * p.halo_tile_columns + column + where.of(x, direction));
            is_open[k] = last >= 0
                && !is_border(x + column_step(direction), y + row_step(direction), p.width,
                              p.height);
        }
        cost.load(typename U::C(p.cost, p.columns, p.cost_factor, x, y), team);
        crossings = typename U::Crossings(p, team, x, y);
    }

    // h = the messages that have arrived before the first iteration, from device memory.
    DEVICE void read(const Launch& p, const T& team, Smoothness<Word> smooth,
                     Word (&h)[DIRECTIONS][S::WORDS]) const {
#pragma unroll
        for (int k = 0; k < DIRECTIONS; ++k)
            V::template read<true>(
                incoming<Unit, S::UNITS>(p, x, y, team.sender * DIRECTIONS + k, last >= 0),
                team.lane, smooth, h[k]);
    }

    // h = the messages that have arrived, from the slots.
    DEVICE void read(const Launch& p, const T& team, int stride, Smoothness<Word> smooth,
                     Word (&h)[DIRECTIONS][S::WORDS]) const {
#pragma unroll
        for (int k = 0; k < DIRECTIONS; ++k)
            V::template read<false>({slots[k], stride}, team.lane, smooth, h[k]);
    }

    // Computes the messages of iteration i from ``h`` and writes them.
    DEVICE void update_node(const Launch& p, const T& team, int stride, int i,
                            Smoothness<Word> smooth, bool to_slots, Unit* target,
                            Word (&h)[DIRECTIONS][S::WORDS]) const {
        typename U::Least none;
        Word middles[DIRECTIONS];
        U::template compute_messages<false>(h, cost, team, smooth, crossings, none, middles);
        if (i > last) return;
#pragma unroll
        for (int k = 0; k < DIRECTIONS; ++k) {
            if (to_slots && is_open[k])
                V::store(h[k], middles[k], team.lane, slots[k], stride);
            if (target != nullptr && is_inside)
                U::write(p, team, x, y, h[k], middles[k], k, target);
        }
    }
};

// A block has a team for each column of one colour in each row of its tile with halo.
template <typename Message, int DISPARITIES, typename Kind, int DIRECTIONS, int THREADS,
          Labels SELECTED>
__global__ void __launch_bounds__(THREADS, 1) pass_resident(const __grid_constant__ Launch p) {
    using R = SmallTileNode<Message, DISPARITIES, Kind, DIRECTIONS>;
    using U = typename R::U;
    using T = typename R::T;
    using Unit = typename Message::Unit;
    using Word = typename Message::Word;
    constexpr bool SELECTS = are_all(SELECTED), HAS_MORE = SELECTED == Labels::ALL_AND_MORE;
    static_assert(SELECTED != Labels::OWN, "own labels are those of a single iteration");
    extern __shared__ uint4 shared[];
    Unit* const all_slots = reinterpret_cast<Unit*>(shared);
    stamp_time(p.stamp);

    const HaloTile tile(p);
    const T team;
    const int pair = threadIdx.x / 32 * T::NODES + team.node;
    const int row = pair / p.halo_tile_columns, column = pair - row * p.halo_tile_columns;
    const int first_colour = (p.first + 1) & 1, stride = 4 * plane_units(p);
    const R even(p, tile, team, all_slots, row, column, first_colour, 0, SELECTS);
    const R odd(p, tile, team, all_slots, row, column, 1 - first_colour, 1, SELECTS);
    const Smoothness<Word> smooth = U::smoothness(p);

    Word h[DIRECTIONS][R::S::WORDS];
    even.read(p, team, smooth, h);
    tile.clear<Message>(p, all_slots, 4 * R::S::UNITS * plane_units(p));
    __syncthreads();

    const auto iterate = [&](const R& node, int i, int colour) {
        if (!__any_sync(~0u, i <= node.last)) return;
        if (i > 0) node.read(p, team, stride, smooth, h);
        const bool is_last = i == p.iterations - 1;
        const bool writes = is_last ? !SELECTS : p.finish == BOTH_COLOURS && i == p.iterations - 2;
        Unit* const target = !writes ? nullptr
                                     : static_cast<Unit*>(colour ? p.target[1] : p.target[0]);
        node.update_node(p, team, stride, i, smooth, !is_last || SELECTS, target, h);
    };
    for (int i = 0;; ++i) {
        const int colour = (first_colour + i) & 1;
        if (SELECTS && i >= p.iterations - 1) {
            U::template select_colour<false, HAS_MORE>(p, tile, colour, all_slots);
            __syncthreads();
        }
        if (i == p.iterations) break;
        if (i % 2 == 0) iterate(even, i, colour);
        else iterate(odd, i, colour);
        __syncthreads();
    }
    if (SELECTS) U::publish(p, tile);
}
