// Stage messages: belief propagation on one level of the pyramid, in passes over tiles.
//
// A node (x, y) has the checkerboard colour (x + y) % 2; iteration t updates the interior nodes
// of colour (t + 1) % 2. An edge has one end of each colour, and only the messages that the
// colour updated last sent over it are ever read: a tile keeps one vector per edge on chip, in
// the four slots of its nodes of colour 1, and every iteration overwrites what it has read.
#include "beliefs.cuh"

enum Start { FROM_ZERO, FROM_PARENTS, FROM_MESSAGES };
enum Finish { LAST_COLOUR, BOTH_COLOURS, LABELS };

// Messages in device memory are kept at the sender: [row][direction][unit][x / 2], one array
// for each colour.
struct Pass {
    const void* cost;
    const void* parents[2];         // messages of the next coarser level, by colour
    const void* source;             // messages of the colour that the first iteration reads
    void* target[2];                // messages by colour of the sender
    const void* zero;               // one unit of a message that says nothing
    int width, height, half;        // nodes; units from one unit of a vector to the next
    int parent_width, parent_height, parent_half;
    int first, iterations;
    int start, finish;
    int tile_width, tile_height;    // nodes whose results a block writes; the width is even
    int region_half, region_height; // columns of one colour, and rows, kept on chip
    int margin_columns, margin_rows;        // of that region around the tile; columns even
    int slope, truncation;          // of integer messages
    float float_slope, float_truncation;
    uint64* stamp;                  // time at which the pass starts, ns; null = not wanted
    Matches matches;
};

template <typename Message>
__device__ __forceinline__ typename Message::Word splat(int integer, float real) {
    return Message::splat(Message::WORD_REGISTERS == 1 ? integer : real);
}

__device__ __forceinline__ bool is_border(int x, int y, int width, int height) {
    return x <= 0 || y <= 0 || x >= width - 1 || y >= height - 1;
}

// What the neighbour of (x, y) in a direction sends to it, in device memory. Nodes on the border
// send nothing, on any level, so a border node's children do not either.
template <typename Unit, int UNITS>
__device__ __forceinline__ Place<Unit> incoming(const Pass& p, int x, int y, int direction,
                                          bool is_valid) {
    x += column_step(direction);
    y += row_step(direction);
    if (!is_valid || p.start == FROM_ZERO || is_border(x, y, p.width, p.height)) return {static_cast<const Unit*>(p.zero), 0};
    const void* messages = p.source;
    int half = p.half;
    if (p.start == FROM_PARENTS) {
        x >>= 1;
        y >>= 1;
        if (is_border(x, y, p.parent_width, p.parent_height)) return {static_cast<const Unit*>(p.zero), 0};
        messages = (x + y) & 1 ? p.parents[1] : p.parents[0];
        half = p.parent_half;
    }
    return {static_cast<const Unit*>(messages)
                + size_t(4 * y + (direction ^ 1)) * UNITS * half + (x >> 1), half};
}

// The part of the image that one block works on.
struct Tile {
    int left, top;                  // first node whose result is written
    int region_left, region_top;    // first node of the region on chip

    // First slot of the node (x, y).
    template <typename Unit>
    __device__ __forceinline__ Unit* slots(const Pass& p, Unit* region, int x, int y) const {
        return region + (y - region_top) * p.region_half + ((x - region_left) >> 1);
    }
};

// Units from the slots of one direction to the next. The last of them belongs to no node: threads
// that have none read it.
__device__ __forceinline__ int plane_units(const Pass& p) {
    return p.region_height * p.region_half + 1;
}

// Units from the first slot of the node (x, y) to the slot of its edge in a direction, in the
// region on chip: its own slot, or its neighbour's where its own colour is 0.
__device__ __forceinline__ int slot(const Pass& p, int x, int colour, int direction) {
    const int plane = plane_units(p);
    if (colour) return direction * plane;
    const int columns = direction == RIGHT ? x & 1 : direction == LEFT ? (x & 1) - 1 : 0;
    return (direction ^ 1) * plane + row_step(direction) * p.region_half + columns;
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

template <typename Message, int DISPARITIES, typename Kind, int DIRECTIONS>
struct Update {
    using V = Vector<Message, DISPARITIES>;
    using S = typename V::S;
    using T = Team<Message, DISPARITIES, DIRECTIONS>;
    using Word = typename Message::Word;
    using Unit = typename Message::Unit;

    static __device__ __forceinline__ Smoothness<Word> smoothness(const Pass& p) {
        return {splat<Message>(p.slope, p.float_slope),
                splat<Message>(p.truncation, p.float_truncation)};
    }

    // Sends a thread's messages of one node, to slots and to device memory (null = not there).
    // ``own`` is the node's first slot. A slot is read and written by one thread alone. Threads
    // without a node (not ``is_valid``) go along and write nothing.
    template <bool FIRST>
    static __device__ __forceinline__ void send(const Pass& p, const T& team, int x, int y,
                                                int colour, bool is_valid, Unit* slots, Unit* own,
                                                bool to_slots, Unit* target) {
        const int plane = plane_units(p), stride = 4 * plane;
        const Cost<Kind, DISPARITIES> cost(p.cost, p.half, x, y);
        const Smoothness<Word> smooth = smoothness(p);
        Word h[DIRECTIONS][S::WORDS];
#pragma unroll
        for (int i = 0; i < DIRECTIONS; ++i) {
            const int direction = team.sender * DIRECTIONS + i;
            if constexpr (FIRST)
                V::template read<true>(incoming<Unit, S::UNITS>(p, x, y, direction, is_valid),
                                       team.lane, smooth, h[i]);
            else
                V::template read<false>(
                    {is_valid ? own + slot(p, x, colour, direction) : slots + plane - 1, stride},
                    team.lane, smooth, h[i]);
        }
        // h = data cost + the messages from the three others. The chunks of the data cost are
        // shared out among the senders.
        const uint32 even = 0x4140, odd = 0x4342, none = 0x4444;
        uint2 bytes = make_uint2(0, 0);
#pragma unroll
        for (int j = 0; j < S::LANE_CHUNKS; ++j) {
            const int c = V::chunk(team.lane, j);
            const bool is_mine = j % T::SENDERS == team.sender;
            Word part[4] = {Message::zero(), Message::zero(), Message::zero(), Message::zero()};
            if constexpr (Cost<Kind, DISPARITIES>::IS_BYTES && S::LANES == 1) {
                if (j % T::SENDERS == 0)
                    bytes = cost.bytes(min(j + team.sender, S::CHUNKS - 1));
                cost.expand(bytes, is_mine ? even : none, is_mine ? odd : none, part);
            } else {
                if ((S::ABSENT == 0 || c >= 0) && is_mine) cost.load(c, part);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                Word total = part[i];
#pragma unroll
                for (int k = 0; k < DIRECTIONS; ++k) total = Message::add(total, h[k][4 * j + i]);
#pragma unroll
                for (int senders = 1; senders < T::SENDERS; senders *= 2)
                    total = Message::add(total,
                                         Message::shuffle_xor(total, senders * T::NODES));
#pragma unroll
                for (int k = 0; k < DIRECTIONS; ++k)
                    h[k][4 * j + i] = Message::subtract(total, h[k][4 * j + i]);
            }
        }
#pragma unroll
        for (int i = 0; i < DIRECTIONS; ++i) V::envelope(h[i], team.lane, T::DISTANCE, smooth);
        if (!is_valid) return;
#pragma unroll
        for (int i = 0; i < DIRECTIONS; ++i) {
            const int direction = team.sender * DIRECTIONS + i;
            // Nothing ever comes from the border: those slots stay zero.
            if (to_slots && !is_border(x + column_step(direction), y + row_step(direction),
                                       p.width, p.height))
                V::store(h[i], team.lane, smooth.slope, own + slot(p, x, colour, direction),
                         stride);
            if (target != nullptr)
                V::store(h[i], team.lane, smooth.slope,
                         target + size_t(4 * y + direction) * S::UNITS * p.half + (x >> 1),
                         p.half);
        }
    }

    // The label of one node from the messages that have arrived.
    template <bool FIRST>
    static __device__ __forceinline__ void select(const Pass& p, int x, int y, int colour,
                                                  const Unit* own) {
        Arriving<Message, DISPARITIES, Kind, FIRST> node = {{p.cost, p.half, x, y}};
#pragma unroll
        for (int direction = 0; direction < 4; ++direction) {
            if constexpr (FIRST)
                node.from[direction] = incoming<Unit, S::UNITS>(p, x, y, direction, true);
            else
                node.from[direction] = {own + slot(p, x, colour, direction), 4 * plane_units(p)};
        }
        const Smoothness<Word> smooth = smoothness(p);
        node.slope = smooth.slope;
        node.bound = smooth.bound;
        Belief<Message, DISPARITIES>::select(node, x, y, p.width, p.matches);
    }
};

// Nodes of one colour in the tile grown by a margin, one after the other.
struct Walk {
    int left, right, top, columns, count;
    float share;                    // 1 / columns

    __device__ __forceinline__ Walk(const Pass& p, const Tile& tile, int margin) {
        left = max(1, tile.left - margin);
        right = min(p.width - 1, tile.left + p.tile_width + margin);
        top = max(1, tile.top - margin);
        const int bottom = min(p.height - 1, tile.top + p.tile_height + margin);
        columns = ((right - 1) >> 1) - (left >> 1) + 1;
        count = right > left && bottom > top ? (bottom - top) * columns : 0;
        share = __fdividef(1.0f, columns);
    }
    __device__ __forceinline__ bool at(int item, int colour, int& x, int& y) const {
        const int row = int((item + 0.5f) * share);     // exact for items below 2^20
        y = top + row;
        x = 2 * ((left >> 1) + item - row * columns) + ((y + colour) & 1);
        return item < count && x >= left && x < right;
    }
};

// Kind is the type of the level's data cost.
template <typename Message, int DISPARITIES, typename Kind, int DIRECTIONS, int THREADS,
          int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
pass_messages(const __grid_constant__ Pass p) {
    using S = Shape<Message, DISPARITIES>;
    using U = Update<Message, DISPARITIES, Kind, DIRECTIONS>;
    using T = typename U::T;
    using Unit = typename Message::Unit;
    extern __shared__ uint4 shared[];
    Unit* const slots = reinterpret_cast<Unit*>(shared);
    stamp_time(p.stamp);

    Tile tile;
    tile.left = blockIdx.x * p.tile_width;
    tile.top = blockIdx.y * p.tile_height;
    tile.region_left = tile.left - p.margin_columns;
    tile.region_top = tile.top - p.margin_rows;
    const bool selects = p.finish == LABELS;

    if (p.iterations > 1 || selects) {
        const bool is_inner = tile.region_left > 0 && tile.region_top > 0
            && tile.region_left + 2 * p.region_half < p.width
            && tile.region_top + p.region_height < p.height;
        if (!is_inner) {
            const int units = 4 * S::UNITS * plane_units(p);
            for (int i = threadIdx.x; i < units; i += blockDim.x)
                slots[i] = *static_cast<const Unit*>(p.zero);
            __syncthreads();
        }
    }

    const T team;
    for (int i = 0; i < p.iterations; ++i) {
        const bool is_last = i == p.iterations - 1;
        const int colour = (p.first + i + 1) & 1;
        const bool to_slots = !is_last || selects;
        const bool writes = is_last ? !selects
            : p.finish == BOTH_COLOURS && i == p.iterations - 2;
        Unit* const target =
            !writes ? nullptr : static_cast<Unit*>(colour ? p.target[1] : p.target[0]);
        // The messages that this colour's labels come from are about to be overwritten.
        if (selects && is_last) {
            const Walk walk(p, tile, 0);
            for (int item = threadIdx.x; item < walk.count; item += blockDim.x) {
                int x, y;
                if (!walk.at(item, colour, x, y)) continue;
                if (i == 0)
                    U::template select<true>(p, x, y, colour, nullptr);
                else
                    U::template select<false>(p, x, y, colour, tile.slots(p, slots, x, y));
            }
            __syncthreads();
        }
        const Walk walk(p, tile, p.iterations - 1 - i + selects);
        const int step = blockDim.x / 32 * T::NODES;
        for (int first = threadIdx.x / 32 * T::NODES; first < walk.count; first += step) {
            int x, y;
            const bool is_valid = walk.at(first + team.node, colour, x, y);
            if (T::IS_ALONE && !is_valid) continue;
            if (!is_valid) {
                x = walk.left;
                y = walk.top;
            }
            const bool is_inside = x >= tile.left && x < tile.left + p.tile_width
                && y >= tile.top && y < tile.top + p.tile_height;
            Unit* const own = tile.slots(p, slots, x, y);
            Unit* const to = is_inside ? target : nullptr;
            if (i == 0)
                U::template send<true>(p, team, x, y, colour, is_valid, slots, own, to_slots, to);
            else
                U::template send<false>(p, team, x, y, colour, is_valid, slots, own, to_slots,
                                        to);
        }
        __syncthreads();
    }
    if (!selects) return;
    const int colour = (p.first + p.iterations + 1) & 1;
    const Walk walk(p, tile, 0);
    for (int item = threadIdx.x; item < walk.count; item += blockDim.x) {
        int x, y;
        if (walk.at(item, colour, x, y))
            U::template select<false>(p, x, y, colour, tile.slots(p, slots, x, y));
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
