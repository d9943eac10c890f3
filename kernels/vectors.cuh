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
    using Value = typename Message::Value;
    using Unit = typename Message::Unit;
    using From = Place<Unit>;
    static_assert(!Message::IS_DELTAS || S::PARTS == 1, "differences need all that follow");

    // The side and the part of a vector that a lane has.
    static __device__ __forceinline__ int side(int lane) {
        return S::SIDES == 1 ? 0 : lane / S::PARTS;
    }
    static __device__ __forceinline__ int part_of(int lane) {
        return S::PARTS == 1 ? 0 : lane % S::PARTS;
    }
    // Chunk of the whole vector that a lane has as its chunk j; below 0 = nothing.
    static __device__ __forceinline__ int chunk(int lane, int j) {
        return (S::PARTS == 1 ? 0 : part_of(lane) * S::LANE_CHUNKS) + j - S::ABSENT;
    }
    static __device__ __forceinline__ const Unit* unit(From place, int chunk) {
        return place.first + unsigned(chunk * Message::UNITS_PER_CHUNK * place.stride);
    }

    // A chunk, or a side of one.
    template <bool READ_ONLY>
    static __device__ __forceinline__ void load(const Unit* at, int stride, int lane,
                                                Word (&part)[4]) {
        if constexpr (S::SIDES == 2) {
            Message::template load<READ_ONLY>(at, stride, side(lane), part);
        } else {
            Unit units[Message::UNITS_PER_CHUNK];
#pragma unroll
            for (int i = 0; i < Message::UNITS_PER_CHUNK; ++i)
                units[i] = fetch<READ_ONLY>(at + i * stride);
            Message::load(units, 1, part);
        }
    }
    // What a lane has of a chunk of differences.
    template <bool READ_ONLY>
    static __device__ __forceinline__ uint2 differences(From place, int chunk, int lane) {
        return fetch<READ_ONLY>(reinterpret_cast<const uint2*>(unit(place, chunk)) + side(lane));
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
            uint2 found[S::CHUNKS];
#pragma unroll
            for (int c = 0; c < S::CHUNKS; ++c)
                found[c] = differences<READ_ONLY>(place, c, lane);
            auto value = Message::begin(smooth.bound);
#pragma unroll
            for (int c = S::CHUNKS - 1; c >= 0; --c) {
                Word part[4];
                Message::follow(found[c], smooth.slope, value, part);
#pragma unroll
                for (int i = 0; i < 4; ++i) words[4 * c + i] = part[i];
            }
        } else {
#pragma unroll
            for (int j = 0; j < S::LANE_CHUNKS; ++j) {
                const int c = chunk(lane, j);
                Word part[4] = {Message::zero(), Message::zero(), Message::zero(),
                                Message::zero()};
                if (S::ABSENT == 0 || c >= 0)
                    load<READ_ONLY>(unit(place, c), place.stride, lane, part);
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
            auto value = Message::begin(smooth.bound);
#pragma unroll
            for (int c = S::CHUNKS - 1; c >= 0; --c) {
                Word part[4];
                Message::follow(differences<READ_ONLY>(place, c, lane), smooth.slope, value, part);
#pragma unroll
                for (int i = 3; i >= 0; --i)
                    total[4 * c + i] = Message::add(total[4 * c + i], part[i]);
            }
        } else {
#pragma unroll
            for (int j = 0; j < S::LANE_CHUNKS; ++j) {
                const int c = chunk(lane, j);
                if (S::ABSENT != 0 && c < 0) continue;
                Word part[4];
                load<READ_ONLY>(unit(place, c), place.stride, lane, part);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    total[4 * j + i] = Message::add(total[4 * j + i], part[i]);
            }
        }
    }

    // ``middle``: as ``envelope`` returns it.
    static __device__ __forceinline__ void store(const Word (&words)[S::WORDS], Word middle,
                                                 int lane, Word slope, Unit* to, int stride) {
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
        } else if constexpr (Message::IS_DELTAS && S::SIDES == 2) {
            auto value = Message::begin(middle);
#pragma unroll
            for (int c = S::CHUNKS - 1; c >= 0; --c) {
                const Word part[4] = {words[4 * c], words[4 * c + 1], words[4 * c + 2],
                                      words[4 * c + 3]};
                reinterpret_cast<uint2*>(to + c * stride)[side(lane)] =
                    Message::lead(part, value);
            }
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
                    Unit* const at = to + c * Message::UNITS_PER_CHUNK * stride;
                    if constexpr (S::SIDES == 2) Message::store(at, stride, side(lane), part);
                    else Message::store(at, stride, part);
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
        if (S::PADS == 0 || (S::PARTS == 1 && r >= S::PADS)) return false;
        const int c = chunk(lane, r / 4);
        return c < 2 && 4 * c + r % 4 < S::PADS;
    }

    // A word without the label beyond the range in it; PAD is what it has there.
    static __device__ __forceinline__ Word without_pad(Word word, int lane) {
        if constexpr (S::SIDES == 2) return side(lane) ? Message::dropped() : word;
        else return Message::drop_high(word);
    }
    static __device__ __forceinline__ Word with_pad(Word word, Word pad, int lane) {
        if constexpr (S::SIDES == 2) return side(lane) ? pad : word;
        else return Message::with_high(word, pad);
    }

    // The value of one side of a word, 0 where the lane does not have it.
    static __device__ __forceinline__ Value value(Word word, int lane, bool is_high) {
        if constexpr (S::SIDES == 2) return side(lane) == is_high ? word : Value(0);
        else return is_high ? Message::high(word) : Message::low(word);
    }

    // Shows the labels of word r of a lane to ``best``.
    template <typename Least>
    static __device__ __forceinline__ void take(Word word, int lane, int r,
                                                typename Least::Labels labels, Least& best) {
        if (is_absent(lane, r)) return;
        if constexpr (S::SIDES == 2) {
            if (is_pad(lane, r) && side(lane)) return;
            const int label = 4 * chunk(lane, r / 4) + r % 4;
            best.take(word, side(lane) ? S::PADDED - 1 - label : label);
        } else {
            best.take_low(word, labels, r % 4);
            if (!is_pad(lane, r)) best.take_high(word, labels, r % 4);
        }
    }

    // The truncated linear message from h, in place, its least value 0 (Felzenszwalb and
    // Huttenlocher, section 3.1): the least of h subtracted and the truncation applied first,
    // which changes nothing, as the envelope of min(h, bound) is the envelope of h cut there.
    // ``distance``: threads of the warp from one lane of a vector to the next. Returns the value of
    // the lower label in the middle, to lanes of one side that have the last part.
    static __device__ __forceinline__ Word envelope(Word (&h)[S::WORDS], int lane,
                                                    int distance,
                                                    Smoothness<Word> smooth) {
        const Word slope = smooth.slope, truncation = smooth.bound;
        Word smallest = Message::dropped();
        const auto kept = [&](int r) {
            return is_pad(lane, r) ? without_pad(h[r], lane) : h[r];
        };
        if constexpr (S::SIDES == 2) {
#pragma unroll
            for (int r = 0; r < S::WORDS; r += 2)
                if (!is_absent(lane, r))
                    smallest = Message::least(smallest, kept(r), kept(r + 1));
        } else {
#pragma unroll
            for (int r = 0; r < S::WORDS; ++r)
                if (!is_absent(lane, r)) smallest = Message::least(smallest, kept(r));
            smallest = Message::least(smallest, Message::swap(smallest));
        }
#pragma unroll
        for (int i = 1; i < S::LANES; i *= 2)
            smallest = Message::least(
                smallest, Message::shuffle_xor(smallest, i * distance));
        const Word offset = Message::offset(smallest);
#pragma unroll
        for (int r = 0; r < S::WORDS; ++r) {
            h[r] = Message::normalise(h[r], offset, truncation);
            if (is_pad(lane, r)) h[r] = with_pad(h[r], truncation, lane);
            if (is_absent(lane, r)) h[r] = truncation;
        }
        // Passing on a value twice changes nothing, so that parts wait for each other by
        // repeating theirs until the value of the farthest one has arrived.
        const int self = threadIdx.x % 32, part = part_of(lane);
        Word carry = truncation;
#pragma unroll 1
        for (int turn = 0; turn < S::PARTS; ++turn) {
            h[0] = Message::least_step(carry, slope, h[0]);
#pragma unroll
            for (int r = 1; r < S::WORDS; ++r) h[r] = Message::least_step(h[r - 1], slope, h[r]);
            if (S::PARTS > 1) {
                carry = Message::shuffle(h[S::WORDS - 1], self - distance & 31);
                if (part == 0) carry = truncation;
            }
        }
        carry = truncation;
        Word lower = h[S::WORDS - 1];
        if constexpr (S::SIDES == 2) {
            const Word other = Message::shuffle_xor(lower, S::PARTS * distance);
            if (part == S::PARTS - 1) carry = other;
            if (side(lane)) lower = Message::least_step(lower, slope, other);
        } else {
            if (S::PARTS == 1 || part == S::PARTS - 1) carry = Message::swap(lower);
        }
        const Word middle = carry;
#pragma unroll 1
        for (int turn = 0; turn < S::PARTS; ++turn) {
            h[S::WORDS - 1] = Message::least_step(carry, slope, h[S::WORDS - 1]);
#pragma unroll
            for (int r = S::WORDS - 2; r >= 0; --r)
                h[r] = Message::least_step(h[r + 1], slope, h[r]);
            if (S::PARTS > 1) {
                carry = Message::shuffle(h[0], self + distance & 31);
                if (part == S::PARTS - 1) carry = middle;
            }
        }
        return side(lane) ? lower : h[S::WORDS - 1];
    }
};

// Data cost of a node, kept as Kind: Bytes, Nibbles, multiples, or a message type.
template <typename Kind, int DISPARITIES>
struct Cost {
    using V = Vector<Kind, DISPARITIES>;
    using Word = typename Conditional<Kind::IS_SCALED, float2, typename Kind::Word>::Type;
    using Unit = typename Kind::Unit;
    using Side = typename Conditional<sizeof(Unit) == 16, uint2, uint32>::Type;
    static constexpr int UNITS = Shape<Kind, DISPARITIES>::UNITS;
    // The unit of a chunk is kept until its words are wanted.
    static constexpr bool IS_SMALL = sizeof(Unit) < 16 || Kind::IS_SCALED;
    const Unit* first;
    int half;
    uint32 factor;                  // of Nibbles; of multiples, as the pattern of a float

    // The node (x, y), whose colour is (x + y) % 2.
    __device__ __forceinline__ Cost(const void* cost, int half, uint32 factor, int x, int y)
        : first(static_cast<const Unit*>(cost) + size_t(2 * y + ((x + y) & 1)) * UNITS * half
                + (x >> 1)), half(half), factor(factor) {}
    __device__ __forceinline__ void load(int chunk, Word (&part)[4]) const {
        if constexpr (IS_SMALL)
            expand(unit(chunk), factor, true, part);
        else
            V::template load<true>(V::unit({first, half}, chunk), half, 0, part);
    }
    // The same of one side, as floats or as whole numbers.
    template <typename Value>
    __device__ __forceinline__ void load(int chunk, int side, Value (&part)[4]) const {
        if constexpr (IS_SMALL) {
            expand(one_side(unit(chunk), side), factor, true, part);
        } else {
            Word both[4];
            load(chunk, both);
#pragma unroll
            for (int i = 0; i < 4; ++i) convert(side ? both[i].y : both[i].x, part[i]);
        }
    }
    static __device__ __forceinline__ void convert(float cost, float& value) { value = cost; }
    static __device__ __forceinline__ void convert(float cost, int& value) {
        value = __float2int_rn(cost);
    }
    __device__ __forceinline__ Unit unit(int chunk) const {
        return __ldg(first + unsigned(chunk * half));
    }
    // What of a unit belongs to one side.
    static __device__ __forceinline__ uint32 one_side(uint2 bytes, int side) {
        return __byte_perm(bytes.x, bytes.y, side ? 0x7531 : 0x6420);
    }
    static __device__ __forceinline__ uint2 one_side(uint4 sums, int side) {
        const uint32 selectors = side ? 0x7632 : 0x5410;
        return make_uint2(__byte_perm(sums.x, sums.y, selectors),
                          __byte_perm(sums.z, sums.w, selectors));
    }
    // The words of a unit, or of one side of it, where it is wanted, else zeros.
    static __device__ __forceinline__ void expand(uint2 bytes, uint32, bool is_wanted,
                                                  uint32 (&part)[4]) {
        const uint32 even = is_wanted ? 0x4140 : 0x4444, odd = is_wanted ? 0x4342 : 0x4444;
        part[0] = __byte_perm(bytes.x, 0, even);
        part[1] = __byte_perm(bytes.x, 0, odd);
        part[2] = __byte_perm(bytes.y, 0, even);
        part[3] = __byte_perm(bytes.y, 0, odd);
    }
    static __device__ __forceinline__ void expand(uint32 nibbles, uint32 factor, bool is_wanted,
                                                  uint32 (&part)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            part[i] = (nibbles >> 4 * i & 0x000f000fu) * (is_wanted ? factor : 0);
    }
    static __device__ __forceinline__ void expand(uint2 bytes, uint32 factor, bool is_wanted,
                                                  float2 (&part)[4]) {
        const uint32 words[2] = {is_wanted ? bytes.x : 0, is_wanted ? bytes.y : 0};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            part[i] = make_float2(product(words[i / 2], 0x7440 + 2 * i % 4, factor),
                                  product(words[i / 2], 0x7440 + (2 * i + 1) % 4, factor));
    }
    static __device__ __forceinline__ void expand(uint4 sums, uint32 factor, bool is_wanted,
                                                  float2 (&part)[4]) {
        const uint32 words[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            part[i] = make_float2(product(is_wanted ? words[i] : 0, 0x7410, factor),
                                  product(is_wanted ? words[i] : 0, 0x7432, factor));
    }
    template <typename Value>
    static __device__ __forceinline__ void expand(uint2 sums, uint32 factor, bool is_wanted,
                                                  Value (&part)[4]) {
        const uint32 words[2] = {is_wanted ? sums.x : 0, is_wanted ? sums.y : 0};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            convert(product(words[i / 2], i % 2 ? 0x7432 : 0x7410, factor), part[i]);
    }
    static __device__ __forceinline__ void expand(uint32 bytes, uint32 factor, bool is_wanted,
                                                  float (&part)[4]) {
        if (!is_wanted) bytes = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) part[i] = product(bytes, 0x7440 + i, factor);
    }
    static __device__ __forceinline__ void expand(uint32 bytes, uint32 factor, bool is_wanted,
                                                  int (&part)[4]) {
        // Up to 2^22, the products are the low bits of their sums with 1.5 * 2^23.
        constexpr uint32 ONE_AND_A_HALF = 0x4b400000;
        if (!is_wanted) bytes = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float sum = __fmaf_rn(shifted(bytes, 0x7440 + i) - 8388608.0f,
                                        __uint_as_float(factor),
                                        __uint_as_float(ONE_AND_A_HALF));
            part[i] = __float_as_uint(sum) - ONE_AND_A_HALF;
        }
    }

private:
    // 2^23 + b has the bytes b that ``selectors`` take as its last ones.
    static __device__ __forceinline__ float shifted(uint32 word, uint32 selectors) {
        return __uint_as_float(__byte_perm(word, 0x4b000000u, selectors));
    }
    // b times the factor; nothing is rounded but this.
    static __device__ __forceinline__ float product(uint32 word, uint32 selectors,
                                                    uint32 factor) {
        const float one = __uint_as_float(factor);
        return __fmaf_rn(shifted(word, selectors), one, -8388608.0f * one);
    }
};

// What one lane has of the beliefs of a node, chunk by chunk from the last one on: its data cost plus
// the four messages that arrive.
template <typename Message, int DISPARITIES, typename Kind, bool READ_ONLY>
struct Arriving {
    using V = Vector<Message, DISPARITIES>;
    using S = typename V::S;
    using Word = typename Message::Word;
    using Unit = typename Message::Unit;
    using Value = typename Message::Value;
    Cost<Kind, DISPARITIES> cost;
    int lane;
    typename V::From from[4];
    Word slope, bound;
    typename Message::Running next[4];      // last value of each message

    __device__ __forceinline__ void restart() {
        if constexpr (Message::IS_DELTAS) {
#pragma unroll
            for (int direction = 0; direction < 4; ++direction)
                next[direction] = Message::begin(bound);
        }
    }
    __device__ __forceinline__ void message(int direction, int chunk, Word (&part)[4]) {
        const typename V::From place = from[direction];
        if constexpr (Message::HAS_SIX_BITS) {
            uint32 packed[3];
#pragma unroll
            for (int i = 0; i < 3; ++i) {
                const int at = chunk / 2 * 3 + i;
                packed[i] = reinterpret_cast<const uint32*>(
                    place.first + unsigned(at / 4 * place.stride))[at % 4];
            }
            Word found[8];
            Message::expand(packed[0], packed[1], packed[2], found);
#pragma unroll
            for (int i = 3; i >= 0; --i)
                part[i] = next[direction] += (chunk % 2 ? found[4 + i] : found[i])
                    - Message::BIAS;
        } else if constexpr (Message::IS_DELTAS) {
            Message::follow(V::template differences<READ_ONLY>(place, chunk, lane), slope,
                            next[direction], part);
        } else {
            V::template load<READ_ONLY>(V::unit(place, chunk), place.stride, lane, part);
        }
    }
    __device__ __forceinline__ void costs(int chunk, Word (&words)[4]) const {
        if (S::ABSENT != 0 && chunk < 0) {
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = Message::zero();
            return;
        }
        if constexpr (S::SIDES == 2) cost.load(chunk, V::side(lane), words);
        else cost.load(chunk, words);
    }
    __device__ __forceinline__ void belief(int chunk, Word (&words)[4]) {
        costs(chunk, words);
#pragma unroll
        for (int direction = 0; direction < 4; ++direction) {
            Word part[4];
            message(direction, chunk, part);
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = Message::add(words[i], part[i]);
        }
    }
    // Adds the messages to the costs of a chunk, a lane's chunk j: as 4 / DIRECTIONS senders do, which
    // take turns with the costs, each its own messages first.
    template <int DIRECTIONS>
    __device__ __forceinline__ void add_in_turn(int chunk, int j, Word (&sums)[4]) {
        constexpr int SENDERS = 4 / DIRECTIONS;
        if (S::ABSENT != 0 && chunk < 0) return;
        Word parts[SENDERS][4];
#pragma unroll
        for (int direction = 0; direction < 4; ++direction) {
            const int sender = direction / DIRECTIONS;
            Word arrived[4];
            message(direction, chunk, arrived);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                Word& part = parts[sender][i];
                if (direction % DIRECTIONS > 0) part = Message::add(part, arrived[i]);
                else if (j % SENDERS == sender) part = Message::add(sums[i], arrived[i]);
                else part = arrived[i];
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            Word sum = parts[0][i];
            if constexpr (SENDERS > 1) sum = Message::add(sum, parts[1][i]);
            if constexpr (SENDERS == 4)
                sum = Message::add(sum, Message::add(parts[2][i], parts[3][i]));
            sums[i] = sum;
        }
    }
    // What the beliefs are too large by: each message's least value, which is 0 where it is kept
    // as it is. ``distance``: threads of the warp from one lane to the next, all of which ask.
    __device__ __forceinline__ Value excess(int distance) {
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
                            least[direction], is_pad ? V::without_pad(part[i], lane) : part[i]);
                    }
                }
            }
            Value sum = 0;
#pragma unroll
            for (int direction = 0; direction < 4; ++direction) {
                Word one = least[direction];
                if constexpr (S::SIDES == 2) {
                    sum += Message::least(one, Message::shuffle_xor(one, distance));
                } else {
                    sum += Message::low(Message::least(one, Message::swap(one)));
                }
            }
            return sum;
        }
    }
};
