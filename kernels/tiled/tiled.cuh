// Shared by the kernels of tiled belief propagation: arguments, vectors over teams of lanes,
// sweeps.
#pragma once
#include "hierarchical/labels.cuh"
#include "hierarchical/cost.cuh"
#include "tiled/exchange.cuh"

// Planes of a tile: its data cost, and the messages that arrive from each side.
enum Plane { COST, FROM_LEFT, FROM_RIGHT, FROM_ABOVE, FROM_BELOW, PLANES };

struct TiledLaunch {
    CostLaunch cost;   // of level 0; the other levels are null
    uint32* edges[4];  // by Direction: messages over edges, [row][column][place][word]
    uint32* state;     // counters, see kernels/tiled.md
    Matches out;
    int rows, columns;           // tiles
    int outer, inner;            // iterations
    int slope, truncation, pad;  // int16: of the smoothness; cost of a padded label
    float float_slope, float_truncation, float_pad;
    uint64* stamp;  // time at which the stage starts, ns
};

// Costs that are whole multiples of the difference.
struct WholeCost {
    using Element = uint8;
    static DEVICE uint32 weight(const CostLaunch& p, bool has_evidence) {
        return has_evidence ? p.packed_factor : 0;
    }
    static DEVICE uint32 of(const CostLaunch& p, uint32 weight, uint32 own, uint32 other) {
        return weight * min(uint32(abs(int(own) - int(other))), p.packed_truncation & 0xff);
    }
    static DEVICE uint32 word(uint32 low, uint32 high) { return low | high << 16; }
    // The same for LABELS labels of a pixel, as words of a team, four bytes at a time. ``others``:
    // the pixel that label 0 meets; the next labels meet those before it. Words without any of
    // these bytes are not read.
    template <int LABELS>
    static DEVICE void of_row(const CostLaunch& p, bool has_evidence, uint8 own,
                              const uint8* others, uint32 (&costs)[LABELS / 2]) {
        constexpr int WORDS = LABELS / 4;
        const uint64 first = reinterpret_cast<uint64>(others - (LABELS - 1));
        const uint32* const aligned = reinterpret_cast<const uint32*>(first & ~uint64(3));
        const int shift = int(first & 3) * 8;
        uint32 met[WORDS + 1], differences[WORDS];
#pragma unroll
        for (int i = 0; i <= WORDS; ++i)
            met[i] = has_evidence ? __ldg(aligned + (i < WORDS || shift > 0 ? i : i - 1)) : 0;
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
            differences[i] = __vabsdiffu4(own * 0x01010101u,
                                          __funnelshift_r(met[i], met[i + 1], shift));
        const uint32 most = (p.packed_truncation & 0xff) * 0x00010001u;
        const uint32 factor = weight(p, has_evidence);
#pragma unroll
        for (int r = 0; r < LABELS / 2; ++r) {
            // Labels fall from byte to byte.
            constexpr int LAST = LABELS - 1;
            const uint32 both = __byte_perm(differences[(LAST - r) / 4], differences[r / 4],
                                            (LAST - r) % 4 | (4 + r % 4) << 8)
                & 0x00ff00ffu;
            costs[r] = Int16::least(both, most) * factor;
        }
    }
};

template <> struct SingleCost<FOUR_AT_ONCE> { using Type = WholeCost; };

// One vector over the disparities, dealt out to the lanes of a team. A lane has LABELS labels in a
// row. Its word r holds the label r of these (low) and its mirror image LABELS - 1 - r (high), so
// that word 0 holds the first and the last of them. Labels beyond the range cost ``pad``. REACH:
// labels that a step may cross before it costs the truncation.
template <typename Message, int DISPARITIES, int REACH>
struct LabelTeam {
    using Word = typename Message::Word;
    using Value = typename Message::Value;
    static constexpr int CHUNKS = (DISPARITIES + 7) / 8;
    static constexpr int LANES = power_of_two_from(CHUNKS);
    static constexpr int WORDS = (DISPARITIES + 2 * LANES - 1) / (2 * LANES);
    static constexpr int LABELS = 2 * WORDS;
    static constexpr int PIXEL = LANES * WORDS;  // words of a vector
    static constexpr int TEAMS = 32 / LANES;     // of a warp
    static constexpr int LEVELS = logarithm_of(LANES);
    static constexpr int REGISTERS = WORDS * Message::WORD_REGISTERS;
    // Rounds of so many warps until each of so many lines has had a team.
    static __device__ constexpr int rounds(int lines, int warps) {
        return (lines + warps * TEAMS - 1) / (warps * TEAMS);
    }
    // Two lanes: words that the other lane's labels can lower. If these are not all, the value of
    // such a word that is further away stays as it is.
    static constexpr int NEAR = REACH <= WORDS ? REACH : WORDS;
    static constexpr bool IS_NEAR = REACH <= WORDS;
    // Added to data costs on chip, so that every sum is above 0: see ``offset_of_equal``.
    static constexpr uint32 ABOVE_COST = Message::IS_WHOLE ? 0x00010001u : 0;

    // Steps of the smoothness cost, none above the truncation, which bounds all values anyway.
    struct Steps {
        Word slope, truncation;
        // More than two lanes: steps from beside the lane to a word and to its mirror image. Two
        // lanes: from the other lane's nearest label to a word, and from a word to the nearest
        // label.
        Word near[WORDS], far[WORDS];
        Word edge[LEVELS + 1];  // from the neighbouring group to beside the lane
        Word span[LEVELS + 1];  // over a group of 1, 2, 4 ... lanes
    };

    static DEVICE typename Message::Parameter step_over(const TiledLaunch& p, int labels) {
        if constexpr (Message::WORD_REGISTERS == 1) return min(labels * p.slope, p.truncation);
        else return fminf(labels * p.float_slope, p.float_truncation);
    }
    static DEVICE Steps steps(const TiledLaunch& p, int lane) {
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

    static DEVICE void load(Word (&words)[WORDS], const Word* at) {
        copy_registers<REGISTERS>(reinterpret_cast<uint32*>(words),
                                  reinterpret_cast<const uint32*>(at));
    }
    static DEVICE void store(Word* at, const Word (&words)[WORDS]) {
        copy_registers<REGISTERS>(reinterpret_cast<uint32*>(at),
                                  reinterpret_cast<const uint32*>(words));
    }
    static DEVICE bool are_equal(const Word (&a)[WORDS], const Word (&b)[WORDS]) {
        uint32 differences = 0;
#pragma unroll
        for (int r = 0; r < REGISTERS; ++r)
            differences |= reinterpret_cast<const uint32*>(a)[r]
                ^ reinterpret_cast<const uint32*>(b)[r];
        return differences == 0;
    }
    static DEVICE void clear(Word (&words)[WORDS]) {
#pragma unroll
        for (int r = 0; r < WORDS; ++r) words[r] = Message::zero();
    }

    // min(a + step, b)
    static DEVICE Word lower(Word a, Word step, Word b) {
#if __CUDA_ARCH__ >= 900
        return Message::least_step(a, step, b);
#else
        return Message::least(Message::add(a, step), b);  // values up to 32767
#endif
    }

    // Minimum of the low and of the high values.
    static DEVICE Word least_of(const Word (&h)[WORDS]) {
        Word part[WORDS];  // three at a time, for a short chain
#pragma unroll
        for (int r = 0; r < WORDS; ++r) part[r] = h[r];
#pragma unroll
        for (int distance = 1; distance < WORDS; distance *= 3)
#pragma unroll
            for (int r = 0; r < WORDS; r += 3 * distance) {
                const Word b = part[r + distance < WORDS ? r + distance : 0];
                const Word c = part[r + 2 * distance < WORDS ? r + 2 * distance : 0];
                if (r + 2 * distance < WORDS) part[r] = Message::least(part[r], b, c);
                else if (r + distance < WORDS) part[r] = Message::least(part[r], b);
            }
        return part[0];
    }

    // Two lanes: the value that can lower the other lane's nearest label, at distance 0 from the
    // border.
    static DEVICE Word leaving(const Word (&h)[WORDS], const Steps& steps) {
        if constexpr (IS_NEAR) {
            Word nearest = h[NEAR > 0 ? NEAR - 1 : 0];
#pragma unroll
            for (int r = NEAR - 2; r >= 0; --r) nearest = lower(nearest, steps.slope, h[r]);
            return Message::swap(nearest);
        } else {
            Word all[WORDS];
#pragma unroll
            for (int r = 0; r < WORDS; ++r) all[r] = Message::add(h[r], steps.far[r]);
            const Word nearest = least_of(all);
            return Message::least(nearest, Message::swap(nearest));
        }
    }

    // The truncated linear message from h, in place, its least value 0. Lanes exchange values as
    // soon as they can. Then ``meanwhile`` is called, with a number that is 0 but known only after
    // that.
    template <bool IS_FAST, typename Meanwhile>
    static DEVICE void message(Word (&h)[WORDS], int lane, const Steps& steps,
                               const Meanwhile& meanwhile) {
        Word smallest = least_of(h), others = smallest, arriving = h[0];
        if constexpr (LANES > 1) others = Message::shuffle_xor(smallest, 1);
        if constexpr (LANES == 2 && !IS_FAST && NEAR > 0) {
            const Word sent = leaving(h, steps);
            arriving = Message::shuffle_xor(sent, 1);
            meanwhile(Message::zero_after(sent));
        } else {
            meanwhile(Message::zero_after(smallest));
        }
        Word own = smallest;
        if constexpr (LANES == 2) own = Message::least(smallest, Message::swap(smallest));
#pragma unroll
        for (int i = 2; i < LANES; i *= 2) {
            own = Message::least(own, others);
            others = Message::shuffle_xor(own, i);
        }
        if constexpr (IS_FAST) compare_neighbours(h, lane, steps);
        else envelope(h, lane, steps, arriving);
        if constexpr (LANES == 2) {
            smallest = Message::least(own, others, Message::swap(others));
        } else {
            smallest = Message::least(own, others);
            smallest = Message::least(smallest, Message::swap(smallest));
        }
        const Word offset = Message::offset_of_equal(smallest);
#pragma unroll
        for (int r = 0; r < WORDS; ++r) h[r] = Message::normalise(h[r], offset, steps.truncation);
    }

    // The lower envelope within the lane, in place.
    static DEVICE void own_envelope(Word (&h)[WORDS], Word slope) {
#pragma unroll
        for (int r = 1; r < WORDS; ++r) h[r] = lower(h[r - 1], slope, h[r]);
        h[WORDS - 1] = lower(Message::swap(h[WORDS - 1]), slope, h[WORDS - 1]);
#pragma unroll
        for (int r = WORDS - 2; r >= 0; --r) h[r] = lower(h[r + 1], slope, h[r]);
    }

    // The lower envelope in O(D) (Felzenszwalb and Huttenlocher, section 3.1): within the lanes
    // first; then groups of lanes exchange the values at their borders, groups of twice the size
    // each time. ``arriving``: of two lanes, the other's value at the border.
    static DEVICE void envelope(Word (&h)[WORDS], int lane, const Steps& steps, Word arriving) {
        own_envelope(h, steps.slope);
        if constexpr (LANES == 2) {
#pragma unroll
            for (int r = 0; r < NEAR; ++r) h[r] = lower(arriving, steps.near[r], h[r]);
        } else if constexpr (LANES > 2) {
            Word group = h[0];   // first and last label of the group
            Word beside = h[0];  // best value from the left and from the right
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

    // The same where a step crosses at most REACH labels: each label is compared with its
    // neighbours, and so step by step with those further away (Cheng, Liang, Lai, Chen & Chen,
    // Fast belief propagation process element, 2009).
    static DEVICE void compare_neighbours(Word (&h)[WORDS], int lane, const Steps& steps) {
        const int self = threadIdx.x % 32;
#pragma unroll 1
        for (int step = 0; step < REACH; ++step) {
            Word before[WORDS], beside = h[0];  // without a neighbour: the label itself
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

// Passes messages along a line of ``count`` places. At each place the message that arrives, the
// data cost at ``cost`` and the messages from the SIDES of the line (at ``first`` and ``second``)
// are added; STEP words lie between two places. The message that arrives at the first place lies
// at ``arriving``, and those that arrive at the others are left there. ``message``: the one that
// leaves in the end. A long line has the instruction cache to itself. It saves conditions: it
// reads behind its end, and writes the message at its first place back, which no other thread may
// read.
template <typename Message, int DISPARITIES, int REACH, bool IS_FAST, bool WAITS, int SIDES,
          int STEP, bool IS_LONG>
DEVICE void sweep(
    const typename Message::Word* cost, const typename Message::Word* first,
    const typename Message::Word* second, typename Message::Word* arriving, int count, bool writes,
    int lane, const typename LabelTeam<Message, DISPARITIES, REACH>::Steps& steps,
    typename Message::Word (&message)[LabelTeam<Message, DISPARITIES, REACH>::WORDS]) {
    using T = LabelTeam<Message, DISPARITIES, REACH>;
    using Word = typename Message::Word;
    Word lines[3][T::WORDS], h[T::WORDS];
    const auto load = [&](int at) {
        T::load(lines[0], cost + at);
        if constexpr (SIDES > 0) T::load(lines[1], first + at);
        if constexpr (SIDES > 1) T::load(lines[2], second + at);
    };
    T::clear(message);
    if (!IS_LONG || writes) T::load(message, arriving);
    load(0);
#pragma unroll(IS_LONG ? 6 : 1)
    for (int place = 1; place <= count; ++place) {
        if constexpr (WAITS) __syncthreads();
#pragma unroll
        for (int r = 0; r < T::WORDS; ++r) {
            Word next = lines[0][r];
            if constexpr (SIDES > 0) next = Message::add(next, lines[1][r]);
            if constexpr (SIDES > 1) next = Message::add(next, lines[2][r]);
            h[r] = Message::add(next, message[r]);
        }
        if constexpr (WAITS) __syncthreads();
        // Shuffles share one queue with loads and stores, so these come after them.
        T::template message<IS_FAST>(h, lane, steps, [&](uint32 zero) {
            if (IS_LONG || place < count) load(int(zero) + STEP);
            if (writes && (IS_LONG || place > 1)) T::store(arriving + zero, message);
        });
#pragma unroll
        for (int r = 0; r < T::WORDS; ++r) message[r] = h[r];
        cost += STEP;
        if constexpr (SIDES > 0) first += STEP;
        if constexpr (SIDES > 1) second += STEP;
        arriving += STEP;
    }
}
