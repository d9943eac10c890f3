// One vector over the disparities: where it lies, and how a lane reads, adds and writes its part.
#pragma once
#include "hierarchical/shape.cuh"

enum Direction { UP, DOWN, LEFT, RIGHT };  // opposite directions differ in the last bit

DEVICE int column_step(int direction) { return (direction == RIGHT) - (direction == LEFT); }
DEVICE int row_step(int direction) { return (direction == DOWN) - (direction == UP); }

// Where one vector lies: its first unit, and units from one of its units to the next.
template <typename Unit>
struct Place {
    const Unit* first;
    int stride;
};

// Slope and truncation of the smoothness cost, in every value of a word. ``first_step``, and the
// truncation across an edge of the image, are those of a FirstStep alone.
template <typename Word>
struct Smoothness {
    Word slope, bound, first_step, edge_bound;
};

template <typename Message, int DISPARITIES>
struct Vector {
    using S = Shape<Message, DISPARITIES>;
    using Word = typename Message::Word;
    using Value = typename Message::Value;
    using Unit = typename Message::Unit;
    using From = Place<Unit>;
    static_assert(!Message::IS_DELTAS || S::PARTS == 1, "differences need all that follow");

    // The side and the part of a vector that belong to a lane.
    static DEVICE int side(int lane) { return S::SIDES == 1 ? 0 : lane / S::PARTS; }
    static DEVICE int part_of(int lane) { return S::PARTS == 1 ? 0 : lane % S::PARTS; }
    // Number in the whole vector of a lane's chunk j; below 0: it holds no label.
    static DEVICE int chunk(int lane, int j) {
        return (S::PARTS == 1 ? 0 : part_of(lane) * S::LANE_CHUNKS) + j - S::FILLERS;
    }
    static DEVICE const Unit* unit(From place, int chunk) {
        return place.first + unsigned(chunk * Message::UNITS_PER_CHUNK * place.stride);
    }

    // A chunk, or one side of it.
    template <bool READ_ONLY>
    static DEVICE void load(const Unit* at, int stride, int lane, Word (&part)[4]) {
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
    // A lane's share of a chunk of differences.
    template <bool READ_ONLY>
    static DEVICE uint2 differences(From place, int chunk, int lane) {
        return fetch<READ_ONLY>(reinterpret_cast<const uint2*>(unit(place, chunk)) + side(lane));
    }

    // Calls show(r, word) for each word of a vector of 6-bit differences, from the middle on.
    template <bool READ_ONLY, typename Show>
    static DEVICE void each_sum(From place, Smoothness<Word> smooth, const Show& show) {
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

    // words = vector. Of differences the middle value is taken to be the bound: the vector is
    // right up to a constant.
    template <bool READ_ONLY>
    static DEVICE void read(From place, int lane, Smoothness<Word> smooth,
                            Word (&words)[S::WORDS]) {
        if constexpr (Message::HAS_SIX_BITS) {
            each_sum<READ_ONLY>(place, smooth, [&](int r, Word value) { words[r] = value; });
        } else if constexpr (Message::IS_DELTAS) {
            uint2 found[S::CHUNKS];
#pragma unroll
            for (int c = 0; c < S::CHUNKS; ++c) found[c] = differences<READ_ONLY>(place, c, lane);
            auto value = Message::begin(smooth.bound);
#pragma unroll
            for (int c = S::CHUNKS - 1; c >= 0; --c) {
                Word part[4];
                Message::follow(found[c], value, part);
#pragma unroll
                for (int i = 0; i < 4; ++i) words[4 * c + i] = part[i];
            }
        } else {
#pragma unroll
            for (int j = 0; j < S::LANE_CHUNKS; ++j) {
                const int c = chunk(lane, j);
                Word part[4] = {Message::zero(), Message::zero(), Message::zero(),
                                Message::zero()};
                if (S::FILLERS == 0 || c >= 0)
                    load<READ_ONLY>(unit(place, c), place.stride, lane, part);
#pragma unroll
                for (int i = 0; i < 4; ++i) words[4 * j + i] = part[i];
            }
        }
    }

    // total += vector, as ``read`` returns it.
    template <bool READ_ONLY>
    static DEVICE void accumulate(From place, int lane, Smoothness<Word> smooth,
                                  Word (&total)[S::WORDS]) {
        if constexpr (Message::HAS_SIX_BITS) {
            each_sum<READ_ONLY>(place, smooth, [&](int r, Word value) { total[r] += value; });
        } else if constexpr (Message::IS_DELTAS) {
            auto value = Message::begin(smooth.bound);
#pragma unroll
            for (int c = S::CHUNKS - 1; c >= 0; --c) {
                Word part[4];
                Message::follow(differences<READ_ONLY>(place, c, lane), value, part);
#pragma unroll
                for (int i = 3; i >= 0; --i)
                    total[4 * c + i] = Message::add(total[4 * c + i], part[i]);
            }
        } else {
#pragma unroll
            for (int j = 0; j < S::LANE_CHUNKS; ++j) {
                const int c = chunk(lane, j);
                if (S::FILLERS != 0 && c < 0) continue;
                Word part[4];
                load<READ_ONLY>(unit(place, c), place.stride, lane, part);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    total[4 * j + i] = Message::add(total[4 * j + i], part[i]);
            }
        }
    }

    // Writes a vector; ``middle``: the result of ``Envelope::compute``.
    static DEVICE void store(const Word (&words)[S::WORDS], Word middle, int lane, Unit* to,
                             int stride) {
        if constexpr (Message::HAS_SIX_BITS) {
            uint32 packed[4 * S::UNITS];
#pragma unroll
            for (int first = 0; first < S::WORDS; first += 8) {
                Word part[8];
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    part[i] = words[first + i] - after(words, first + i) + Message::BIAS;
                const int at = first / 8 * 3;
                Message::pack(part, packed[at], packed[at + 1], packed[at + 2]);
            }
#pragma unroll
            for (int i = 0; i < S::UNITS; ++i)
                to[i * stride] = make_uint4(packed[4 * i], packed[4 * i + 1], packed[4 * i + 2],
                                            packed[4 * i + 3]);
        } else if constexpr (Message::IS_DELTAS) {
            auto value = Message::begin(middle);
#pragma unroll
            for (int c = S::CHUNKS - 1; c >= 0; --c) {
                const Word part[4] = {words[4 * c], words[4 * c + 1], words[4 * c + 2],
                                      words[4 * c + 3]};
                reinterpret_cast<uint2*>(to + c * stride)[side(lane)] = Message::lead(part, value);
            }
        } else {
#pragma unroll
            for (int j = 0; j < S::LANE_CHUNKS; ++j) {
                const int c = chunk(lane, j);
                if (S::FILLERS != 0 && c < 0) continue;
                Word part[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) part[i] = words[4 * j + i];
                Unit* const at = to + c * Message::UNITS_PER_CHUNK * stride;
                if constexpr (S::SIDES == 2) Message::store(at, stride, side(lane), part);
                else Message::store(at, stride, part);
            }
        }
    }

    // The word after word r on the way to the middle of the range, where low and high values meet.
    static DEVICE Word after(const Word (&words)[S::WORDS], int r) {
        return r + 1 < S::WORDS ? words[r + 1 < S::WORDS ? r + 1 : 0]
                                : __byte_perm(words[r], 0, 0x1010);
    }

    // Word r of a lane holds labels in both values, in the low one alone (a pad), or none (a
    // filler).
    static DEVICE bool is_filler(int lane, int r) {
        // Ranges of 2 and 3 labels end in the low values of their only chunk.
        if (S::LANES == 1 && r >= DISPARITIES) return true;
        return S::FILLERS != 0 && chunk(lane, r / 4) < 0;
    }
    static DEVICE bool is_pad(int lane, int r) {
        if (S::PADS == 0 || (S::PARTS == 1 && r >= S::PADS)) return false;
        const int c = chunk(lane, r / 4);
        return c < 2 && 4 * c + r % 4 < S::PADS;
    }

    // A word whose label beyond the range is above all others, or replaced by ``pad``.
    static DEVICE Word without_pad(Word word, int lane) {
        if constexpr (S::SIDES == 2) return side(lane) ? Message::masked() : word;
        else return Message::mask_high(word);
    }
    static DEVICE Word with_pad(Word word, Word pad, int lane) {
        if constexpr (S::SIDES == 2) return side(lane) ? pad : word;
        else return Message::with_high(word, pad);
    }

    // One value of a word; 0 in the lane of the other side.
    static DEVICE Value value(Word word, int lane, bool is_high) {
        if constexpr (S::SIDES == 2) return side(lane) == is_high ? word : Value(0);
        else return is_high ? Message::high(word) : Message::low(word);
    }

    // Offers the labels of word r of a lane to ``best``.
    template <typename Least>
    static DEVICE void take(Word word, int lane, int r, typename Least::ChunkLabels labels,
                            Least& best) {
        if (is_filler(lane, r)) return;
        if constexpr (S::SIDES == 2) {
            if (is_pad(lane, r) && side(lane)) return;
            const int label = 4 * chunk(lane, r / 4) + r % 4;
            best.take(word, side(lane) ? S::PADDED - 1 - label : label);
        } else {
            best.take_low(word, labels, r % 4);
            if (!is_pad(lane, r)) best.take_high(word, labels, r % 4);
        }
    }
};
