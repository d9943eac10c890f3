// From a vector of beliefs to a label and what refinement wants to know about it.
#pragma once
#include "vectors.cuh"

// The least of the values that it is shown, and its label; the lowest label on ties. Values are
// shown as the halves of a word i of a chunk.
template <typename Message, int PADDED, bool IS_INTEGER = Message::WORD_REGISTERS == 1>
struct LeastLabel;

// Integers: value and label in one number, the value above.
template <typename Message, int PADDED>
struct LeastLabel<Message, PADDED, true> {
    static constexpr bool FITS_BYTES = PADDED <= 128;   // and leaves the sign of a byte clear
    static constexpr int BITS = FITS_BYTES ? 8 : 9;

    // Labels of the low and of the high halves of a chunk.
    struct Labels {
        uint32 low, high;
        __device__ __forceinline__ explicit Labels(int chunk) {
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

    __device__ __forceinline__ void take_low(uint32 word, Labels labels, int i) {
        // Bytes: the label, the value, and the label's sign, which is 0.
        if constexpr (FITS_BYTES)
            least = min(least, permute_signed(word, labels.low, 0xc104 + 0x1001 * i));
        else
            least = min(least, (word & 0xffffu) << BITS | (labels.low + i));
    }
    __device__ __forceinline__ void take_high(uint32 word, Labels labels, int i) {
        if constexpr (FITS_BYTES)
            least = min(least, permute_signed(word, labels.high, 0xc324 + 0x1001 * i));
        else
            least = min(least, (word >> 16) << BITS | (labels.high - i));
    }
    __device__ __forceinline__ void take_other(int mask) {
        least = min(least, __shfl_xor_sync(~0u, least, mask));
    }
    __device__ __forceinline__ int label() const { return least & ((1 << BITS) - 1); }
    __device__ __forceinline__ uint32 value() const { return least >> BITS; }
};

// Real numbers.
template <typename Message, int PADDED>
struct LeastLabel<Message, PADDED, false> {
    struct Labels {
        int low, high;
        __device__ __forceinline__ explicit Labels(int chunk)
            : low(4 * chunk), high(PADDED - 1 - 4 * chunk) {}
    };

    float least = FloatWords::infinity();
    int found = PADDED;

    __device__ __forceinline__ void take(float value, int label) {
        if (value < least || (value == least && label < found)) {
            least = value;
            found = label;
        }
    }
    __device__ __forceinline__ void take_low(float2 word, Labels labels, int i) {
        take(word.x, labels.low + i);
    }
    __device__ __forceinline__ void take_high(float2 word, Labels labels, int i) {
        take(word.y, labels.high - i);
    }
    __device__ __forceinline__ void take_other(int mask) {
        const float other = __shfl_xor_sync(~0u, least, mask);
        take(other, __shfl_xor_sync(~0u, found, mask));
    }
    __device__ __forceinline__ int label() const { return found; }
    __device__ __forceinline__ float value() const { return least; }
};

// Where labels go; everything is H x W of the matched image, from the first pixel of level 0 on.
struct Matches {
    short* label;                   // d - min_disparity
    signed char* fraction;          // sixteenths to the vertex of the parabola, or null
    // int32 or float32, null = not wanted: the least belief and the least of the labels further
    // than 1 from it. Only their difference has a meaning.
    void* best;
    void* second;
    uint64* right;                  // belief and label per pixel of the other image, or null
    int min_disparity;
    int first_x, end_x;             // pixels with data cost for every disparity
    int image_width;
    int kept_left, kept_top, kept_width, kept_height;   // of level 0; the others get no label

    __device__ __forceinline__ bool keeps(int x, int y) const {
        return unsigned(x - kept_left) < unsigned(kept_width)
            && unsigned(y - kept_top) < unsigned(kept_height);
    }
};

// floor(16 (before - after) / (2 (before - 2 least + after)) + 0.5), or 0 on a flat parabola.
__device__ __forceinline__ int sixteenths(double before, double least, double after) {
    const double curvature = __dadd_rn(__dadd_rn(before, -2.0 * least), after);
    if (!(curvature > 0.0)) return 0;
    return int(floor(__dadd_rn(8.0 * (before - after) / curvature, 0.5)));
}

// The choice of a label from the beliefs of a node.
template <typename Message, int DISPARITIES>
struct Belief {
    using V = Vector<Message, DISPARITIES>;
    using S = typename V::S;
    using Word = typename Message::Word;
    using Value = typename Message::Value;
    using Least = LeastLabel<Message, S::PADDED>;

    // The label of the node (x, y), the lowest one on ties. The lanes of its vector have the
    // beliefs in registers, all of them maybe too large by one constant; ``distance``: threads of
    // the warp from one lane to the next. Every thread of the warp takes part; of a node's threads
    // one ``writes``. MORE: and what else is wanted; ``node`` is an Arriving: what few want is taken
    // from the messages once more.
    template <bool MORE, typename Node>
    static __device__ __forceinline__ void select(const Word (&beliefs)[S::WORDS], int lane,
                                                  int distance, bool writes, Node& node, int x,
                                                  int y, const Matches& out) {
        Least best;
#pragma unroll
        for (int j = 0; j < S::LANE_CHUNKS; ++j) {
            const typename Least::Labels labels(V::chunk(lane, j));
#pragma unroll
            for (int i = 0; i < 4; ++i)
                V::take(beliefs[4 * j + i], lane, 4 * j + i, labels, best);
        }
#pragma unroll
        for (int i = 1; i < S::LANES; i *= 2) best.take_other(i * distance);
        const int found = best.label();
        const int at = y * out.image_width + x;
        if (writes) out.label[at] = short(found);
        if (!MORE) return;
        if (out.fraction != nullptr) {
            const Value before = value_of(beliefs, lane, distance, found - 1);
            const Value after = value_of(beliefs, lane, distance, found + 1);
            if (writes)
                out.fraction[at] = found > 0 && found < DISPARITIES - 1
                    ? sixteenths(before, best.value(), after) : 0;
        }
        if (writes && (out.second != nullptr || out.right != nullptr))
            compare(node, found, best.value(), x, y, out);
    }

private:
    // The belief of one label, 0 where there is no such label.
    static __device__ __forceinline__ Value value_of(const Word (&beliefs)[S::WORDS], int lane,
                                                     int distance, int label) {
        const int mirrored = S::PADDED - 1 - label;
        const int wanted = label < mirrored ? label : mirrored;
        Word word = Message::zero();
#pragma unroll
        for (int r = 0; r < S::WORDS; ++r)
            if (4 * V::chunk(lane, r / 4) + r % 4 == wanted) word = beliefs[r];
        Value value = label < mirrored ? Message::low(word) : Message::high(word);
#pragma unroll
        for (int i = 1; i < S::LANES; i *= 2) value += __shfl_xor_sync(~0u, value, i * distance);
        return value;
    }

    // The least belief, the second least, and every belief offered to its pixel of the other image.
    template <typename Node>
    static __device__ __forceinline__ void compare(Node& node, int found, Value least, int x,
                                                   int y, const Matches& out) {
        const int at = y * out.image_width + x;
        const bool offers = out.right != nullptr && x >= out.first_x && x < out.end_x;
        const Value excess = offers ? node.excess() : Value(0);
        uint64* const row = out.right + at - out.min_disparity;
        Value second = Message::largest();
        node.restart();
#pragma unroll 1
        for (int c = S::CHUNKS - 1; c >= 0; --c) {
            Word words[4];
            node.belief(c, words);
#pragma unroll
            for (int i = 3; i >= 0; --i) {
                const int label = 4 * c + i, mirrored = S::PADDED - 1 - label;
                const Value low = Message::low(words[i]), high = Message::high(words[i]);
                if (DISPARITIES >= S::PADDED / 2 || label < DISPARITIES) {
                    if (abs(label - found) > 1 && low < second) second = low;
                    if (offers) offer(row - label, low - excess, label);
                }
                if (S::PADS == 0 || mirrored < DISPARITIES) {
                    if (abs(mirrored - found) > 1 && high < second) second = high;
                    if (offers) offer(row - mirrored, high - excess, mirrored);
                }
            }
        }
        if (out.second == nullptr) return;
        static_cast<Value*>(out.best)[at] = least;
        static_cast<Value*>(out.second)[at] =
            found > 1 || found < DISPARITIES - 2 ? second : Value(NO_SECOND);
    }

    static __device__ __forceinline__ void offer(uint64* at, Value belief, int label) {
        atomicMin(at, uint64(Message::bits(belief)) << 32 | uint32(label));
    }
};

// The label of a node from its data cost and the four messages that arrive. Sums of floats are made
// in the order of threads that send DIRECTIONS messages each, so that these find the same label.
template <bool MORE, int DIRECTIONS, typename Message, int DISPARITIES, typename Kind,
          bool READ_ONLY>
__device__ __forceinline__ void select_label(
        Arriving<Message, DISPARITIES, Kind, READ_ONLY>& node,
        Smoothness<typename Message::Word> smooth, int lane, int distance, bool writes, int x,
        int y, const Matches& out) {
    using V = Vector<Message, DISPARITIES>;
    using S = typename V::S;
    typename Message::Word beliefs[S::WORDS];
#pragma unroll
    for (int j = 0; j < S::LANE_CHUNKS; ++j) {
        const int c = V::chunk(lane, j);
        typename Message::Word part[4] = {Message::zero(), Message::zero(), Message::zero(),
                                          Message::zero()};
        if (S::ABSENT == 0 || c >= 0) node.cost.load(c, part);
#pragma unroll
        for (int i = 0; i < 4; ++i) beliefs[4 * j + i] = part[i];
    }
    if constexpr (Message::IS_WHOLE || DIRECTIONS == 4) {
#pragma unroll
        for (int direction = 0; direction < 4; ++direction)
            V::template accumulate<READ_ONLY>(node.from[direction], lane, smooth, beliefs);
    } else {
#pragma unroll
        for (int j = 0; j < S::LANE_CHUNKS; ++j)
            node.template add_in_turn<DIRECTIONS>(V::chunk(lane, j), j, beliefs);
    }
    node.slope = smooth.slope;
    node.bound = smooth.bound;
    Belief<Message, DISPARITIES>::template select<MORE>(
        beliefs, lane, distance, writes && lane == 0 && out.keeps(x, y), node, x, y, out);
}
