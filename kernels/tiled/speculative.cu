// Stage messages of tiled belief propagation, speculative: all tiles are on chip and visited at
// once. A tile begins before its neighbours have sent anything, and is visited again if they send
// other messages than it began with. When no message changes any more, every tile has been visited
// with the final messages of its neighbours, and the guesses have left no trace.
#include "tiled/tile.cuh"

// One of the orders in which tiles are visited, for a block that has ``count`` tiles from column
// ``first`` on.
struct Order {
    Visit visit;
    int step;              // to the next tile
    int along_x, along_y;  // directions of messages
    int from_x, from_y;    // sides on which they arrive
    bool has_before, has_next, has_row_before, has_next_row;

    DEVICE Order(const TiledLaunch& p, int number, int row, int first, int count)
        : visit{number / 2, number % 2 != 0, false, 0}, step(visit.is_reverse ? -1 : 1),
          along_x(visit.is_reverse ? LEFT : RIGHT), along_y(visit.is_reverse ? UP : DOWN),
          from_x(visit.is_reverse ? FROM_RIGHT : FROM_LEFT),
          from_y(visit.is_reverse ? FROM_BELOW : FROM_ABOVE) {
        const bool has_left = first > 0, has_right = first + count < p.columns;
        const bool has_above = row > 0, has_below = row + 1 < p.rows;
        has_before = visit.is_reverse ? has_right : has_left;
        has_next = visit.is_reverse ? has_left : has_right;
        has_row_before = visit.is_reverse ? has_below : has_above;
        has_next_row = visit.is_reverse ? has_above : has_below;
    }
};

// Notices between blocks that a message was sent, and detection of the end of one order. A block
// counts its work when it is done: its first visit, and each notice. Writing a notice subtracts
// one. So the count equals the number of blocks exactly when all are done. For one thread of each
// block.
struct Notices {
    uint32* settled;           // the count
    uint32* next_settled;      // the count of the next order
    uint32* places;            // a count of notices for each block
    uint32 seen = 0, due = 1;  // notices so far; work to be counted when it is done

    // The ``number``-th order since the arrays were made. Three counts take turns, and two places
    // of each block: some blocks may still read those of the order before, but no older ones.
    DEVICE Notices(uint32* state, uint32 number)
        : settled(state + 1 + number % 3), next_settled(state + 1 + (number + 1) % 3),
          places(state + 4 + number % 2 * gridDim.x) {}
    // Notifies the block ``to`` that this block has sent it messages.
    DEVICE void write(int to) const {
        atomicAdd(settled, ~0u);
        __threadfence();
        atomicAdd(places + to, 1u);
    }
    // Before the block counts any work.
    DEVICE void begin() const {
        const uint32 none = 0;
        if (blockIdx.x == 0) store_relaxed<1>(next_settled, &none);
    }
    // At least ``least`` notices have come since the last ones were seen. Makes their messages
    // visible.
    DEVICE bool look(uint32 least) {
        uint32 now;
        load_relaxed<1>(&now, places + blockIdx.x);
        if (now == seen || now - seen < least) return false;
        __threadfence();
        due += now - seen;
        seen = now;
        return true;
    }
    // Counts the work done and waits for notices. False: all blocks are done, none will come.
    DEVICE bool wait(uint32 least) {
        __threadfence();
        atomicAdd(settled, due);
        due = 0;
        uint32 count;
        do {
            load_relaxed<1>(&count, settled);
            if (look(least)) return true;
        } while (count != gridDim.x);
        __threadfence();
        return false;
    }
    // After all are done: the order after the next one uses the same places.
    DEVICE void end() const {
        const uint32 none = 0;
        store_relaxed<1>(places + blockIdx.x, &none);
    }
};

// RUN tiles of a row, the share of a block of THREADS. Messages pass along x through all of them
// from the first one on that got a new message, and then along y. Messages from other tiles lie at
// the edges of the planes, which no sweep overwrites. The last messages sent in this order are
// kept, so that changes alone are sent on. There is one inner iteration: messages along x are
// independent of those that pass along y within the tile.
template <typename Message, int DISPARITIES, int SIZE, int REACH, bool IS_FAST, int RUN,
          int THREADS>
struct Run {
    using V = SweepTile<Message, DISPARITIES, SIZE, REACH, RUN>;
    using T = typename V::T;
    using Spot = typename V::Spot;
    using Word = typename Message::Word;
    using Words = Word[T::WORDS];
    static constexpr int WARPS = THREADS / 32, PARTS = T::rounds(SIZE, 1);  // warps of a sweep

    const TiledLaunch& p;
    const V origin;
    const int warp, row, first, count;
    const typename T::Steps steps;
    Word* const border;      // first and last row: added to the messages along x
    Word* const sent;        // along y by each tile, along x by the run: [place][word]
    uint32* const gathered;  // two places that take turns

    DEVICE Run(const TiledLaunch& p, uint4* memory, int runs)
        : p(p), origin(memory), warp(warp_number()), row(blockIdx.x / runs),
          first(blockIdx.x % runs * RUN), count(min(RUN, p.columns - first)),
          steps(T::steps(p, V::lane())), border(origin.planes + PLANES * V::PLANE),
          sent(border + 2 * V::ROW),
          gathered(reinterpret_cast<uint32*>(sent + (RUN + 1) * SIZE * T::PIXEL)) {}

    DEVICE Spot spot(int k) const { return Spot(p, row, first + k); }
    // The tiles from ``begin`` to ``end`` as one.
    DEVICE Spot spot(int begin, int end) const {
        Spot found = spot(begin);
        found.width = spot(end - 1).x + spot(end - 1).width - found.x;
        return found;
    }
    // Calls work(task, warp of the sweep) for as many tasks.
    template <typename Work>
    DEVICE void deal(int tasks, const Work& work) const {
#pragma unroll 1
        for (int task = warp; task < tasks * PARTS; task += WARPS)
            work(task / PARTS, task % PARTS);
    }

    // At the border of the tile k: the data cost plus the messages from above and from below.
    DEVICE void sum_border(int k, int side, int place) const {
        const Spot at = spot(k);
        const V tile = origin.beside(k);
        const int last = at.height - 1, y = side == FROM_ABOVE ? 0 : last;
        const int own = V::lane() * T::WORDS;
        Words total, part;
        T::load(total, tile.at(COST, place, y) + own);
        if (y == 0) {
            T::load(part, tile.at(FROM_ABOVE, place, 0) + own);
            add_words<Message>(total, part);
        }
        if (y == last) {
            T::load(part, tile.at(FROM_BELOW, place, last) + own);
            add_words<Message>(total, part);
        }
        T::store(border + (y == last) * V::ROW + (k * SIZE + place) * T::PIXEL + own, total);
    }

    // Computes data costs; all messages that arrive are zero.
    template <typename Image, int WAY>
    DEVICE void prepare() const {
        origin.prepare();
        if (threadIdx.x < 2) gathered[threadIdx.x] = 0;
        origin.template compute_costs<Image, WAY>(p, spot(0, count), warp, WARPS);
        Words zeros;
        T::clear(zeros);
        deal(4 * count, [&](int task, int part) {
            const int k = task / 4, place = part * T::TEAMS + V::team();
            if (place < SIZE)
                T::store(origin.beside(k).entry(spot(k), FROM_LEFT + task % 4, place), zeros);
        });
        __syncthreads();
        deal(2 * count, [&](int task, int part) {
            const int place = part * T::TEAMS + V::team();
            const Spot at = spot(task / 2);
            // The border of a tile of one row is the same above and below.
            if (place < at.width && (task % 2 == 0 || at.height > 1))
                sum_border(task / 2, task % 2 == 0 ? FROM_ABOVE : FROM_BELOW, place);
        });
    }

    // Sends a message of tile k if it has changed, or if ``is_new``. Returns whether it was sent.
    DEVICE bool send(const Order& order, bool is_along_y, int k, int place, const Words& message,
                     bool is_new) const {
        Word* const known = sent + ((is_along_y ? k : RUN) * SIZE + place) * T::PIXEL
            + V::lane() * T::WORDS;
        Words before;
        T::load(before, known);
        if (!is_new && T::are_equal(before, message)) return false;
        T::store(known, message);
        origin.send(p, is_along_y ? order.along_y : order.along_x, spot(k), place, message,
                    order.visit);
        return true;
    }

    // Messages along x in the direction of the order through ``end`` tiles from ``begin`` on, and
    // against it in the tiles of ``against``. Returns whether the next run gets a new message.
    DEVICE bool pass_along_x(const Order& order, int begin, int end, uint32 against,
                             bool is_new) const {
        const bool is_reverse = order.visit.is_reverse;
        bool has_sent = false;
        const auto pass = [&](const auto backward, bool is_against, int k, int part) {
            constexpr bool BACKWARD = decltype(backward)::value;
            const int from = is_against ? k : is_reverse ? 0 : begin;
            const Spot part_of_run = is_against ? spot(k) : spot(from, from + end);
            const int line = part * T::TEAMS + V::team(), last = part_of_run.height - 1;
            const int y = min(line, last), own = V::lane() * T::WORDS;
            const int x = from * SIZE + (BACKWARD ? part_of_run.width - 1 : 0);
            const bool is_at_border = y == 0 || y == last;
            Words message;
            sweep<Message, DISPARITIES, REACH, IS_FAST, false, 0, BACKWARD ? -T::PIXEL : T::PIXEL,
                  true>(is_at_border ? border + (y == last) * V::ROW + x * T::PIXEL + own
                                     : origin.at(COST, x, y) + own,
                        nullptr, nullptr, origin.at(BACKWARD ? FROM_RIGHT : FROM_LEFT, x, y) + own,
                        part_of_run.width, line <= last, V::lane(), steps, message);
            if (line <= last && !is_against && order.has_next)
                has_sent |= send(order, false, is_reverse ? 0 : count - 1, y, message, is_new);
        };
        deal(1 + count, [&](int task, int part) {
            const bool is_against = task > 0;
            const int k = task - 1, number = is_reverse ? count - 1 - k : k;
            if (is_against ? !(against >> number & 1) : end == 0) return;
            if (is_against == is_reverse) pass(Flag<false>(), is_against, k, part);
            else pass(Flag<true>(), is_against, k, part);
        });
        return has_sent;
    }

    // Messages along y in the direction of the order in these tiles. Returns whether the next row
    // gets a new message.
    DEVICE bool pass_along_y(const Order& order, int begin, int end, bool is_new) const {
        bool has_sent = false;
        const auto pass = [&](const auto backward, int k, int part) {
            constexpr bool BACKWARD = decltype(backward)::value;
            origin.beside(k).template pass_vertically<IS_FAST, false, BACKWARD, PARTS>(
                spot(k), part, steps, [&](int x, const Words& message) {
                    if (order.has_next_row) has_sent |= send(order, true, k, x, message, is_new);
                });
        };
        deal(end, [&](int task, int part) {
            if (order.visit.is_reverse) pass(Flag<true>(), task, part);
            else pass(Flag<false>(), begin + task, part);
        });
        return has_sent;
    }

    // Reads the messages of other blocks in this order: along x into the first tile, along y into
    // all of them. Returns the tiles that got a new one, counted from where the order begins:
    // along x in the lower 16 bits, along y in the upper ones.
    DEVICE uint32 take(const Order& order, uint32* changed) const {
        deal(1 + count, [&](int task, int part) {
            const bool is_along_y = task > 0;
            if (is_along_y ? !order.has_row_before : !order.has_before) return;
            const int number = max(task - 1, 0);
            const int k = order.visit.is_reverse ? count - 1 - number : number;
            const int place = part * T::TEAMS + V::team();
            const Spot at = spot(k);
            if (place >= (is_along_y ? at.width : at.height)) return;
            Words message, before;
            load_relaxed<T::REGISTERS>(reinterpret_cast<uint32*>(message),
                                       V::edge(p, is_along_y ? order.along_y : order.along_x,
                                               at.row - (is_along_y ? order.step : 0),
                                               at.column - (is_along_y ? 0 : order.step), place));
            Word* const to = origin.beside(k).entry(at, is_along_y ? order.from_y : order.from_x,
                                                    place);
            T::load(before, to);
            if (T::are_equal(before, message)) return;
            T::store(to, message);
            if (is_along_y) sum_border(k, order.from_y, place);
            atomicOr(changed, is_along_y ? 1u << 16 << number : 1u);
        });
        __syncthreads();
        return *changed;
    }

    // Selects labels. Messages along y against the order are read here alone, so they are computed
    // now.
    DEVICE void finish() const {
        deal(count, [&](int k, int part) {
            origin.beside(k).template pass_vertically<IS_FAST, false, false, PARTS>(
                spot(k), part, steps, [](int, const Words&) {});
        });
        __syncthreads();
        origin.select(p, spot(0, count), warp, WARPS);
    }
};

template <typename Message, typename Image, int DISPARITIES, int SIZE, int REACH, int WAY,
          bool IS_FAST, int RUN, int THREADS>
__global__ void __launch_bounds__(THREADS, 1) speculate(const __grid_constant__ TiledLaunch p) {
    extern __shared__ uint4 memory[];
    stamp_time(p.stamp);
    const int runs = (p.columns + RUN - 1) / RUN;
    const Run<Message, DISPARITIES, SIZE, REACH, IS_FAST, RUN, THREADS> run(p, memory, runs);
    run.template prepare<Image, WAY>();
    const uint32 orders = p.state[0];
    // This thread deals with notices: it has no sweep to wait for.
    const bool writes = threadIdx.x == THREADS - 1;
    int taking = 0;
    __syncthreads();
#pragma unroll 1
    for (int number = 0; number < 2 * p.outer; ++number) {
        const Order order(p, number, run.row, run.first, run.count);
        Notices notices(p.state, orders + number);
        if (writes) notices.begin();
        uint32 changed = ~0u;  // all
#pragma unroll 1
        for (bool is_new = true;; is_new = false) {
            // At first each neighbour sends its messages.
            const uint32 least = is_new ? order.has_before + order.has_row_before : 1;
            // From the first tile on that got a new message.
            const int begin = __ffs((changed | changed >> 16) & 0xffff) - 1;
            const int end = begin < 0 ? 0 : run.count - begin;
            const bool has_sent = __syncthreads_or(
                run.pass_along_x(order, begin, end, changed >> 16, is_new));
            bool has_news = false;
            if (writes) {
                if (has_sent) notices.write(blockIdx.x + order.step);
                // Notices often arrive while messages pass along y.
                has_news = notices.look(least) || notices.look(least);
            }
            const bool has_sent_row = __syncthreads_or(
                run.pass_along_y(order, begin, end, is_new));
            const int next_row = blockIdx.x + order.step * runs;
            if (__syncthreads_or(has_news)) {
                if (writes && has_sent_row) notices.write(next_row);
            } else {
                if (writes) {
                    if (has_sent_row) notices.write(next_row);
                    has_news = notices.wait(least);
                }
                if (!__syncthreads_or(has_news)) break;
            }
            changed = run.take(order, run.gathered + taking);
            taking ^= 1;
            if (threadIdx.x == 0) run.gathered[taking] = 0;
        }
        if (writes) notices.end();
    }
    run.finish();
    if (blockIdx.x == 0 && threadIdx.x == 0) p.state[0] = orders + 2 * p.outer;
}
