// Label selection (winner takes all), and the values beside the winner that refinement needs.
#pragma once
#include "frame/subpixel.cuh"
#include "hierarchical/beliefs.cuh"

// The least of the values that are offered, and its label; the lowest label on ties. Values are
// offered as the low and high values of word i of a chunk.
template <typename Message, int PADDED, bool ARE_PAIRS = Message::IS_WHOLE && Message::SIDES == 1>
struct LeastLabel;

// Pairs of 16-bit values: value and label in one number, the value in the upper bits.
template <typename Message, int PADDED>
struct LeastLabel<Message, PADDED, true> {
    static constexpr bool FITS_BYTES = PADDED <= 128;  // and the sign of a byte stays 0
    static constexpr int BITS = FITS_BYTES ? 8 : 9;

    // Labels of the low and of the high values of a chunk.
    struct ChunkLabels {
        uint32 low, high;
        DEVICE explicit ChunkLabels(int chunk) {
            if constexpr (FITS_BYTES) {
                low = 0x03020100u + uint32(chunk) * 0x04040404u;
                high = uint32(PADDED - 1) * 0x01010101u - low;
            } else {
                low = 4 * chunk;
                high = PADDED - 1 - 4 * chunk;
            }
        }
    };

    uint32 least = ~0u;

    DEVICE void take_low(uint32 word, ChunkLabels labels, int i) {
        // Four bytes: the label, the value, and twice the label's sign, which is 0.
        if constexpr (FITS_BYTES)
            least = min(least, permute_signed(word, labels.low, 0xc104 + 0x1001 * i));
        else least = min(least, (word & 0xffffu) << BITS | (labels.low + i));
    }
    DEVICE void take_high(uint32 word, ChunkLabels labels, int i) {
        if constexpr (FITS_BYTES)
            least = min(least, permute_signed(word, labels.high, 0xc324 + 0x1001 * i));
        else least = min(least, (word >> 16) << BITS | (labels.high - i));
    }
    DEVICE void take_other(int mask) { least = min(least, __shfl_xor_sync(~0u, least, mask)); }
    DEVICE int label() const { return least & ((1 << BITS) - 1); }
    DEVICE uint32 value() const { return least >> BITS; }
};

// Real numbers, or whole numbers of 32 bits.
template <typename Message, int PADDED>
struct LeastLabel<Message, PADDED, false> {
    struct ChunkLabels {
        int low, high;
        DEVICE explicit ChunkLabels(int chunk) : low(4 * chunk), high(PADDED - 1 - 4 * chunk) {}
    };

    using Value = typename Message::Value;
    Value least = Message::largest();
    int found = PADDED;

    DEVICE void take(Value value, int label) {
        if (value < least || (value == least && label < found)) {
            least = value;
            found = label;
        }
    }
    DEVICE void take_low(float2 word, ChunkLabels labels, int i) { take(word.x, labels.low + i); }
    DEVICE void take_high(float2 word, ChunkLabels labels, int i) {
        take(word.y, labels.high - i);
    }
    DEVICE void take_other(int mask) {
        const Value other = __shfl_xor_sync(~0u, least, mask);
        take(other, __shfl_xor_sync(~0u, found, mask));
    }
    DEVICE int label() const { return found; }
    DEVICE Value value() const { return least; }
};

// Where labels go; all arrays are H x W of the matched image, from the first pixel of level 0 on,
// but ``right`` from the first pixel of its row of the image.
struct Matches {
    short* label;           // d - min_disparity
    signed char* fraction;  // sixteenths to the vertex of the parabola, or null
    // int32 or float32, null = not wanted: the least belief, and the least one of the labels
    // further than 1 from it. Only their difference has a meaning.
    void* best;
    void* second;
    uint64* right;  // belief and label per pixel of the other image, or null
    int first_partner;   // column of the other image that pixel 0 of level 0 meets at label 0
    int first_x, end_x;  // pixels that offer their beliefs, at labels whose partner exists
    int image_width;
    int kept_left, kept_top, kept_width, kept_height;  // of level 0; the others get no label

    // Beliefs of the label ``found`` of a pixel, and of the best one further than 1 from it.
    template <int DISPARITIES, typename Value>
    DEVICE void write_costs(int at, int found, Value least, Value least_beyond) const {
        static_cast<Value*>(best)[at] = least;
        static_cast<Value*>(second)[at] = found > 1 || found < DISPARITIES - 2 ? least_beyond
                                                                               : Value(NO_SECOND);
    }
    DEVICE bool keeps(int x, int y) const {
        return unsigned(x - kept_left) < unsigned(kept_width)
            && unsigned(y - kept_top) < unsigned(kept_height);
    }
};

// Offers a belief, in the order of the values, to a pixel of the other image.
DEVICE void offer(uint64* to, uint32 belief, int label) {
    atomicMin(to, uint64(belief) << 32 | uint32(label));
}

// Selects a label from the beliefs of a node.
template <typename Message, int DISPARITIES>
struct LabelSelection {
    using V = Vector<Message, DISPARITIES>;
    using S = typename V::S;
    using Word = typename Message::Word;
    using Value = typename Message::Value;
    using Least = LeastLabel<Message, S::PADDED>;

    // The label of the node (x, y), the lowest one on ties. The lanes of its vector have the
    // beliefs in registers, right up to one constant; ``distance``: threads of the warp from one
    // lane to the next. Every thread of the warp takes part; one thread of a node writes, if the
    // node ``exists``. MORE: also the rest of Matches, for which ``node`` (a NodeBelief) reads the
    // messages again.
    template <bool MORE, typename Node>
    static DEVICE void select(const Word (&beliefs)[S::WORDS], int distance, bool exists,
                              Node& node, int x, int y, const Matches& out) {
        Least best;
#pragma unroll
        for (int j = 0; j < S::LANE_CHUNKS; ++j) {
            const typename Least::ChunkLabels labels(V::chunk(node.lane, j));
#pragma unroll
            for (int i = 0; i < 4; ++i)
                V::take(beliefs[4 * j + i], node.lane, 4 * j + i, labels, best);
        }
        finish<MORE>(beliefs, best, distance, exists, node, x, y, out);
    }

    // The same where a lane has found its ``best`` already. Only MORE needs the beliefs.
    template <bool MORE, int KNOWN, typename Node>
    static DEVICE void finish(const Word (&beliefs)[KNOWN], Least& best, int distance, bool exists,
                              Node& node, int x, int y, const Matches& out) {
        const int lane = node.lane;
        const bool writes = exists && lane == 0;
#pragma unroll
        for (int i = 1; i < S::LANES; i *= 2) best.take_other(i * distance);
        const int found = best.label();
        const int at = y * out.image_width + x;
        if (writes) out.label[at] = short(found);
        if constexpr (MORE) more(beliefs, found, best.value(), distance, exists, node, x, y, out);
    }

private:
    // The rest of Matches for the label that was found.
    template <typename Node>
    static DEVICE void more(const Word (&beliefs)[S::WORDS], int found, Value least, int distance,
                            bool exists, Node& node, int x, int y, const Matches& out) {
        const int at = y * out.image_width + x, lane = node.lane;
        if (out.fraction != nullptr) {
            const Value before = value_of(beliefs, lane, distance, found - 1);
            const Value after = value_of(beliefs, lane, distance, found + 1);
            if (exists && lane == 0)
                out.fraction[at] = found > 0 && found < DISPARITIES - 1
                    ? sixteenths(before, least, after)
                    : 0;
        }
        if (out.second != nullptr || out.right != nullptr)
            compare(node, distance, exists, found, least, x, y, out);
    }

    // The belief of one label; 0 where there is no such label.
    static DEVICE Value value_of(const Word (&beliefs)[S::WORDS], int lane, int distance,
                                 int label) {
        const int mirrored = S::PADDED - 1 - label;
        const int wanted = label < mirrored ? label : mirrored;
        Word word = Message::zero();
#pragma unroll
        for (int r = 0; r < S::WORDS; ++r)
            if (4 * V::chunk(lane, r / 4) + r % 4 == wanted) word = beliefs[r];
        Value value = V::value(word, lane, label >= mirrored);
#pragma unroll
        for (int i = 1; i < S::LANES; i *= 2) value += __shfl_xor_sync(~0u, value, i * distance);
        return value;
    }

    // The least belief, the second least, and every belief offered to its pixel of the other
    // image; each lane has labels of its vector.
    template <typename Node>
    static DEVICE void compare(Node& node, int distance, bool exists, int found, Value least,
                               int x, int y, const Matches& out) {
        const int at = y * out.image_width + x, lane = node.lane;
        const bool offers = out.right != nullptr && exists && x >= out.first_x && x < out.end_x;
        const Value constant_offset = out.right != nullptr ? node.constant_offset(distance)
                                                           : Value(0);
        uint64* const row = out.right + at + out.first_partner;
        Value second = Message::largest();
        const auto show = [&](Value value, int label) {
            if (abs(label - found) > 1 && value < second) second = value;
            // Of real numbers every label has a partner where any has: no costs are combined.
            bool has_partner = offers;
            if constexpr (Message::IS_WHOLE)
                has_partner &= unsigned(x + out.first_partner - label)
                    < unsigned(out.image_width);
            if (has_partner) offer(row - label, Message::bits(value - constant_offset), label);
        };
        node.restart();
#pragma unroll 1
        for (int j = S::LANE_CHUNKS - 1; j >= 0; --j) {
            const int c = V::chunk(lane, j);
            if (S::FILLERS != 0 && c < 0) continue;
            Word words[4];
            node.belief(c, words);
#pragma unroll
            for (int i = 3; i >= 0; --i) {
                const int label = 4 * c + i, mirrored = S::PADDED - 1 - label;
                const bool has_low = DISPARITIES >= S::PADDED / 2 || label < DISPARITIES;
                const bool has_high = S::PADS == 0 || mirrored < DISPARITIES;
                if constexpr (S::SIDES == 2) {
                    const bool is_high = V::side(lane);
                    if (is_high ? has_high : has_low) show(words[i], is_high ? mirrored : label);
                } else {
                    if (has_low) show(Message::low(words[i]), label);
                    if (has_high) show(Message::high(words[i]), mirrored);
                }
            }
        }
        if (out.second == nullptr) return;
#pragma unroll
        for (int i = 1; i < S::LANES; i *= 2)
            second = min(second, __shfl_xor_sync(~0u, second, i * distance));
        if (!exists || lane != 0) return;
        out.write_costs<DISPARITIES>(at, found, least, second);
    }
};

// The label of a node from its data cost and the four messages that arrive, if it ``exists``.
// Floats are added in the order of threads that compute DIRECTIONS messages each, so that both
// find the same label.
template <bool MORE, int DIRECTIONS, typename Message, int DISPARITIES, typename Kind,
          bool READ_ONLY>
DEVICE void select_label(NodeBelief<Message, DISPARITIES, Kind, READ_ONLY>& node,
                         Smoothness<typename Message::Word> smooth, int distance, bool exists,
                         int x, int y, const Matches& out) {
    using V = Vector<Message, DISPARITIES>;
    using S = typename V::S;
    node.bound = smooth.bound;
    exists = exists && out.keeps(x, y);
    if constexpr (S::SIDES == 2) {
        // Chunk by chunk, which frees the registers of the chunks before.
        typename Message::Word beliefs[MORE ? S::WORDS : 4];
        LeastLabel<Message, S::PADDED> best;
        node.restart();
#pragma unroll
        for (int j = S::LANE_CHUNKS - 1; j >= 0; --j) {
            const int c = V::chunk(node.lane, j);
            const typename LeastLabel<Message, S::PADDED>::ChunkLabels labels(c);
            typename Message::Word part[4];
            node.costs(c, part);
            node.template add_in_turn<DIRECTIONS>(c, j, part);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                V::take(part[i], node.lane, 4 * j + i, labels, best);
                if constexpr (MORE) beliefs[4 * j + i] = part[i];
            }
        }
        LabelSelection<Message, DISPARITIES>::template finish<MORE>(beliefs, best, distance,
                                                                    exists, node, x, y, out);
    } else {
        typename Message::Word beliefs[S::WORDS];
#pragma unroll
        for (int j = 0; j < S::LANE_CHUNKS; ++j) {
            typename Message::Word part[4];
            node.costs(V::chunk(node.lane, j), part);
#pragma unroll
            for (int i = 0; i < 4; ++i) beliefs[4 * j + i] = part[i];
        }
        if constexpr (Message::IS_WHOLE || DIRECTIONS == 4) {
#pragma unroll
            for (int direction = 0; direction < 4; ++direction)
                V::template accumulate<READ_ONLY>(node.from[direction], node.lane, smooth,
                                                  beliefs);
        } else {
#pragma unroll
            for (int j = 0; j < S::LANE_CHUNKS; ++j) {
                typename Message::Word part[4] = {beliefs[4 * j], beliefs[4 * j + 1],
                                                  beliefs[4 * j + 2], beliefs[4 * j + 3]};
                node.template add_in_turn<DIRECTIONS>(V::chunk(node.lane, j), j, part);
#pragma unroll
                for (int i = 0; i < 4; ++i) beliefs[4 * j + i] = part[i];
            }
        }
        LabelSelection<Message, DISPARITIES>::template select<MORE>(beliefs, distance, exists,
                                                                    node, x, y, out);
    }
}
