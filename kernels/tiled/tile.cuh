// A tile on chip: its loads, its sweeps, the messages it sends, and the selection of its labels.
#pragma once
#include "tiled/tiled.cuh"

// The number of the warp in its block, in a form that tells the compiler that the whole warp
// agrees.
DEVICE int warp_number() { return __shfl_sync(~0u, threadIdx.x / 32, 0); }

constexpr int POLL_NS = 20;  // between two reads of a message that has not arrived

// A direction, or another choice, known at compile time.
template <bool VALUE> struct Flag { static constexpr bool value = VALUE; };

// How often all tiles have been visited, and in which order they are this time.
struct Visit {
    int outer;
    bool is_reverse;
    bool follows;  // rows: waits for neighbours in y
    uint32 tag;    // top bit of each register that neighbours send, or 0

    DEVICE bool is_last(const TiledLaunch& p) const { return is_reverse && outer + 1 == p.outer; }
};

// The place of a tile of SIZE pixels in the image.
template <int SIZE>
struct Spot {
    int row, column, x, y, width, height;

    DEVICE Spot(const TiledLaunch& p, int row, int column)
        : row(row), column(column), x(column * SIZE), y(row * SIZE),
          width(min(SIZE, p.cost.levels[0].width - x)),
          height(min(SIZE, p.cost.levels[0].height - y)) {}
};

// One of RUN tiles side by side.
template <typename Message, int DISPARITIES, int SIZE, int REACH, int RUN = 1>
struct SweepTile {
    using T = LabelTeam<Message, DISPARITIES, REACH>;
    using Spot = ::Spot<SIZE>;
    using Word = typename Message::Word;
    using Value = typename Message::Value;
    static constexpr int WORD_REGISTERS = Message::WORD_REGISTERS;
    static constexpr bool HAS_PADS = T::PIXEL * 2 > DISPARITIES;
    // Words from one row or plane to the next. Rows are an odd number of pixels long, so that
    // neighbouring rows begin in different banks.
    static constexpr int ROW = (RUN * SIZE | 1) * T::PIXEL, PLANE = SIZE * ROW;

    Word* zeros;   // a row of zeros, before all tiles
    Word* planes;  // [plane][y][x][word]

    // The ``stage``-th of several tiles side by side.
    DEVICE explicit SweepTile(uint4* memory, int stage = 0)
        : zeros(reinterpret_cast<Word*>(memory)),
          planes(zeros + (ROW + 3) / 4 * 4 + stage * PLANES * PLANE) {}
    // The ``k``-th tile to the right.
    DEVICE SweepTile beside(int k) const {
        SweepTile other = *this;
        other.planes += k * SIZE * T::PIXEL;
        return other;
    }
    // Runs before everything else.
    DEVICE void prepare() const {
        for (int i = threadIdx.x; i < ROW; i += blockDim.x) zeros[i] = Message::zero();
    }
    DEVICE Word* at(int which, int x, int y) const {
        return planes + which * PLANE + y * ROW + x * T::PIXEL;
    }
    // The first place that a message from a side reaches.
    DEVICE Word* entry(const Spot& spot, int side, int place) const {
        const int x = side == FROM_LEFT ? 0 : side == FROM_RIGHT ? spot.width - 1 : place;
        const int y = side == FROM_ABOVE ? 0 : side == FROM_BELOW ? spot.height - 1 : place;
        return at(side, x, y) + lane() * T::WORDS;
    }
    static DEVICE int lane() { return threadIdx.x % 32 % T::LANES; }
    static DEVICE int team() { return threadIdx.x % 32 / T::LANES; }

    // Data costs, by ``warps`` warps of which this is number ``warp``; a warp for each row.
    template <typename Image, int WAY>
    DEVICE void compute_costs(const TiledLaunch& p, const Spot& spot, int warp, int warps) const {
        using Cost = typename SingleCost<WAY>::Type;
        using Element = typename Cost::Element;
        const int width = p.cost.levels[0].width;
#pragma unroll 1
        for (int y = warp; y < spot.height; y += warps) {
            const size_t line = size_t(spot.y + y) * width;
            const Image* const own = static_cast<const Image*>(p.cost.left) + line + spot.x;
            const Image* const others = static_cast<const Image*>(p.cost.right) + line + spot.x
                - p.cost.min_disparity - lane() * T::LABELS;
            // A run computes many at once: its other warps have no work meanwhile.
#pragma unroll(RUN > 1 ? 4 : 1)
            for (int x = team(); x < spot.width; x += T::TEAMS) {
                const int partner = spot.x + x - p.cost.min_disparity;
                const bool has_evidence = partner < width && partner - (DISPARITIES - 1) >= 0;
                Word costs[T::WORDS];
                if constexpr (WAY == FOUR_AT_ONCE && T::LABELS % 4 == 0 && !HAS_PADS) {
                    Cost::template of_row<T::LABELS>(p.cost, has_evidence, __ldg(own + x),
                                                     others + x, costs);
                    store_costs(costs, x, y);
                    continue;
                }
                const auto weight = Cost::weight(p.cost, has_evidence);
                const Element pixel = Element(__ldg(own + x));
                Element met[T::LABELS];
#pragma unroll
                for (int i = 0; i < T::LABELS; ++i) {
                    bool is_label = true;
                    if constexpr (HAS_PADS) is_label = lane() * T::LABELS + i < DISPARITIES;
                    met[i] = has_evidence && is_label ? Element(__ldg(others + x - i)) : pixel;
                }
#pragma unroll
                for (int r = 0; r < T::WORDS; ++r) {
                    costs[r] = Cost::word(Cost::of(p.cost, weight, pixel, met[r]),
                                          Cost::of(p.cost, weight, pixel, met[T::LABELS - 1 - r]));
                    if constexpr (HAS_PADS) {
                        const Word pad = splat<Message>(p.pad, p.float_pad);
                        const int label = lane() * T::LABELS + r;
                        const int mirrored = lane() * T::LABELS + T::LABELS - 1 - r;
                        if (label >= DISPARITIES) costs[r] = Message::with_high(pad, costs[r]);
                        if (mirrored >= DISPARITIES) costs[r] = Message::with_high(costs[r], pad);
                    }
                }
                store_costs(costs, x, y);
            }
        }
    }
    DEVICE void store_costs(Word (&costs)[T::WORDS], int x, int y) const {
        if constexpr (Message::IS_WHOLE) {
#pragma unroll
            for (int r = 0; r < T::WORDS; ++r) costs[r] += T::ABOVE_COST;
        }
        T::store(at(COST, x, y) + lane() * T::WORDS, costs);
    }

    // Loads the messages of the neighbours: the latest ones of the tiles that this order visits
    // before this one, those of the order before from the others. In rows (``visit.follows``)
    // messages along x in this order are in place already, and messages along y are waited for.
    DEVICE void load_edges(const TiledLaunch& p, const Spot& spot, const Visit& visit, int warp,
                           int warps) const {
        const bool has_later = visit.is_reverse || visit.outer > 0;
        constexpr int ROUNDS = T::rounds(SIZE, 1);
        for (int task = warp; task < 4 * ROUNDS; task += warps) {
            // The whole warp is at one side.
            const int side = FROM_LEFT + task % 4, place = task / 4 * T::TEAMS + team();
            const bool is_along_x = side <= FROM_RIGHT;
            if (place >= (is_along_x ? spot.height : spot.width)) continue;
            int row = spot.row, column = spot.column, direction;
            bool is_later, is_first;
            switch (side) {
                case FROM_LEFT:
                    direction = RIGHT, is_first = --column < 0, is_later = false;
                    break;
                case FROM_RIGHT:
                    direction = LEFT, is_first = ++column == p.columns, is_later = true;
                    break;
                case FROM_ABOVE: direction = DOWN, is_first = --row < 0, is_later = false; break;
                default: direction = UP, is_first = ++row == p.rows, is_later = true;
            }
            // The neighbour comes before this tile in this order.
            const bool is_before = is_later == visit.is_reverse;
            Word words[T::WORDS];
            T::clear(words);
            if (!is_first && (!is_later || has_later)) {
                if (visit.follows && is_before && is_along_x) continue;
                uint32* const registers = reinterpret_cast<uint32*>(words);
                const uint32* const from = edge(p, direction, row, column, place);
                uint32 differs = 0;
                do {
                    // Other warps of this multiprocessor compute meanwhile.
                    if (differs >> 31) __nanosleep(POLL_NS);
                    load_relaxed<T::REGISTERS>(registers, from);
                    if (visit.follows && is_before) {
                        differs = 0;
#pragma unroll
                        for (int r = 0; r < T::REGISTERS; ++r)
                            differs |= registers[r] ^ visit.tag;
                    }
                } while (differs >> 31);
#pragma unroll
                for (int r = 0; r < T::REGISTERS; ++r) registers[r] &= 0x7fffffffu;
            }
            T::store(entry(spot, side, place), words);
        }
    }

    // Sweep right, or left if BACKWARD, of all rows; ``leave(y, message)`` gets the message that
    // leaves each. In the first iteration of a visit messages along y have arrived at the edges of
    // the tile alone.
    template <bool IS_FAST, bool WAITS, bool BACKWARD, int WARPS, typename Leave>
    DEVICE void pass_horizontally(const Spot& spot, bool is_first, int warp,
                                  const typename T::Steps& steps, const Leave& leave) const {
        constexpr int STEP = BACKWARD ? -T::PIXEL : T::PIXEL;
        constexpr int SIDE = BACKWARD ? FROM_RIGHT : FROM_LEFT;
        const int begin = BACKWARD ? spot.width - 1 : 0, own = lane() * T::WORDS;
#pragma unroll 1
        for (int round = 0; round < T::rounds(SIZE, WARPS); ++round) {
            const int first = (round * WARPS + warp) * T::TEAMS, line = first + team();
            if (!WAITS && first >= spot.height) break;
            const bool writes = line < spot.height;
            const int y = min(line, spot.height - 1), last = spot.height - 1;
            const Word* const cost = at(COST, begin, y) + own;
            const Word* const above = at(FROM_ABOVE, begin, y) + own;
            const Word* const below = at(FROM_BELOW, begin, y) + own;
            const Word* const none = zeros + begin * T::PIXEL + own;
            Word* const to = at(SIDE, begin, y) + own;
            Word message[T::WORDS];
            if (is_first && last > 0)
                sweep<Message, DISPARITIES, REACH, IS_FAST, WAITS, 1, STEP, false>(
                    cost, y == 0 ? above : (y == last ? below : none), nullptr, to, spot.width,
                    writes, lane(), steps, message);
            else
                sweep<Message, DISPARITIES, REACH, IS_FAST, WAITS, 2, STEP, false>(
                    cost, above, below, to, spot.width, writes, lane(), steps, message);
            if (writes) leave(y, message);
        }
    }

    // The same down, or up if BACKWARD, of all columns: ``leave(x, message)``.
    template <bool IS_FAST, bool WAITS, bool BACKWARD, int WARPS, typename Leave>
    DEVICE void pass_vertically(const Spot& spot, int warp, const typename T::Steps& steps,
                                const Leave& leave) const {
        constexpr int STEP = BACKWARD ? -ROW : ROW, SIDE = BACKWARD ? FROM_BELOW : FROM_ABOVE;
        const int begin = BACKWARD ? spot.height - 1 : 0, own = lane() * T::WORDS;
#pragma unroll 1
        for (int round = 0; round < T::rounds(SIZE, WARPS); ++round) {
            const int first = (round * WARPS + warp) * T::TEAMS, line = first + team();
            if (!WAITS && first >= spot.width) break;
            const int x = min(line, spot.width - 1);
            Word message[T::WORDS];
            sweep<Message, DISPARITIES, REACH, IS_FAST, WAITS, 2, STEP, false>(
                at(COST, x, begin) + own, at(FROM_LEFT, x, begin) + own,
                at(FROM_RIGHT, x, begin) + own, at(SIDE, x, begin) + own, spot.height,
                line < spot.width, lane(), steps, message);
            if (line < spot.width) leave(x, message);
        }
    }

    static DEVICE uint32* edge(const TiledLaunch& p, int direction, int row, int column,
                               int place) {
        constexpr int EDGE = SIZE * T::PIXEL * WORD_REGISTERS;
        return p.edges[direction] + size_t(row) * p.columns * EDGE
            + (column * EDGE + place * T::PIXEL * WORD_REGISTERS + lane() * T::REGISTERS);
    }
    DEVICE void send(const TiledLaunch& p, int direction, const Spot& spot, int place,
                     const Word (&message)[T::WORDS], const Visit& visit) const {
        const uint32* const plain = reinterpret_cast<const uint32*>(message);
        const bool is_vertical = direction == UP || direction == DOWN;
        uint32 registers[T::REGISTERS];
#pragma unroll
        for (int r = 0; r < T::REGISTERS; ++r)
            registers[r] = plain[r] | (is_vertical ? visit.tag : 0);
        store_relaxed<T::REGISTERS>(edge(p, direction, spot.row, spot.column, place), registers);
    }

    // The belief of one label.
    DEVICE Value belief(int x, int y, int label) const {
        const int inside = label % T::LABELS, mirrored = T::LABELS - 1 - inside;
        const bool is_low = inside < mirrored;
        const int word = label / T::LABELS * T::WORDS + (is_low ? inside : mirrored);
        Word total = at(COST, x, y)[word];
#pragma unroll
        for (int side = FROM_LEFT; side < PLANES; ++side)
            total = Message::add(total, at(side, x, y)[word]);
        if constexpr (Message::IS_WHOLE) total -= T::ABOVE_COST;
        return is_low ? Message::low(total) : Message::high(total);
    }

    // Labels of the tile, the lowest one on ties: a warp for some pixels of a row, a team for each
    // pixel.
    DEVICE void select(const TiledLaunch& p, const Spot& spot, int warp, int warps) const {
        const int parts = T::rounds(spot.width, 1);
#pragma unroll 1
        for (int task = warp; task < parts * spot.height; task += warps) {
            const int x = task % parts * T::TEAMS + team();
            select_pixel(p, spot, min(x, spot.width - 1), task / parts, x < spot.width);
        }
    }

    DEVICE void select_pixel(const TiledLaunch& p, const Spot& spot, int x, int y,
                             bool writes) const {
        Value least = Message::largest();
        int found = DISPARITIES;
        Word beliefs[T::WORDS], part[T::WORDS];
        T::load(beliefs, at(COST, x, y) + lane() * T::WORDS);
#pragma unroll
        for (int side = FROM_LEFT; side < PLANES; ++side) {
            T::load(part, at(side, x, y) + lane() * T::WORDS);
            add_words<Message>(beliefs, part);
        }
        if constexpr (Message::IS_WHOLE) {
#pragma unroll
            for (int r = 0; r < T::WORDS; ++r) beliefs[r] -= T::ABOVE_COST;
        }
        const int first = lane() * T::LABELS;
        if constexpr (WORD_REGISTERS == 1) {
            // Value and label in one number, the value above.
            uint32 key = ~0u;
            const auto take = [&](uint32 value, int label) {
                if (!HAS_PADS || label < DISPARITIES) key = min(key, value << 9 | label);
            };
#pragma unroll
            for (int r = 0; r < T::WORDS; ++r) {
                take(Message::low(beliefs[r]), first + r);
                take(Message::high(beliefs[r]), first + T::LABELS - 1 - r);
            }
#pragma unroll
            for (int i = 1; i < T::LANES; i *= 2) key = min(key, __shfl_xor_sync(~0u, key, i));
            least = key >> 9;
            found = key & 511;
        } else {
            const auto take = [&](Value value, int label) {
                if (label < DISPARITIES && (value < least || (value == least && label < found))) {
                    least = value;
                    found = label;
                }
            };
#pragma unroll
            for (int r = 0; r < T::WORDS; ++r) {
                take(Message::low(beliefs[r]), first + r);
                take(Message::high(beliefs[r]), first + T::LABELS - 1 - r);
            }
#pragma unroll
            for (int i = 1; i < T::LANES; i *= 2) {
                const Value value = __shfl_xor_sync(~0u, least, i);
                take(value, __shfl_xor_sync(~0u, found, i));
            }
        }
        const Matches& out = p.out;
        const int image_x = spot.x + x, width = p.cost.levels[0].width;
        const int to = (spot.y + y) * width + image_x;
        const bool is_first = writes && lane() == 0;
        if (is_first) {
            out.label[to] = short(found);
            if (out.fraction != nullptr)
                out.fraction[to] = found > 0 && found < DISPARITIES - 1
                    ? sixteenths(belief(x, y, found - 1), least, belief(x, y, found + 1))
                    : 0;
        }
        if (out.second == nullptr && out.right == nullptr) return;
        const bool offers = writes && out.right != nullptr && image_x >= out.first_x
            && image_x < out.end_x;
        Value second = Message::largest();
        const auto compare = [&](Value value, int label) {
            if (label >= DISPARITIES) return;
            if (abs(label - found) > 1) second = min(second, value);
            if (offers)
                offer(out.right + to + out.first_partner - label, Message::bits(value), label);
        };
#pragma unroll
        for (int r = 0; r < T::WORDS; ++r) {
            compare(Message::low(beliefs[r]), first + r);
            compare(Message::high(beliefs[r]), first + T::LABELS - 1 - r);
        }
        if (out.second == nullptr) return;
#pragma unroll
        for (int i = 1; i < T::LANES; i *= 2)
            second = min(second, __shfl_xor_sync(~0u, second, i));
        if (!is_first) return;
        out.write_costs<DISPARITIES>(to, found, least, second);
    }
};
