// Stage messages of tiled belief propagation: BP-M tile by tile, from the images to labels.
#include "tiled/tile.cuh"

// Barriers of the grid: each waits until every block has come here for the ``number``-th time
// since the arrays were made, counted from 1. All blocks must be resident.
enum Barrier { NO_BARRIER, COUNTING, LOCK_FREE };

// One counter that every block increments.
DEVICE void wait_counting(uint32* counter, uint32 number) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(counter, 1u);
        while (int(load_acquire(counter) - number * gridDim.x) < 0) {}
        __threadfence();
    }
    __syncthreads();
}

// Free of atomic operations (Xiao & Feng, Inter-block GPU communication via fast barrier
// synchronization, 2010). Each block writes its arrival to a place of the block. One block watches
// all places and answers in as many. Today's memory model needs the fences, which the paper leaves
// out.
DEVICE void wait_lock_free(uint32* arrived, uint32 number) {
    uint32* const released = arrived + gridDim.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        store_relaxed<1>(arrived + blockIdx.x, &number);
    }
    if (blockIdx.x == 0) {
        for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
            uint32 seen;
            do { load_relaxed<1>(&seen, arrived + i); } while (seen != number);
        }
        __threadfence();
        __syncthreads();
        for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x)
            store_relaxed<1>(released + i, &number);
    }
    if (threadIdx.x == 0) {
        uint32 seen;
        do { load_relaxed<1>(&seen, released + blockIdx.x); } while (seen != number);
        __threadfence();
    }
    __syncthreads();
}

// Blocks visit the tiles of one diagonal after another: the diagonals [first, end) of all outer
// iterations and both orders. With a barrier they wait for each other after each diagonal.
template <typename Message, typename Image, int DISPARITIES, int SIZE, int REACH, int WAY,
          bool IS_FAST, bool WAITS, int BARRIER, int THREADS>
__global__ void __launch_bounds__(THREADS, 1)
    visit_diagonals(const __grid_constant__ TiledLaunch p, int first, int end) {
    using V = SweepTile<Message, DISPARITIES, SIZE, REACH>;
    using T = typename V::T;
    extern __shared__ uint4 memory[];
    if (first == 0) stamp_time(p.stamp);
    constexpr int WARPS = THREADS / 32;
    const int warp = warp_number(), lane = threadIdx.x % 32 % T::LANES;
    const auto steps = T::steps(p, lane);
    const V tile(memory);
    tile.prepare();
    const int diagonals = p.rows + p.columns - 1;
    const uint32 done = BARRIER == NO_BARRIER ? 0 : p.state[0];
#pragma unroll 1
    for (int step = first; step < end; ++step) {
        const int order = step / diagonals, number = step % diagonals;
        const Visit visit = {order / 2, order % 2 != 0, false, 0};
        const int diagonal = visit.is_reverse ? diagonals - 1 - number : number;
        const int first_row = max(0, diagonal - p.columns + 1);
        const int end_row = min(p.rows, diagonal + 1);
#pragma unroll 1
        for (int row = first_row + blockIdx.x; row < end_row; row += gridDim.x) {
            const typename V::Spot spot(p, row, diagonal - row);
            __syncthreads();  // the tile before is finished
            tile.load_edges(p, spot, visit, WARPS - 1 - warp, WARPS);
            tile.template compute_costs<Image, WAY>(p, spot, warp, WARPS);
            __syncthreads();
#pragma unroll 1
            for (int iteration = 0; iteration < p.inner; ++iteration) {
                // One half of the warps sweeps each way.
                constexpr int WARPS_OF_SWEEP = WARPS / 2;
                const bool is_final = iteration + 1 == p.inner;
                const auto along_x = [&](const auto backward) {
                    constexpr bool BACKWARD = decltype(backward)::value;
                    tile.template pass_horizontally<IS_FAST, WAITS, BACKWARD, WARPS_OF_SWEEP>(
                        spot, iteration == 0, warp / 2, steps, [&](int y, const auto& message) {
                            if (is_final && BACKWARD == visit.is_reverse)
                                tile.send(p, BACKWARD ? LEFT : RIGHT, spot, y, message, visit);
                        });
                };
                const auto along_y = [&](const auto backward) {
                    constexpr bool BACKWARD = decltype(backward)::value;
                    const bool is_in_order = BACKWARD == visit.is_reverse;
                    if (!WAITS && is_final && !is_in_order && !visit.is_last(p)) return;
                    tile.template pass_vertically<IS_FAST, WAITS, BACKWARD, WARPS_OF_SWEEP>(
                        spot, warp / 2, steps, [&](int x, const auto& message) {
                            if (is_final && is_in_order)
                                tile.send(p, BACKWARD ? UP : DOWN, spot, x, message, visit);
                        });
                };
                if (warp % 2 == 0) along_x(Flag<false>());
                else along_x(Flag<true>());
                __syncthreads();
                if (warp % 2 == 0) along_y(Flag<false>());
                else along_y(Flag<true>());
                __syncthreads();
            }
            if (visit.is_last(p)) tile.select(p, spot, warp, WARPS);
        }
        if constexpr (BARRIER == COUNTING) wait_counting(p.state + 1, done + step + 1);
        if constexpr (BARRIER == LOCK_FREE) wait_lock_free(p.state + 2, done + step + 1);
    }
    if (BARRIER != NO_BARRIER && blockIdx.x == 0 && threadIdx.x == 0) p.state[0] = done + end;
}

constexpr int WAITING = 3;  // warps of ``follow_rows`` that wait for neighbours
constexpr int STAGES = 4;   // tiles on chip: one for each step of the wavefront

// A tile and a slot of its period, after ``waits`` idle slots.
struct Turn {
    int waits, number = 0, phase = 0;

    DEVICE bool has_begun() const { return waits == 0; }
    DEVICE void pass(int period) {
        if (waits > 0) {
            --waits;
        } else if (++phase == period) {
            phase = 0;
            ++number;
        }
    }
};

// A wavefront. A block has a row of tiles at a time, and its warps work on different tiles of it:
// costs of one are computed, messages pass along x in the one before, along y in the one before
// that, and labels are selected in the last. Rows follow each other as soon as the messages from
// the next row have arrived. They come through global memory, where each register carries the
// parity of its outer iteration in its top bit, which makes a separate flag unnecessary.
//
// Every fourth warp runs on the same quarter of a multiprocessor, whose instruction cache is
// small. So each quarter has one of the four sweeps and few tasks beside it. Data costs are
// computed on the quarter of the sweep along y that has time in this order. The quarters of the
// sweeps along x select labels and wait for neighbours.
template <typename Message, typename Image, int DISPARITIES, int SIZE, int REACH, int WAY,
          bool IS_FAST, int THREADS>
__global__ void __launch_bounds__(THREADS, 1)
    follow_rows(const __grid_constant__ TiledLaunch p) {
    using V = SweepTile<Message, DISPARITIES, SIZE, REACH>;
    using T = typename V::T;
    constexpr int WARPS = T::rounds(SIZE, 1) > 1 ? 2 : 1;  // of one sweep
    constexpr int COMPUTING = THREADS / 128 - WARPS, SELECTING = 2 * COMPUTING - WAITING;
    extern __shared__ uint4 memory[];
    stamp_time(p.stamp);
    const int quarter = warp_number() % 4, warp = warp_number() / 4, other = warp - WARPS;
    V(memory).prepare();
    // A tile has a sweep along x or along y in every slot of time. Its first one along x shares a
    // slot with the last one along y of the tile before.
    const int period = 2 * p.inner - 1, slots = p.columns * period + 3;
    const int own_rows = (p.rows - int(blockIdx.x) + int(gridDim.x) - 1) / int(gridDim.x);
    const auto tile = [&](int number) { return V(memory, number % STAGES); };
    // Calls work(visit, row, turn) in every slot of every row, in either order of every iteration,
    // ``waits`` slots after the first.
    const auto in_every_slot = [&](int waits, const auto& work) {
#pragma unroll 1
        for (int order = 0; order < 2 * p.outer; ++order) {
            // Loading it for each order saves a register.
            uint32 done;
            load_relaxed<1>(&done, p.state);
            const int outer = order / 2;
            const Visit visit = {outer, order % 2 != 0, true, ~(done + outer) << 31};
#pragma unroll 1
            for (int i = 0; i < own_rows; ++i) {
                const int row = blockIdx.x + gridDim.x * (visit.is_reverse ? own_rows - 1 - i : i);
                Turn turn = {waits};
#pragma unroll 1
                for (int slot = 0; slot < slots; ++slot) {
                    wait_for_block<THREADS>();
                    if (turn.has_begun() && turn.number < p.columns) work(visit, row, turn);
                    turn.pass(period);
                }
            }
        }
    };
    const auto spot = [&](const Visit& visit, int row, int number) {
        return typename V::Spot(p, row, visit.is_reverse ? p.columns - 1 - number : number);
    };
    if (other < 0) {
        const auto steps = T::steps(p, threadIdx.x % 32 % T::LANES);
        const auto along_x = [&](const auto backward) {
            constexpr bool BACKWARD = decltype(backward)::value;
            in_every_slot(1, [&](const Visit& visit, int row, const Turn& turn) {
                if (turn.phase % 2 != 0) return;
                const V own = tile(turn.number);
                const auto at = spot(visit, row, turn.number);
                own.template pass_horizontally<IS_FAST, false, BACKWARD, WARPS>(
                    at, turn.phase == 0, warp, steps, [&](int y, const auto& message) {
                        // A message in the direction of the order alone is read before it is sent
                        // again.
                        if (turn.phase + 1 != period || BACKWARD != visit.is_reverse) return;
                        if (turn.number + 1 < p.columns)
                            T::store(tile(turn.number + 1)
                                         .entry(spot(visit, row, turn.number + 1),
                                                BACKWARD ? FROM_RIGHT : FROM_LEFT, y),
                                     message);
                        own.send(p, BACKWARD ? LEFT : RIGHT, at, y, message, visit);
                    });
            });
        };
        const auto along_y = [&](const auto backward) {
            constexpr bool BACKWARD = decltype(backward)::value;
            in_every_slot(2, [&](const Visit& visit, int row, const Turn& turn) {
                const bool is_final = turn.phase + 1 == period;
                const bool is_in_order = BACKWARD == visit.is_reverse;
                // A message against the order matters within the tile alone.
                if (turn.phase % 2 != 0 || (is_final && !is_in_order && !visit.is_last(p))) return;
                const V own = tile(turn.number);
                const auto at = spot(visit, row, turn.number);
                own.template pass_vertically<IS_FAST, false, BACKWARD, WARPS>(
                    at, warp, steps, [&](int x, const auto& message) {
                        if (is_final && is_in_order)
                            own.send(p, BACKWARD ? UP : DOWN, at, x, message, visit);
                    });
            });
        };
        switch (quarter) {
            case 0: along_y(Flag<true>()); break;
            case 1: along_y(Flag<false>()); break;
            case 2: along_x(Flag<false>()); break;
            default: along_x(Flag<true>());
        }
    } else if (quarter < 2) {
        in_every_slot(0, [&](const Visit& visit, int row, const Turn& turn) {
            if (turn.phase == 0 && visit.is_reverse == (quarter == 1))
                tile(turn.number)
                    .template compute_costs<Image, WAY>(p, spot(visit, row, turn.number), other,
                                                        COMPUTING);
        });
    } else if (const int number = 2 * other + quarter - 2; number < WAITING) {
        in_every_slot(0, [&](const Visit& visit, int row, const Turn& turn) {
            if (turn.phase == 0)
                tile(turn.number)
                    .load_edges(p, spot(visit, row, turn.number), visit, number, WAITING);
        });
    } else {
        in_every_slot(period + 2, [&](const Visit& visit, int row, const Turn& turn) {
            if (turn.phase == 0 && visit.is_last(p))
                tile(turn.number)
                    .select(p, spot(visit, row, turn.number), number - WAITING, SELECTING);
        });
    }
    // The first row is the last one to end. Every block has read the state by then: the parity of
    // the messages that it sent is of it.
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        const uint32 done = p.state[0] + p.outer;
        store_relaxed<1>(p.state, &done);
    }
}
