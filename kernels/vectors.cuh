// One vector over the disparities: sums, and the lower envelope that makes it a message.
#pragma once
#include "words.cuh"

enum Direction { UP, DOWN, LEFT, RIGHT };       // opposite directions differ in the last bit

__device__ __forceinline__ int column_step(int direction) {
    return (direction == RIGHT) - (direction == LEFT);
}
__device__ __forceinline__ int row_step(int direction) {
    return (direction == DOWN) - (direction == UP);
}

// Where one vector lies: its first unit, and units from one of its units to the next.
template <typename Unit>
struct Place {
    const Unit* first;
    int stride;
};

// Slope and truncation of the smoothness cost, in every part of a word.
template <typename Word>
struct Smoothness {
    Word slope, bound;
};

template <typename Message, int DISPARITIES>
struct Vector {
    using S = Shape<Message, DISPARITIES>;
    using Word = typename Message::Word;
    using Unit = typename Message::Unit;
    using From = Place<Unit>;
    static_assert(!Message::IS_DELTAS || S::LANES == 1, "differences need the whole vector");

    // Chunk of the whole vector that a lane has as its chunk j; below 0 = nothing.
    static __device__ __forceinline__ int chunk(int lane, int j) {
        return (S::LANES == 1 ? 0 : lane * S::LANE_CHUNKS) + j - S::ABSENT;
    }
    static __device__ __forceinline__ const Unit* unit(From place, int chunk) {
        return place.first + unsigned(chunk * Message::UNITS_PER_CHUNK * place.stride);
    }

    // One chunk as it is kept; READ_ONLY = in device memory that no thread of the kernel writes.
    template <bool READ_ONLY>
    static __device__ __forceinline__ Unit fetch(const Unit* at) {
        if constexpr (READ_ONLY) return __ldg(at);
        else return *at;
    }
    template <bool READ_ONLY>
    static __device__ __forceinline__ void load(const Unit* at, int stride, Word (&part)[4]) {
        Unit units[Message::UNITS_PER_CHUNK];
#pragma unroll
        for (int i = 0; i < Message::UNITS_PER_CHUNK; ++i)
            units[i] = fetch<READ_ONLY>(at + i * stride);
        Message::load(units, 1, part);
    }

    // Shows word after word of a vector of differences of 6 bits, from the middle on.
    template <bool READ_ONLY, typename Show>
    static __device__ __forceinline__ void each_sum(From place, Smoothness<Word> smooth,
                                                    const Show& show) {
        uint32 packed[4 * S::UNITS];
#pragma unroll
        for (int i = S::UNITS - 1; i >= 0; --i) {
            const Unit found = fetch<READ_ONLY>(place.first + unsigned(i * place.stride));
            packed[4 * i] = found.x;
            packed[4 * i + 1] = found.y;
            packed[4 * i + 2] = found.z;
            packed[4 * i + 3] = found.w;
        }
        Word value = smooth.bound;
#pragma unroll
        for (int first = S::WORDS - 8; first >= 0; first -= 8) {
            const int at = first / 8 * 3;
            Word found[8];
            Message::expand(packed[at], packed[at + 1], packed[at + 2], found);
#pragma unroll
            for (int i = 7; i >= 0; --i) show(first + i, value += found[i] - Message::BIAS);
        }
    }

    // words = vector; of differences, but for a constant: its middle value is the bound.
    template <bool READ_ONLY>
    static __device__ __forceinline__ void read(From place, int lane, Smoothness<Word> smooth,
                                                Word (&words)[S::WORDS]) {
        if constexpr (Message::HAS_SIX_BITS) {
            each_sum<READ_ONLY>(place, smooth, [&](int r, Word value) { words[r] = value; });
        } else if constexpr (Message::IS_DELTAS) {
            Unit units[S::CHUNKS];
#pragma unroll
            for (int c = 0; c < S::CHUNKS; ++c) units[c] = fetch<READ_ONLY>(unit(place, c));
            Word value = smooth.bound;
#pragma unroll
            for (int c = S::CHUNKS - 1; c >= 0; --c) {
                Word bytes[4];
                Message::expand(units[c], bytes);
#pragma unroll
                for (int i = 3; i >= 0; --i) words[4 * c + i] = value += bytes[i] - smooth.slope;
            }
        } else {
#pragma unroll
            for (int j = 0; j < S::LANE_CHUNKS; ++j) {
                const int c = chunk(lane, j);
                Word part[4] = {Message::zero(), Message::zero(), Message::zero(),
                                Message::zero()};
                if (S::ABSENT == 0 || c >= 0)
                    load<READ_ONLY>(unit(place, c), place.stride, part);
#pragma unroll
                for (int i = 0; i < 4; ++i) words[4 * j + i] = part[i];
            }
        }
    }

    // total += vector, as ``read`` has it.
    template <bool READ_ONLY>
    static __device__ __forceinline__ void accumulate(From place, int lane,
                                                      Smoothness<Word> smooth,
                                                      Word (&total)[S::WORDS]) {
        if constexpr (Message::HAS_SIX_BITS) {
            each_sum<READ_ONLY>(place, smooth, [&](int r, Word value) { total[r] += value; });
        } else if constexpr (Message::IS_DELTAS) {
            Word value = smooth.bound;
#pragma unroll
            for (int c = S::CHUNKS - 1; c >= 0; --c) {
                Word bytes[4];
                Message::expand(fetch<READ_ONLY>(unit(place, c)), bytes);
#pragma unroll
                for (int i = 3; i >= 0; --i)
                    total[4 * c + i] += value += bytes[i] - smooth.slope;
            }
        } else {
#pragma unroll
            for (int j = 0; j < S::LANE_CHUNKS; ++j) {
                const int c = chunk(lane, j);
                if (S::ABSENT != 0 && c < 0) continue;
                Word part[4];
                load<READ_ONLY>(unit(place, c), place.stride, part);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    total[4 * j + i] = Message::add(total[4 * j + i], part[i]);
            }
        }
    }

    // part = the chunk c of a vector, the chunk after it known to ``next``: for chunks that are
    // read one after the other, from the last one on.
    static __device__ __forceinline__ void next_chunk(const Unit (&units)[Message::UNITS_PER_CHUNK],
                                                      Word slope, Word& next, Word (&part)[4]) {
        if constexpr (Message::IS_DELTAS) {
            Word bytes[4];
            Message::expand(units[0], bytes);
#pragma unroll
            for (int i = 3; i >= 0; --i) part[i] = next += bytes[i] - slope;
        } else {
            Message::load(units, 1, part);
        }
    }

    static __device__ __forceinline__ void store(const Word (&words)[S::WORDS], int lane,
                                                 Word slope, Unit* to, int stride) {
        if constexpr (Message::HAS_SIX_BITS) {
            uint32 packed[4 * S::UNITS];
#pragma unroll
            for (int first = 0; first < S::WORDS; first += 8) {
                Word part[8];
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    part[i] = words[first + i] - after(words, first + i) + Message::BIAS;
                const int at = first / 8 * 3;
                Message::shrink(part, packed[at], packed[at + 1], packed[at + 2]);
            }
#pragma unroll
            for (int i = 0; i < S::UNITS; ++i)
                to[i * stride] = make_uint4(packed[4 * i], packed[4 * i + 1], packed[4 * i + 2],
                                            packed[4 * i + 3]);
        } else {
#pragma unroll
            for (int j = 0; j < S::LANE_CHUNKS; ++j) {
                const int c = chunk(lane, j);
                if (S::ABSENT != 0 && c < 0) continue;
                Word part[4];
                if constexpr (Message::IS_DELTAS) {
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        part[i] = words[4 * j + i] - after(words, 4 * j + i) + slope;
                    to[c * stride] = Message::shrink(part);
                } else {
#pragma unroll
                    for (int i = 0; i < 4; ++i) part[i] = words[4 * j + i];
                    Message::store(to + c * Message::UNITS_PER_CHUNK * stride, stride, part);
                }
            }
        }
    }

    // The word after word r on the way to the middle, where both halves meet.
    static __device__ __forceinline__ Word after(const Word (&words)[S::WORDS], int r) {
        if constexpr (!Message::IS_DELTAS) return words[r];
        else return r + 1 < S::WORDS ? words[r + 1 < S::WORDS ? r + 1 : 0]
                                     : __byte_perm(words[r], 0, 0x1010);
    }

    // Word r of a lane stands for labels in both halves, in the low one only, or in none.
    static __device__ __forceinline__ bool is_absent(int lane, int r) {
        // Ranges of 2 and 3 labels end in the low half of their only chunk.
        if (S::LANES == 1 && r >= DISPARITIES) return true;
        return S::ABSENT != 0 && chunk(lane, r / 4) < 0;
    }
    static __device__ __forceinline__ bool is_pad(int lane, int r) {
        if (S::PADS == 0 || (S::LANES == 1 && r >= S::PADS)) return false;
        const int c = chunk(lane, r / 4);
        return c < 2 && 4 * c + r % 4 < S::PADS;
    }

    // Shows the labels of word r of a lane to ``best``.
    template <typename Least>
    static __device__ __forceinline__ void take(Word word, int lane, int r,
                                                typename Least::Labels labels, Least& best) {
        if (is_absent(lane, r)) return;
        best.take_low(word, labels, r % 4);
        if (!is_pad(lane, r)) best.take_high(word, labels, r % 4);
    }

    // The truncated linear message from h, in place, its least value 0 (Felzenszwalb and
    // Huttenlocher, section 3.1): the least of h subtracted and the truncation applied first,
    // which changes nothing, as the envelope of min(h, bound) is the envelope of h cut there.
    // ``distance``: threads of the warp from one lane of a vector to the next.
    static __device__ __forceinline__ void envelope(Word (&h)[S::WORDS], int lane,
                                                    int distance,
                                                    Smoothness<Word> smooth) {
        const Word slope = smooth.slope, truncation = smooth.bound;
        Word smallest = Message::dropped();
#pragma unroll
        for (int r = 0; r < S::WORDS; ++r) {
            if (is_absent(lane, r)) continue;
            const Word kept = is_pad(lane, r) ? Message::drop_high(h[r]) : h[r];
            smallest = Message::least(smallest, kept);
        }
        smallest = Message::least(smallest, Message::swap(smallest));
#pragma unroll
        for (int i = 1; i < S::LANES; i *= 2)
            smallest = Message::least(
                smallest, Message::shuffle_xor(smallest, i * distance));
        const Word offset = Message::offset(smallest);
#pragma unroll
        for (int r = 0; r < S::WORDS; ++r) {
            h[r] = Message::normalise(h[r], offset, truncation);
            if (is_pad(lane, r)) h[r] = Message::with_high(h[r], truncation);
            if (is_absent(lane, r)) h[r] = truncation;
        }
        // Passing on a value twice changes nothing, so that lanes wait for each other by
        // repeating their part until the value of the farthest lane has arrived.
        const int self = threadIdx.x % 32;
        Word carry = truncation;
#pragma unroll 1
        for (int turn = 0; turn < S::LANES; ++turn) {
            h[0] = Message::least_step(carry, slope, h[0]);
#pragma unroll
            for (int r = 1; r < S::WORDS; ++r) h[r] = Message::least_step(h[r - 1], slope, h[r]);
            if (S::LANES > 1) {
                carry = Message::shuffle(h[S::WORDS - 1], self - distance & 31);
                if (lane == 0) carry = truncation;
            }
        }
        carry = truncation;
        if (S::LANES == 1 || lane == S::LANES - 1) carry = Message::swap(h[S::WORDS - 1]);
        const Word middle = carry;
#pragma unroll 1
        for (int turn = 0; turn < S::LANES; ++turn) {
            h[S::WORDS - 1] = Message::least_step(carry, slope, h[S::WORDS - 1]);
#pragma unroll
            for (int r = S::WORDS - 2; r >= 0; --r)
                h[r] = Message::least_step(h[r + 1], slope, h[r]);
            if (S::LANES > 1) {
                carry = Message::shuffle(h[0], self + distance & 31);
                if (lane == S::LANES - 1) carry = middle;
            }
        }
    }
};

// Data cost of a node, kept as KIND: Bytes or a message type.
template <typename Kind, int DISPARITIES>
struct Cost {
    using V = Vector<Kind, DISPARITIES>;
    using Word = typename Kind::Word;
    using Unit = typename Kind::Unit;
    static constexpr int UNITS = Shape<Kind, DISPARITIES>::UNITS;
    static constexpr bool IS_SMALL = sizeof(Unit) < 16;     // and the unit of a chunk is kept
    const Unit* first;
    int half;
    uint32 factor;                  // of Nibbles; of Multiples, as the pattern of a float

    // The node (x, y), whose colour is (x + y) % 2.
    __device__ __forceinline__ Cost(const void* cost, int half, uint32 factor, int x, int y)
        : first(static_cast<const Unit*>(cost) + size_t(2 * y + ((x + y) & 1)) * UNITS * half
                + (x >> 1)), half(half), factor(factor) {}
    __device__ __forceinline__ void load(int chunk, Word (&part)[4]) const {
        if constexpr (IS_SMALL)
            expand(unit(chunk), factor, true, part);
        else
            V::template load<true>(V::unit({first, half}, chunk), half, part);
    }
    __device__ __forceinline__ Unit unit(int chunk) const {
        return __ldg(first + unsigned(chunk * half));
    }
    // The words of a unit where it is wanted, else zeros.
    static __device__ __forceinline__ void expand(uint2 bytes, uint32, bool is_wanted,
                                                  uint32 (&part)[4]) {
        const uint32 even = is_wanted ? 0x4140 : 0x4444, odd = is_wanted ? 0x4342 : 0x4444;
        part[0] = __byte_perm(bytes.x, 0, even);
        part[1] = __byte_perm(bytes.x, 0, odd);
        part[2] = __byte_perm(bytes.y, 0, even);
        part[3] = __byte_perm(bytes.y, 0, odd);
    }
    static __device__ __forceinline__ void expand(uint2 bytes, uint32 factor, bool is_wanted,
                                                  float2 (&part)[4]) {
        // 2^23 + b has the byte b as its last one. Of its product nothing is rounded but b's own.
        const float one = __uint_as_float(factor), shift = -8388608.0f * one;
        const uint32 words[2] = {is_wanted ? bytes.x : 0, is_wanted ? bytes.y : 0};
        const auto product = [&](int i) {
            const uint32 shifted = __byte_perm(words[i / 4], 0x4b000000u, 0x7440 + i % 4);
            return __fmaf_rn(__uint_as_float(shifted), one, shift);
        };
#pragma unroll
        for (int i = 0; i < 4; ++i) part[i] = make_float2(product(2 * i), product(2 * i + 1));
    }
    static __device__ __forceinline__ void expand(uint32 nibbles, uint32 factor, bool is_wanted,
                                                  uint32 (&part)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            part[i] = (nibbles >> 4 * i & 0x000f000fu) * (is_wanted ? factor : 0);
    }
};

// The beliefs of one node, chunk by chunk from the last one on: its data cost plus the four
// messages that arrive.
template <typename Message, int DISPARITIES, typename Kind, bool READ_ONLY>
struct Arriving {
    using V = Vector<Message, DISPARITIES>;
    using S = typename V::S;
    using Word = typename Message::Word;
    using Unit = typename Message::Unit;
    Cost<Kind, DISPARITIES> cost;
    typename V::From from[4];
    Word slope, bound;
    Word next[4];                   // last value of each message

    __device__ __forceinline__ void restart() {
#pragma unroll
        for (int direction = 0; direction < 4; ++direction) next[direction] = bound;
    }
    __device__ __forceinline__ Unit unit(int direction, int index) const {
        return V::template fetch<READ_ONLY>(
            from[direction].first + unsigned(index * from[direction].stride));
    }
    __device__ __forceinline__ void message(int direction, int chunk, Word (&part)[4]) {
        if constexpr (Message::HAS_SIX_BITS) {
            uint32 packed[3];
#pragma unroll
            for (int i = 0; i < 3; ++i) {
                const int at = chunk / 2 * 3 + i;
                packed[i] = reinterpret_cast<const uint32*>(
                    from[direction].first + unsigned(at / 4 * from[direction].stride))[at % 4];
            }
            Word found[8];
            Message::expand(packed[0], packed[1], packed[2], found);
#pragma unroll
            for (int i = 3; i >= 0; --i)
                part[i] = next[direction] += (chunk % 2 ? found[4 + i] : found[i])
                    - Message::BIAS;
        } else {
            constexpr int N = Message::UNITS_PER_CHUNK;
            Unit units[N];
#pragma unroll
            for (int i = 0; i < N; ++i) units[i] = unit(direction, N * chunk + i);
            V::next_chunk(units, slope, next[direction], part);
        }
    }
    __device__ __forceinline__ void belief(int chunk, Word (&words)[4]) {
        cost.load(chunk, words);
#pragma unroll
        for (int direction = 0; direction < 4; ++direction) {
            Word part[4];
            message(direction, chunk, part);
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = Message::add(words[i], part[i]);
        }
    }
    // Adds a chunk of the messages to its costs, chunk j of ``sums``: as 4 / DIRECTIONS senders do,
    // which take turns with the costs, each its own messages first.
    template <int DIRECTIONS>
    __device__ __forceinline__ void add_in_turn(int chunk, int j, Word (&sums)[S::WORDS]) const {
        constexpr int SENDERS = 4 / DIRECTIONS;
        if (S::ABSENT != 0 && chunk < 0) return;
        Word parts[SENDERS][4];
#pragma unroll
        for (int direction = 0; direction < 4; ++direction) {
            const int sender = direction / DIRECTIONS;
            Word arrived[4];
            V::template load<READ_ONLY>(V::unit(from[direction], chunk), from[direction].stride,
                                        arrived);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                Word& part = parts[sender][i];
                if (direction % DIRECTIONS > 0) part = Message::add(part, arrived[i]);
                else if (j % SENDERS == sender) part = Message::add(sums[4 * j + i], arrived[i]);
                else part = arrived[i];
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            Word sum = Message::add(parts[0][i], parts[1][i]);
            if constexpr (SENDERS == 4)
                sum = Message::add(sum, Message::add(parts[2][i], parts[3][i]));
            sums[4 * j + i] = sum;
        }
    }
    // What the beliefs are too large by: each message's least value, which is 0 where it is kept
    // as it is.
    __device__ __forceinline__ typename Message::Value excess() {
        if constexpr (!Message::IS_DELTAS) {
            return 0;
        } else {
            restart();
            Word least[4] = {Message::dropped(), Message::dropped(), Message::dropped(),
                             Message::dropped()};
#pragma unroll 1
            for (int c = S::CHUNKS - 1; c >= 0; --c) {
#pragma unroll
                for (int direction = 0; direction < 4; ++direction) {
                    Word part[4];
                    message(direction, c, part);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const bool is_pad = S::PADS != 0 && 4 * c + i < S::PADS;
                        least[direction] = Message::least(
                            least[direction], is_pad ? Message::drop_high(part[i]) : part[i]);
                    }
                }
            }
            typename Message::Value sum = 0;
#pragma unroll
            for (int direction = 0; direction < 4; ++direction)
                sum += Message::low(Message::least(least[direction],
                                                   Message::swap(least[direction])));
            return sum;
        }
    }
};
