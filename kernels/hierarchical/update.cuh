// One BP iteration on a tile: belief of a node, its four messages, and where they go.
#pragma once
#include "hierarchical/beliefs.cuh"
#include "hierarchical/envelope.cuh"
#include "hierarchical/halo_tile.cuh"

// Distribution of a warp over nodes: each thread computes DIRECTIONS of the four messages of a
// node, or the part of them that belongs to one lane of a vector (see Shape).
template <typename Message, int DISPARITIES, int DIRECTIONS>
struct NodeTeam {
    using S = Shape<Message, DISPARITIES>;
    static constexpr int SENDERS = 4 / DIRECTIONS;
    static constexpr int NODES = 32 / (SENDERS * S::LANES);  // of a warp
    static constexpr int DISTANCE = NODES * SENDERS;  // from one lane of a vector to the next
    static constexpr bool IS_ALONE = SENDERS * S::LANES == 1;

    int node, sender, lane;

    DEVICE NodeTeam() {
        const int self = threadIdx.x % 32;
        node = self % NODES;
        sender = SENDERS == 1 ? 0 : self / NODES % SENDERS;
        lane = S::LANES == 1 ? 0 : self / DISTANCE;
    }
};

// Hides ``colour`` from the optimiser: recomputing the addresses for each node costs less than the
// registers that hoisting them out of the loop would take.
template <typename Message>
DEVICE int hide_from_optimiser(int colour) {
    if constexpr (Message::HAS_SIX_BITS || Message::SIDES == 2) asm volatile("" : "+r"(colour));
    return colour;
}

template <typename Message, int DISPARITIES, typename Kind, int DIRECTIONS>
struct Update {
    using V = Vector<Message, DISPARITIES>;
    using S = typename V::S;
    using T = NodeTeam<Message, DISPARITIES, DIRECTIONS>;
    using C = Cost<Kind, DISPARITIES>;
    using Word = typename Message::Word;
    using Unit = typename Message::Unit;
    using Least = LeastLabel<Message, S::PADDED>;

    static DEVICE Smoothness<Word> smoothness(const Launch& p) {
        Smoothness<Word> smooth = {splat<Message>(p.slope, p.float_slope),
                                   splat<Message>(p.truncation, p.float_truncation)};
        if constexpr (HAS_FIRST_STEP<Message>) {
            smooth.first_step = splat<Message>(p.first_step, 0.0f);
            smooth.edge_bound = splat<Message>(p.edge_truncation, 0.0f);
        }
        return smooth;
    }

    // Which of a thread's messages of one node cross an edge of the image.
    struct Crossings {
        uint32 bits;

        DEVICE Crossings() : bits(0) {}
        DEVICE Crossings(const Launch& p, const T& team, int x, int y) : bits(0) {
            if constexpr (HAS_FIRST_STEP<Message>)
                if (p.edges != nullptr)
                    bits = uint32(__ldg(p.edges + y * p.width + x)) >> team.sender * DIRECTIONS;
        }
        // The smoothness cost of message k.
        DEVICE Smoothness<Word> of(int k, Smoothness<Word> smooth) const {
            if constexpr (HAS_FIRST_STEP<Message>)
                if (bits >> k & 1) smooth.bound = smooth.edge_bound;
            return smooth;
        }
    };

    // A thread's share of the data cost of a node, as it is kept: the senders of the node take
    // turns with its chunks.
    struct CostShare {
        static constexpr int CHUNKS = (S::LANE_CHUNKS + T::SENDERS - 1) / T::SENDERS;
        static constexpr bool HAS_UNITS = C::IS_SMALL;
        using Part = typename Conditional<S::SIDES == 2, typename C::Side, typename C::Unit>::Type;
        uint32 factor;  // that of the cost
        Part units[HAS_UNITS ? CHUNKS : 1];
        Word words[HAS_UNITS ? 1 : CHUNKS][4];

        DEVICE void load(const C& cost, const T& team) {
            factor = cost.factor;
#pragma unroll
            for (int j = 0; j < CHUNKS; ++j) {
                const int mine = j * T::SENDERS + team.sender;
                if constexpr (HAS_UNITS) {
                    const int c = V::chunk(team.lane, min(mine, S::LANE_CHUNKS - 1));
                    const auto unit = cost.unit(S::FILLERS == 0 ? c : max(c, 0));
                    if constexpr (S::SIDES == 2) units[j] = C::one_side(unit, V::side(team.lane));
                    else units[j] = unit;
                } else {
#pragma unroll
                    for (int i = 0; i < 4; ++i) words[j][i] = Message::zero();
                    const int c = V::chunk(team.lane, mine);
                    if (mine < S::LANE_CHUNKS && (S::FILLERS == 0 || c >= 0)) {
                        if constexpr (S::SIDES == 2) cost.load(c, V::side(team.lane), words[j]);
                        else cost.load(c, words[j]);
                    }
                }
            }
        }
        // The words of chunk j where the chunk is this thread's, else zeros.
        DEVICE void expand(int j, const T& team, Word (&part)[4]) const {
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

    // Word r of the belief of a node: the data cost (``share``: this thread's) plus all four
    // messages that arrive (h: this thread's directions).
    static DEVICE Word belief(const Word (&h)[DIRECTIONS][S::WORDS], Word share, int r) {
#pragma unroll
        for (int k = 0; k < DIRECTIONS; ++k) share = Message::add(share, h[k][r]);
#pragma unroll
        for (int senders = 1; senders < T::SENDERS; senders *= 2)
            share = Message::add(share, Message::shuffle_xor(share, senders * T::NODES));
        return share;
    }

    // From the messages that arrive (h) to those that leave, in place: belief, minus the message
    // from the receiver, lower envelope. ``middles``: see Envelope. LABELS: ``best`` becomes the
    // least belief of a lane.
    template <bool LABELS>
    static DEVICE void compute_messages(Word (&h)[DIRECTIONS][S::WORDS], const CostShare& cost,
                                        const T& team, Smoothness<Word> smooth,
                                        Crossings crossings, Least& best,
                                        Word (&middles)[DIRECTIONS]) {
#pragma unroll
        for (int j = 0; j < S::LANE_CHUNKS; ++j) {
            const typename Least::ChunkLabels labels(V::chunk(team.lane, j));
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
            middles[k] = Envelope<Message, DISPARITIES>::compute(h[k], team.lane, T::DISTANCE,
                                                                 crossings.of(k, smooth));
    }

    // Writes a thread's message k to device memory.
    static DEVICE void write(const Launch& p, const T& team, int x, int y,
                             const Word (&h)[S::WORDS], Word middle, int k, Unit* target) {
        const int direction = team.sender * DIRECTIONS + k;
        V::store(h, middle, team.lane,
                 target + size_t(4 * y + direction) * S::UNITS * p.columns + (x >> 1), p.columns);
    }

    // Copies the messages that arrive at the nodes of the first colour into the slots of the tile.
    static DEVICE void load_slots(const Launch& p, const HaloTile& tile, int halo, Unit* slots) {
        const int colour = (p.first + 1) & 1, stride = 4 * plane_units(p);
        const Slots where(p, colour);
        const Nodes nodes(p, colour, halo);
        // A warp copies one direction at a time.
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

    // Computes a thread's messages of one node, and writes them to slots and to device memory
    // (``target``; null = none). They are computed from the slots, or with FIRST from device
    // memory. One thread alone reads and writes a slot, or a side of it. LABELS: also writes the
    // label of a node ``inside`` the tile. Threads without a node take part in the shuffles and
    // write nothing.
    template <bool FIRST, bool LABELS>
    static DEVICE void update_node(const Launch& p, const T& team, const Node& node,
                                   const Slots& where, Unit* slots, bool to_slots, Unit* target,
                                   bool inside) {
        const int stride = 4 * plane_units(p);
        const Smoothness<Word> smooth = smoothness(p);
        // Any place will do for threads without a node.
        const int x = node.exists ? node.x : 0, y = node.exists ? node.y : 0;
        CostShare cost;
        cost.load(C(p.cost, p.columns, p.cost_factor, x, y), team);
        const Crossings crossings(p, team, x, y);
        Word h[DIRECTIONS][S::WORDS];
        Unit* const own = slots + node.slot;
#pragma unroll
        for (int k = 0; k < DIRECTIONS; ++k) {
            const int direction = team.sender * DIRECTIONS + k;
            if constexpr (FIRST)
                V::template read<true>(incoming<Unit, S::UNITS>(p, x, y, direction, node.exists),
                                       team.lane, smooth, h[k]);
            else
                V::template read<false>(
                    {node.exists ? own + where.of(x, direction) : slots + plane_units(p) - 1,
                     stride},
                    team.lane, smooth, h[k]);
        }
        Least best;
        Word middles[DIRECTIONS];
        compute_messages<LABELS>(h, cost, team, smooth, crossings, best, middles);
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
            // Slots of edges to the border stay zero.
            if (to_slots && !node.ends(p, direction))
                V::store(h[k], middles[k], team.lane, own + where.of(x, direction), stride);
            if (target != nullptr) write(p, team, x, y, h[k], middles[k], k, target);
        }
    }

    // One iteration: updates the nodes of one colour, those of the tile and of its halo up to
    // ``halo`` nodes away. ``target`` and LABELS concern the nodes of the tile itself.
    template <bool FIRST, bool LABELS>
    static DEVICE void update_colour(const Launch& p, const HaloTile& tile, const T& team,
                                     int colour, int halo, Unit* slots, bool to_slots,
                                     Unit* target) {
        const Slots where(p, colour);
        const int inside = Nodes(p, colour, 0).count, count = Nodes(p, colour, halo).count;
        const int step = blockDim.x / (32 / T::NODES);
        for (int first = threadIdx.x / 32 * T::NODES; first < count; first += step) {
            const Nodes nodes(p, hide_from_optimiser<Message>(colour), halo);
            const int item = first + team.node;
            const Node node(p, tile, __ldg(nodes.list + min(item, nodes.count - 1)),
                            item < nodes.count);
            if (T::IS_ALONE && !node.exists) continue;
            update_node<FIRST, LABELS>(p, team, node, where, slots, to_slots,
                                       item < inside ? target : nullptr, item < inside);
        }
    }

    // Refines and publishes a tile once its labels are selected, if the launch is to.
    static DEVICE void publish(const Launch& p, const HaloTile& tile) {
        if (!p.publishes) return;
        __syncthreads();
        publish_tile(p.frame, tile.left, tile.top, p.tile_width, p.tile_height);
        stamp_end(p.frame.stamp);
    }

    // Labels of the nodes of one colour of a tile from the messages in their slots, or with FIRST
    // in device memory. MORE: and the rest of Matches.
    template <bool FIRST, bool MORE>
    static DEVICE void select_colour(const Launch& p, const HaloTile& tile, int colour,
                                     Unit* slots) {
        using Alone = NodeTeam<Message, DISPARITIES, 4>;
        const Alone team;
        const Slots where(p, colour);
        const int count = Nodes(p, colour, 0).count, step = blockDim.x / (32 / Alone::NODES);
        for (int first = threadIdx.x / 32 * Alone::NODES; first < count; first += step) {
            const Nodes nodes(p, hide_from_optimiser<Message>(colour), 0);
            const int item = min(first + team.node, nodes.count - 1);
            const Node at(p, tile, __ldg(nodes.list + item), first + team.node < nodes.count);
            if (S::LANES == 1 && !at.exists) continue;
            const int x = at.exists ? at.x : 0, y = at.exists ? at.y : 0;
            NodeBelief<Message, DISPARITIES, Kind, FIRST> node = {
                C(p.cost, p.columns, p.cost_factor, x, y), team.lane};
#pragma unroll
            for (int direction = 0; direction < 4; ++direction) {
                if constexpr (FIRST)
                    node.from[direction] = incoming<Unit, S::UNITS>(p, x, y, direction, at.exists);
                else
                    node.from[direction] = {
                        slots
                            + (at.exists ? at.slot + where.of(x, direction) : plane_units(p) - 1),
                        4 * plane_units(p)};
            }
            select_label<MORE, DIRECTIONS>(node, smoothness(p), Alone::DISTANCE, at.exists, x, y,
                                           p.matches);
        }
    }
};
