// What the kernels of stage messages share: a pass over the tiles of a level, and what is sent.
//
// A node (x, y) has the checkerboard colour (x + y) % 2; iteration t updates the interior nodes
// of colour (t + 1) % 2. An edge has one end of each colour, and only the messages that the
// colour updated last sent over it are ever read: a tile keeps one vector per edge on chip, in
// the four slots of its nodes of colour 1, and every iteration overwrites what it has read.
#pragma once
#include "beliefs.cuh"
#include "refine.cuh"

enum Start { FROM_ZERO, FROM_PARENTS, FROM_MESSAGES };
enum Finish { LAST_COLOUR, BOTH_COLOURS, LABELS, OWN_LABELS };

// What a pass does, as far as its code depends on it: one iteration that reads device memory, one or
// more on chip; the same and labels; the same, and whatever Matches wants beside them. Own labels are
// those of the nodes that the iteration updates; the others are left to select_labels.
enum Work { ONE_ITERATION, ONE_ITERATION_AND_OWN_LABELS, ONE_ITERATION_AND_LABELS,
            ONE_ITERATION_AND_MORE, ITERATIONS, ITERATIONS_AND_LABELS, ITERATIONS_AND_MORE };

constexpr int LARGEST_MARGIN = 15;

// Messages in device memory are kept at the sender: [row][direction][unit][x / 2], one array
// for each colour.
struct Pass {
    const void* cost;
    uint32 cost_factor;             // of Nibbles; of multiples, as the pattern of a float
    const void* parents[2];         // messages of the next coarser level, by colour
    const void* source;             // messages of the colour that the first iteration reads
    void* target[2];                // messages by colour of the sender
    const void* zero;               // one unit of a message that says nothing
    int width, height, half;        // nodes; units from one unit of a vector to the next
    int parent_width, parent_height, parent_half;
    int first, iterations;
    int start, finish;
    int tile_width, tile_height;    // nodes whose results a block writes; both even
    int region_half, region_height; // columns of one colour, and rows, kept on chip
    int margin_columns, margin_rows;        // of that region around the tile; columns even
    // Nodes of one colour of every tile: those of the tile itself, then those around it by their
    // distance; ``counts``: how many are at most that far away.
    const uint32* nodes[2];
    int counts[2][LARGEST_MARGIN + 1];
    int slope, truncation;          // of integer messages
    float float_slope, float_truncation;
    uint64* stamp;                  // time at which the pass starts, ns; null = not wanted
    Matches matches;
    int publishes;                  // refinement is part of the pass
    Frame frame;
};

__device__ __forceinline__ bool is_border(int x, int y, int width, int height) {
    return x <= 0 || y <= 0 || x >= width - 1 || y >= height - 1;
}

// What the neighbour of (x, y) in a direction sends to it, in device memory. Nodes on the border
// send nothing, on any level, so a border node's children do not either.
template <typename Unit, int UNITS>
__device__ __forceinline__ Place<Unit> incoming(const Pass& p, int x, int y, int direction,
                                                bool is_valid) {
    const Place<Unit> nothing = {static_cast<const Unit*>(p.zero), 0};
    x += column_step(direction);
    y += row_step(direction);
    if (!is_valid || p.start == FROM_ZERO || is_border(x, y, p.width, p.height)) return nothing;
    const void* messages = p.source;
    int half = p.half;
    if (p.start == FROM_PARENTS) {
        x >>= 1;
        y >>= 1;
        if (is_border(x, y, p.parent_width, p.parent_height)) return nothing;
        messages = (x + y) & 1 ? p.parents[1] : p.parents[0];
        half = p.parent_half;
    }
    return {static_cast<const Unit*>(messages)
                + size_t(4 * y + (direction ^ 1)) * UNITS * half + (x >> 1), half};
}

// Units from the slots of one direction to the next. The last of them belongs to no node: threads
// that have none read it.
__device__ __forceinline__ int plane_units(const Pass& p) {
    return p.region_height * p.region_half + 1;
}

// The part of the image that one block works on.
struct Tile {
    int left, top;                  // first node whose result is written
    int region_left, region_top;    // first node of the region on chip

    __device__ __forceinline__ explicit Tile(const Pass& p)
        : left(blockIdx.x * p.tile_width), top(blockIdx.y * p.tile_height),
          region_left(left - p.margin_columns), region_top(top - p.margin_rows) {}

    // Puts messages that say nothing into every slot, where some will not be written; whether that
    // was so.
    template <typename Message>
    __device__ __forceinline__ bool clear(const Pass& p, typename Message::Unit* region,
                                          int units) const {
        const bool is_inner = region_left > 0 && region_top > 0
            && region_left + 2 * p.region_half < p.width
            && region_top + p.region_height < p.height;
        if (is_inner) return false;
        const auto nothing = *static_cast<const typename Message::Unit*>(p.zero);
        for (int i = threadIdx.x; i < units; i += blockDim.x) region[i] = nothing;
        return true;
    }
};

// Where the slots of the edges of one colour's nodes are, in units from a node's own first slot:
// in its own slots, or in its neighbours' where its colour is 0.
struct Slots {
    int offset[4];                  // by direction
    int odd;                        // to be added left and right where x is odd

    __device__ __forceinline__ Slots(const Pass& p, int colour) : odd(1 - colour) {
        const int plane = plane_units(p);
#pragma unroll
        for (int direction = 0; direction < 4; ++direction)
            offset[direction] = colour ? direction * plane
                : (direction ^ 1) * plane + row_step(direction) * p.region_half
                    - (direction == LEFT);
    }
    __device__ __forceinline__ int of(int x, int direction) const {
        // A selection of constants rather than an array that is indexed at run time.
        const int vertical = direction & 1 ? offset[DOWN] : offset[UP];
        const int horizontal = direction & 1 ? offset[RIGHT] : offset[LEFT];
        return direction & 2 ? horizontal + (odd & x) : vertical;
    }
};

// Copies a unit from device memory to the chip; done when ``copied`` returns.
template <typename Unit>
__device__ __forceinline__ void copy_unit(Unit* to, const Unit* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(uint32(__cvta_generic_to_shared(to))), "l"(from), "n"(sizeof(Unit))
                 : "memory");
#else
    *to = __ldg(from);
#endif
}
__device__ __forceinline__ void copied() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// How a warp is spread over nodes: each thread sends DIRECTIONS of the four messages of a node,
// or the part of them that one of Shape's lanes has.
template <typename Message, int DISPARITIES, int DIRECTIONS>
struct Team {
    using S = Shape<Message, DISPARITIES>;
    static constexpr int SENDERS = 4 / DIRECTIONS;
    static constexpr int NODES = 32 / (SENDERS * S::LANES);     // of a warp
    static constexpr int DISTANCE = NODES * SENDERS;    // from one lane of a vector to the next
    static constexpr bool IS_ALONE = SENDERS * S::LANES == 1;

    int node, sender, lane;

    __device__ __forceinline__ Team() {
        const int self = threadIdx.x % 32;
        node = self % NODES;
        sender = SENDERS == 1 ? 0 : self / NODES % SENDERS;
        lane = S::LANES == 1 ? 0 : self / DISTANCE;
    }
};

// The nodes of one colour in a tile grown by a margin, one after the other.
struct Nodes {
    const uint32* const list;
    const int count;

    __device__ __forceinline__ Nodes(const Pass& p, int colour, int margin)
        : list(colour ? p.nodes[1] : p.nodes[0]),
          count(colour ? p.counts[1][margin] : p.counts[0][margin]) {}
};

// A colour that the compiler knows nothing of: what follows from it is found again for each node, where
// no register is left to keep it.
template <typename Message>
__device__ __forceinline__ int anew(int colour) {
    if constexpr (Message::HAS_SIX_BITS || Message::SIDES == 2) asm volatile("" : "+r"(colour));
    return colour;
}

// A node of such a list: its place in the image, and its first slot in units from the region's.
struct Node {
    int x, y, slot;
    bool exists;                    // in the image, and not on its border

    __device__ __forceinline__ Node(const Pass& p, const Tile& tile, uint32 packed, bool is_there)
        : x(tile.left + int(packed & 255u) - LARGEST_MARGIN - 1),
          y(tile.top + int(packed >> 8 & 255u) - LARGEST_MARGIN - 1), slot(packed >> 16),
          exists(is_there && unsigned(x - 1) < unsigned(p.width - 2)
                 && unsigned(y - 1) < unsigned(p.height - 2)) {}
    // Whether the neighbour of an existing node is on the border.
    __device__ __forceinline__ bool ends(const Pass& p, int direction) const {
        return direction & 2 ? x == (direction == LEFT ? 1 : p.width - 2)
                             : y == (direction == UP ? 1 : p.height - 2);
    }
};

template <typename Message, int DISPARITIES, typename Kind, int DIRECTIONS>
struct Update {
    using V = Vector<Message, DISPARITIES>;
    using S = typename V::S;
    using T = Team<Message, DISPARITIES, DIRECTIONS>;
    using C = Cost<Kind, DISPARITIES>;
    using Word = typename Message::Word;
    using Unit = typename Message::Unit;
    using Least = LeastLabel<Message, S::PADDED>;

    static __device__ __forceinline__ Smoothness<Word> smoothness(const Pass& p) {
        return {splat<Message>(p.slope, p.float_slope),
                splat<Message>(p.truncation, p.float_truncation)};
    }

    // A thread's part of the data cost of a node, as it is kept: the senders share its chunks out.
    struct CostShare {
        static constexpr int CHUNKS = (S::LANE_CHUNKS + T::SENDERS - 1) / T::SENDERS;
        static constexpr bool HAS_UNITS = C::IS_SMALL;
        using Part = typename Conditional<S::SIDES == 2, typename C::Side,
                                          typename C::Unit>::Type;
        uint32 factor;              // as that of the cost
        Part units[HAS_UNITS ? CHUNKS : 1];
        Word words[HAS_UNITS ? 1 : CHUNKS][4];

        __device__ __forceinline__ void load(const C& cost, const T& team) {
            factor = cost.factor;
#pragma unroll
            for (int j = 0; j < CHUNKS; ++j) {
                const int mine = j * T::SENDERS + team.sender;
                if constexpr (HAS_UNITS) {
                    const int c = V::chunk(team.lane, min(mine, S::LANE_CHUNKS - 1));
                    const auto unit = cost.unit(S::ABSENT == 0 ? c : max(c, 0));
                    if constexpr (S::SIDES == 2) units[j] = C::one_side(unit, V::side(team.lane));
                    else units[j] = unit;
                } else {
#pragma unroll
                    for (int i = 0; i < 4; ++i) words[j][i] = Message::zero();
                    const int c = V::chunk(team.lane, mine);
                    if (mine < S::LANE_CHUNKS && (S::ABSENT == 0 || c >= 0)) {
                        if constexpr (S::SIDES == 2) cost.load(c, V::side(team.lane), words[j]);
                        else cost.load(c, words[j]);
                    }
                }
            }
        }
        // The words of chunk j where it is this thread's, else zeros.
        __device__ __forceinline__ void expand(int j, const T& team, Word (&part)[4]) const {
            const bool is_mine = j % T::SENDERS == team.sender;
            if constexpr (HAS_UNITS) {
                C::expand(units[j / T::SENDERS], factor, is_mine, part);
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    part[i] = is_mine ? words[j / T::SENDERS][i] : Message::zero();
            }
        }
    };

    // Word i of chunk j of the beliefs of a node: its data cost (a thread's share) plus all that
    // has arrived (h: a thread's directions).
    static __device__ __forceinline__ Word belief(const Word (&h)[DIRECTIONS][S::WORDS],
                                                  Word share, int r) {
#pragma unroll
        for (int k = 0; k < DIRECTIONS; ++k) share = Message::add(share, h[k][r]);
#pragma unroll
        for (int senders = 1; senders < T::SENDERS; senders *= 2)
            share = Message::add(share, Message::shuffle_xor(share, senders * T::NODES));
        return share;
    }

    // h = the messages that a node sends, from those that have arrived, and what their middles are.
    // LABELS: ``best`` = the least belief of a lane.
    template <bool LABELS>
    static __device__ __forceinline__ void turn_around(Word (&h)[DIRECTIONS][S::WORDS],
                                                       const CostShare& cost, const T& team,
                                                       Smoothness<Word> smooth, Least& best,
                                                       Word (&middles)[DIRECTIONS]) {
#pragma unroll
        for (int j = 0; j < S::LANE_CHUNKS; ++j) {
            const typename Least::Labels labels(V::chunk(team.lane, j));
            Word part[4];
            cost.expand(j, team, part);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const Word total = belief(h, part[i], 4 * j + i);
                if constexpr (LABELS) V::take(total, team.lane, 4 * j + i, labels, best);
#pragma unroll
                for (int k = 0; k < DIRECTIONS; ++k)
                    h[k][4 * j + i] = Message::subtract(total, h[k][4 * j + i]);
            }
        }
#pragma unroll
        for (int k = 0; k < DIRECTIONS; ++k)
            middles[k] = V::envelope(h[k], team.lane, T::DISTANCE, smooth);
    }

    // Writes message k of a thread to device memory.
    static __device__ __forceinline__ void write(const Pass& p, const T& team, int x, int y,
                                                 const Word (&h)[S::WORDS], Word middle, int k,
                                                 Word slope, Unit* target) {
        const int direction = team.sender * DIRECTIONS + k;
        V::store(h, middle, team.lane, slope,
                 target + size_t(4 * y + direction) * S::UNITS * p.half + (x >> 1), p.half);
    }

    // Puts into the slots of a tile what has arrived at the nodes of the first colour.
    static __device__ __forceinline__ void fetch(const Pass& p, const Tile& tile, int margin,
                                                 Unit* slots) {
        const int colour = (p.first + 1) & 1, stride = 4 * plane_units(p);
        const Slots where(p, colour);
        const Nodes nodes(p, colour, margin);
        // A warp has one direction at a time.
        const int warps = blockDim.x / 32, items = (nodes.count + 31) / 32 * 4;
        for (int item = threadIdx.x / 32; item < items; item += warps) {
            const int index = item / 4 * 32 + threadIdx.x % 32, direction = item % 4;
            if (index >= nodes.count) continue;
            const Node node(p, tile, __ldg(nodes.list + index), true);
            if (!node.exists) continue;
            const Place<Unit> from = incoming<Unit, S::UNITS>(p, node.x, node.y, direction, true);
            Unit* const to = slots + node.slot + where.of(node.x, direction);
#pragma unroll
            for (int unit = 0; unit < S::UNITS; ++unit)
                copy_unit(to + unit * stride, from.first + unit * from.stride);
        }
        copied();
    }

    // Sends a thread's messages of one node, to slots and to device memory (null = not there).
    // What has arrived is in the slots, or with FIRST in device memory. A slot, or a side of
    // it, is read and written by one thread alone. LABELS: writes the node's label as well, if it is ``inside`` the tile.
    // Threads without a node go along and write nothing.
    template <bool FIRST, bool LABELS>
    static __device__ __forceinline__ void send(const Pass& p, const T& team, const Node& node,
                                                const Slots& where, Unit* slots, bool to_slots,
                                                Unit* target, bool inside) {
        const int stride = 4 * plane_units(p);
        const Smoothness<Word> smooth = smoothness(p);
        // Somewhere, for threads that go along.
        const int x = node.exists ? node.x : 0, y = node.exists ? node.y : 0;
        CostShare cost;
        cost.load(C(p.cost, p.half, p.cost_factor, x, y), team);
        Word h[DIRECTIONS][S::WORDS];
        Unit* const own = slots + node.slot;
#pragma unroll
        for (int k = 0; k < DIRECTIONS; ++k) {
            const int direction = team.sender * DIRECTIONS + k;
            if constexpr (FIRST)
                V::template read<true>(
                    incoming<Unit, S::UNITS>(p, x, y, direction, node.exists), team.lane, smooth,
                    h[k]);
            else
                V::template read<false>({node.exists ? own + where.of(x, direction)
                                                     : slots + plane_units(p) - 1, stride},
                                        team.lane, smooth, h[k]);
        }
        Least best;
        Word middles[DIRECTIONS];
        turn_around<LABELS>(h, cost, team, smooth, best, middles);
        if constexpr (LABELS) {
#pragma unroll
            for (int i = 1; i < S::LANES; i *= 2) best.take_other(i * T::DISTANCE);
            if (inside && node.exists && team.sender == 0 && team.lane == 0
                && p.matches.keeps(x, y))
                p.matches.label[y * p.matches.image_width + x] = short(best.label());
        }
        if (!node.exists) return;
#pragma unroll
        for (int k = 0; k < DIRECTIONS; ++k) {
            const int direction = team.sender * DIRECTIONS + k;
            // Nothing ever comes from the border: those slots stay zero.
            if (to_slots && !node.ends(p, direction))
                V::store(h[k], middles[k], team.lane, smooth.slope, own + where.of(x, direction),
                         stride);
            if (target != nullptr)
                write(p, team, x, y, h[k], middles[k], k, smooth.slope, target);
        }
    }

    // The nodes of one colour send, those of the tile and the ones around it up to ``margin`` away;
    // ``target``, LABELS: what those of the tile write to device memory.
    template <bool FIRST, bool LABELS>
    static __device__ __forceinline__ void send_all(const Pass& p, const Tile& tile, const T& team,
                                                    int colour, int margin, Unit* slots,
                                                    bool to_slots, Unit* target) {
        const Slots where(p, colour);
        const int inside = Nodes(p, colour, 0).count, count = Nodes(p, colour, margin).count;
        const int step = blockDim.x / (32 / T::NODES);
        for (int first = threadIdx.x / 32 * T::NODES; first < count; first += step) {
            const Nodes nodes(p, anew<Message>(colour), margin);
            const int item = first + team.node;
            const Node node(p, tile, __ldg(nodes.list + min(item, nodes.count - 1)),
                            item < nodes.count);
            if (T::IS_ALONE && !node.exists) continue;
            send<FIRST, LABELS>(p, team, node, where, slots, to_slots,
                                item < inside ? target : nullptr, item < inside);
        }
    }

    // What follows when a tile has its labels.
    static __device__ __forceinline__ void publish(const Pass& p, const Tile& tile) {
        if (!p.publishes) return;
        __syncthreads();
        publish_tile(p.frame, tile.left, tile.top, p.tile_width, p.tile_height);
        stamp_end(p.frame.stamp);
    }

    // The labels of the nodes of one colour of a tile from what has arrived: in their slots, or with
    // FIRST in device memory. MORE: and what else is wanted.
    template <bool FIRST, bool MORE>
    static __device__ __forceinline__ void select(const Pass& p, const Tile& tile, int colour,
                                                  Unit* slots) {
        using Alone = Team<Message, DISPARITIES, 4>;
        const Alone team;
        const Slots where(p, colour);
        const int count = Nodes(p, colour, 0).count, step = blockDim.x / (32 / Alone::NODES);
        for (int first = threadIdx.x / 32 * Alone::NODES; first < count; first += step) {
            const Nodes nodes(p, anew<Message>(colour), 0);
            const int item = min(first + team.node, nodes.count - 1);
            const Node at(p, tile, __ldg(nodes.list + item), first + team.node < nodes.count);
            if (S::LANES == 1 && !at.exists) continue;
            const int x = at.exists ? at.x : 0, y = at.exists ? at.y : 0;
            Arriving<Message, DISPARITIES, Kind, FIRST> node = {
                C(p.cost, p.half, p.cost_factor, x, y), team.lane};
#pragma unroll
            for (int direction = 0; direction < 4; ++direction) {
                if constexpr (FIRST)
                    node.from[direction] =
                        incoming<Unit, S::UNITS>(p, x, y, direction, at.exists);
                else
                    node.from[direction] = {
                        slots + (at.exists ? at.slot + where.of(x, direction)
                                           : plane_units(p) - 1),
                        4 * plane_units(p)};
            }
            select_label<MORE, DIRECTIONS>(node, smoothness(p), Alone::DISTANCE, at.exists, x, y,
                                           p.matches);
        }
    }
};
