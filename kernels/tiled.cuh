// What the kernels of tiled belief propagation share: messages, tiles on chip, sweeps, labels.
#pragma once
#include "beliefs.cuh"
#include "cost.cuh"

// What arrives at a pixel is kept there, in the plane of the side that it comes from.
enum Plane { COST, FROM_LEFT, FROM_RIGHT, FROM_ABOVE, FROM_BELOW, PLANES };

struct TiledPass {
    CostPass cost;                  // of level 0; the others are not there
    uint32* edges[4];               // by Direction: what tiles send, [row][column][place][word]
    uint32* state;                  // see ``tiled_plan.py``
    Matches out;
    int size, rows, columns;        // pixels of a tile's side, and tiles
    int outer, inner;               // iterations
    int slope, truncation, pad;     // int16: of the smoothness; cost of a label that is none
    float float_slope, float_truncation, float_pad;
    int cluster_bits, mail_words;   // logarithm of its blocks; words of mail, 0 = there is none
    int reach;                      // labels that a step may lead over; the fast computation
    uint64* stamp;                  // time at which the stage starts, ns
};

// Where costs are whole multiples of the difference.
struct WholeCost {
    using Element = uint8;
    static __device__ __forceinline__ uint32 weight(const CostPass& p, bool has_evidence) {
        return has_evidence ? p.packed_factor : 0;
    }
    static __device__ __forceinline__ uint32 of(const CostPass& p, uint32 weight, uint32 own,
                                                uint32 other) {
        return weight * min(uint32(abs(int(own) - int(other))), p.packed_truncation & 0xff);
    }
    static __device__ __forceinline__ uint32 word(uint32 low, uint32 high) {
        return low | high << 16;
    }
};

template <int WAY> struct CostInTile;
template <> struct CostInTile<REAL> { using Type = FloatCost; };
template <> struct CostInTile<FROM_TABLE> { using Type = TableCost; };
template <> struct CostInTile<IN_FLOAT64> { using Type = Float64Cost; };
template <> struct CostInTile<IN_FLOAT32> { using Type = Float32Cost; };
template <> struct CostInTile<FOUR_AT_ONCE> { using Type = WholeCost; };

// COUNT registers of 32 bits from or to shared memory, as many at once as there are.
template <int COUNT>
__device__ __forceinline__ void copy_registers(uint32* to, const uint32* from) {
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from + i);
    } else if constexpr (COUNT % 2 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2)
            *reinterpret_cast<uint2*>(to + i) = *reinterpret_cast<const uint2*>(from + i);
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) to[i] = from[i];
    }
}

// The same in device memory that other blocks read and write meanwhile: every register by itself
// arrives as a whole, in any order.
template <int COUNT>
__device__ __forceinline__ void load_relaxed(uint32* to, const uint32* from) {
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(to[i]), "=r"(to[i + 1]), "=r"(to[i + 2]), "=r"(to[i + 3])
                         : "l"(from + i) : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                         : "=r"(to[i]) : "l"(from + i) : "memory");
    }
}
template <int COUNT>
__device__ __forceinline__ void store_relaxed(uint32* to, const uint32* from) {
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};"
                         :: "l"(to + i), "r"(from[i]), "r"(from[i + 1]), "r"(from[i + 2]),
                            "r"(from[i + 3]) : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile("st.relaxed.gpu.global.u32 [%0], %1;"
                         :: "l"(to + i), "r"(from[i]) : "memory");
    }
}

// As ``load_relaxed``, from this block's shared memory, which other blocks of its cluster write.
template <int COUNT>
__device__ __forceinline__ void load_mail(uint32* to, const uint32* from) {
    const uint32 at = uint32(__cvta_generic_to_shared(from));
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(to[i]), "=r"(to[i + 1]), "=r"(to[i + 2]), "=r"(to[i + 3])
                         : "r"(at + 4 * i) : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile("ld.volatile.shared.u32 %0, [%1];"
                         : "=r"(to[i]) : "r"(at + 4 * i) : "memory");
    }
}
// To the place of the block ``rank`` of the cluster that ``to`` is in this one.
template <int COUNT>
__device__ __forceinline__ void store_mail(uint32* to, int rank, const uint32* from) {
#if __CUDA_ARCH__ >= 900
    uint32 at;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(at) : "r"(uint32(__cvta_generic_to_shared(to))), "r"(rank));
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile("st.relaxed.cluster.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};"
                         :: "r"(at + 4 * i), "r"(from[i]), "r"(from[i + 1]), "r"(from[i + 2]),
                            "r"(from[i + 3]) : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], %1;"
                         :: "r"(at + 4 * i), "r"(from[i]) : "memory");
    }
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// One vector over the disparities, dealt out to the lanes of a team. A lane has LABELS of them in
// a row: word r holds the label r of these (low) and its mirror image LABELS - 1 - r (high), so
// that word 0 is the first and the last of them. Labels beyond the range cost ``pad``.
template <typename Message, int DISPARITIES>
struct Team {
    using Word = typename Message::Word;
    using Value = typename Message::Value;
    static constexpr int CHUNKS = (DISPARITIES + 7) / 8;
    static constexpr int LANES = CHUNKS <= 1 ? 1 : CHUNKS <= 2 ? 2 : CHUNKS <= 4 ? 4
        : CHUNKS <= 8 ? 8 : CHUNKS <= 16 ? 16 : 32;
    static constexpr int WORDS = (DISPARITIES + 2 * LANES - 1) / (2 * LANES);
    static constexpr int LABELS = 2 * WORDS;
    static constexpr int PIXEL = LANES * WORDS;         // words of a vector
    static constexpr int TEAMS = 32 / LANES;            // of a warp
    static constexpr int LEVELS = LANES == 1 ? 0 : LANES == 2 ? 1 : LANES == 4 ? 2
        : LANES == 8 ? 3 : LANES == 16 ? 4 : 5;
    static constexpr int REGISTERS = WORDS * Message::WORD_REGISTERS;

    // Steps of the smoothness cost, none above the truncation, which bounds everything anyway.
    struct Steps {
        Word slope, truncation;
        // More than two lanes: from beside the lane to a word and to its mirror image. Two lanes:
        // from the other lane's nearest label to a word, and from a word to the nearest label.
        Word near[WORDS], far[WORDS];
        Word edge[LEVELS + 1];              // from the neighbouring group to beside the lane
        Word span[LEVELS + 1];              // over a group of 1, 2, 4 ... lanes
    };

    static __device__ __forceinline__ typename Message::Parameter step_over(const TiledPass& p,
                                                                            int labels) {
        if constexpr (Message::WORD_REGISTERS == 1)
            return min(labels * p.slope, p.truncation);
        else
            return fminf(labels * p.float_slope, p.float_truncation);
    }
    static __device__ __forceinline__ Steps steps(const TiledPass& p, int lane) {
        Steps found;
        found.slope = Message::splat(step_over(p, 1));
        found.truncation = Message::splat(step_over(p, 1 << 12));
#pragma unroll
        for (int r = 0; r < WORDS; ++r) {
            if constexpr (LANES == 2) {
                const Word one[2] = {Message::splat(step_over(p, LABELS - r)),
                                     Message::splat(step_over(p, r + 1))};
                const Word less[2] = {Message::splat(step_over(p, LABELS - 1 - r)),
                                      Message::splat(step_over(p, r))};
                found.near[r] = lane == 0 ? Message::with_high(one[0], one[1])
                                          : Message::with_high(one[1], one[0]);
                found.far[r] = lane == 0 ? Message::with_high(less[0], less[1])
                                         : Message::with_high(less[1], less[0]);
            } else {
                found.near[r] = Message::splat(step_over(p, r + 1));
                found.far[r] = Message::splat(step_over(p, LABELS - r));
            }
        }
#pragma unroll
        for (int k = 0; k < LEVELS; ++k) {
            const int lanes = 1 << k, inside = lane % lanes;
            const bool is_right = lane & lanes;
            const Word distance = Message::splat(
                step_over(p, LABELS * (is_right ? inside : lanes - 1 - inside)));
            found.edge[k] = is_right ? Message::with_high(distance, found.truncation)
                                     : Message::with_high(found.truncation, distance);
            found.span[k] = Message::splat(step_over(p, LABELS * lanes));
        }
        return found;
    }

    static __device__ __forceinline__ void load(Word (&words)[WORDS], const Word* at) {
        copy_registers<REGISTERS>(reinterpret_cast<uint32*>(words),
                                  reinterpret_cast<const uint32*>(at));
    }
    static __device__ __forceinline__ void store(Word* at, const Word (&words)[WORDS]) {
        copy_registers<REGISTERS>(reinterpret_cast<uint32*>(at),
                                  reinterpret_cast<const uint32*>(words));
    }
    static __device__ __forceinline__ void clear(Word (&words)[WORDS]) {
#pragma unroll
        for (int r = 0; r < WORDS; ++r) words[r] = Message::zero();
    }
    // total = (a + b) + c
    static __device__ __forceinline__ void load_sum(Word (&total)[WORDS], const Word* a,
                                                    const Word* b, const Word* c) {
        Word first[WORDS], second[WORDS];
        load(total, a);
        load(first, b);
        load(second, c);
#pragma unroll
        for (int r = 0; r < WORDS; ++r)
            total[r] = Message::add(Message::add(total[r], first[r]), second[r]);
    }

    // min(a + step, b)
    static __device__ __forceinline__ Word lower(Word a, Word step, Word b) {
#if __CUDA_ARCH__ >= 900
        return Message::least_step(a, step, b);
#else
        return Message::least(Message::add(a, step), b);    // values up to 32767
#endif
    }

    // Least of each half.
    static __device__ __forceinline__ Word least_of(const Word (&h)[WORDS]) {
        Word part[WORDS];               // pairs, then pairs of those: no long chain
#pragma unroll
        for (int r = 0; r < WORDS; ++r) part[r] = h[r];
#pragma unroll
        for (int distance = 1; distance < WORDS; distance *= 2)
#pragma unroll
            for (int r = 0; r < WORDS; ++r)
                if (r % (2 * distance) == 0 && r + distance < WORDS)
                    part[r] = Message::least(part[r],
                                             part[r + distance < WORDS ? r + distance : 0]);
        return part[0];
    }

    // The truncated linear message from h, in place, its least value 0.
    template <bool IS_FAST>
    static __device__ __forceinline__ void message(Word (&h)[WORDS], int lane, const Steps& steps,
                                                   int reach) {
        // What lanes tell each other is on its way while they compute what they can alone.
        Word smallest = least_of(h), others = smallest, arriving = h[0];
        if constexpr (!IS_FAST && LANES == 2) {
            Word leaving[WORDS];
#pragma unroll
            for (int r = 0; r < WORDS; ++r) leaving[r] = Message::add(h[r], steps.far[r]);
            const Word nearest = least_of(leaving);
            arriving = Message::shuffle_xor(Message::least(nearest, Message::swap(nearest)), 1);
        }
#pragma unroll
        for (int i = 1; i < LANES; i *= 2) {
            others = Message::shuffle_xor(smallest, i);
            if (2 * i < LANES) smallest = Message::least(smallest, others);
        }
        if constexpr (IS_FAST)
            compare_neighbours(h, lane, steps, reach);
        else
            envelope(h, lane, steps, arriving);
        smallest = Message::least(smallest, others);
        smallest = Message::least(smallest, Message::swap(smallest));
        const Word offset = Message::offset(smallest);
#pragma unroll
        for (int r = 0; r < WORDS; ++r)
            h[r] = Message::normalise(h[r], offset, steps.truncation);
    }

    // The lower envelope within the lane, in place.
    static __device__ __forceinline__ void own_envelope(Word (&h)[WORDS], Word slope) {
#pragma unroll
        for (int r = 1; r < WORDS; ++r) h[r] = lower(h[r - 1], slope, h[r]);
        h[WORDS - 1] = lower(Message::swap(h[WORDS - 1]), slope, h[WORDS - 1]);
#pragma unroll
        for (int r = WORDS - 2; r >= 0; --r) h[r] = lower(h[r + 1], slope, h[r]);
    }

    // The lower envelope in O(D) (Felzenszwalb and Huttenlocher, section 3.1): within the lanes
    // first; then groups of lanes tell each other the values at their borders, groups of twice the
    // size each time. ``arriving``: of two lanes, the other's value at the border.
    static __device__ __forceinline__ void envelope(Word (&h)[WORDS], int lane,
                                                    const Steps& steps, Word arriving) {
        own_envelope(h, steps.slope);
        if constexpr (LANES == 2) {
#pragma unroll
            for (int r = 0; r < WORDS; ++r) h[r] = lower(arriving, steps.near[r], h[r]);
        } else if constexpr (LANES > 2) {
            Word group = h[0];              // first and last label of the group
            Word beside = h[0];             // best of what comes from the left and from the right
#pragma unroll
            for (int k = 0; k < LEVELS; ++k) {
                const Word other = Message::shuffle_xor(group, 1 << k);
                const Word nearest = Message::swap(other);
                beside = k == 0 ? Message::add(nearest, steps.edge[k])
                                : lower(nearest, steps.edge[k], beside);
                if (k + 1 < LEVELS) {
                    const Word own_first = Message::with_high(group, other);
                    const Word other_first = Message::with_high(other, group);
                    group = lane >> k & 1 ? lower(own_first, steps.span[k], other_first)
                                          : lower(other_first, steps.span[k], own_first);
                }
            }
            const Word turned = Message::swap(beside);
#pragma unroll
            for (int r = 0; r < WORDS; ++r) {
                h[r] = lower(beside, steps.near[r], h[r]);
                h[r] = lower(turned, steps.far[r], h[r]);
            }
        }
    }

    // The same where no step leads over more than ``reach`` labels: each label is compared with its
    // neighbours, and so with those further away one by one (Cheng, Liang, Lai, Chen & Chen, Fast
    // belief propagation process element, 2009).
    static __device__ __forceinline__ void compare_neighbours(Word (&h)[WORDS], int lane,
                                                              const Steps& steps, int reach) {
        const int self = threadIdx.x % 32;
#pragma unroll 1
        for (int step = 0; step < reach; ++step) {
            Word before[WORDS], beside = h[0];      // no neighbour: a label lowers nothing itself
            if constexpr (LANES > 1) {
                const Word turned = Message::swap(h[0]);
                const Word left = Message::shuffle(turned, self - 1 & 31);
                const Word right = Message::shuffle(turned, self + 1 & 31);
                beside = Message::with_high(lane > 0 ? left : h[0],
                                            lane < LANES - 1 ? right : h[0]);
            }
#pragma unroll
            for (int r = 0; r < WORDS; ++r) before[r] = h[r];
#pragma unroll
            for (int r = 0; r < WORDS; ++r) {
                h[r] = lower(r > 0 ? before[r > 0 ? r - 1 : 0] : beside, steps.slope, h[r]);
                h[r] = lower(r + 1 < WORDS ? before[r + 1 < WORDS ? r + 1 : 0]
                                           : Message::swap(before[WORDS - 1]),
                             steps.slope, h[r]);
            }
        }
    }
};

// A row of vectors that a sweep reads.
template <typename Word>
struct Line {
    const Word* at;
    int step;                       // words from one place to the next; 0 = always the same
};

// Messages passed along a line of ``count`` places: to what arrives at each are added the data cost
// and what arrives from both sides of the line. ``message``: what leaves in the end.
template <typename Message, int DISPARITIES, bool IS_FAST, bool WAITS>
__device__ __forceinline__ void sweep(
        Line<typename Message::Word> cost, Line<typename Message::Word> first,
        Line<typename Message::Word> second, typename Message::Word* arriving, int count,
        bool writes, int lane, const typename Team<Message, DISPARITIES>::Steps& steps, int reach,
        typename Message::Word (&message)[Team<Message, DISPARITIES>::WORDS]) {
    using T = Team<Message, DISPARITIES>;
    typename Message::Word next[T::WORDS];
    const auto add = [&] {
        if constexpr (WAITS) __syncthreads();
#pragma unroll
        for (int r = 0; r < T::WORDS; ++r) message[r] = Message::add(next[r], message[r]);
        if constexpr (WAITS) __syncthreads();
    };
    T::load(message, arriving);
    T::load_sum(next, cost.at, first.at, second.at);
#pragma unroll 4
    for (int place = 1; place < count; ++place) {
        add();
        cost.at += cost.step;
        first.at += first.step;
        second.at += second.step;
        arriving += cost.step;
        T::load_sum(next, cost.at, first.at, second.at);
        T::template message<IS_FAST>(message, lane, steps, reach);
        if (writes) T::store(arriving, message);
    }
    add();
    T::template message<IS_FAST>(message, lane, steps, reach);
}
