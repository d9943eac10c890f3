// From a vector of beliefs to a label and what refinement wants to know about it.
#pragma once
#include "vectors.cuh"

// ``second`` of integer messages where no label is further than 1 from the best.
constexpr int NO_SECOND = 0x7fffffff;

// Where labels go; everything is H x W of the matched image.
struct Matches {
    short* label;                   // d - min_disparity
    signed char* fraction;          // sixteenths to the vertex of the parabola
    // int32 or float32, null = not wanted: the least belief and the least of the labels further
    // than 1 from it. Only their difference has a meaning.
    void* best;
    void* second;
    uint64* right;                  // belief and label per pixel of the other image, or null
    int min_disparity;
    int first_x, end_x;             // pixels with data cost for every disparity
};

// floor(16 (before - after) / (2 (before - 2 least + after)) + 0.5), or 0 on a flat parabola.
__device__ __forceinline__ int sixteenths(double before, double least, double after) {
    const double curvature = __dadd_rn(__dadd_rn(before, -2.0 * least), after);
    if (!(curvature > 0.0)) return 0;
    return int(floor(__dadd_rn(8.0 * (before - after) / curvature, 0.5)));
}

template <typename Message, int DISPARITIES>
struct Belief {
    using S = Shape<Message, DISPARITIES>;
    using Word = typename Message::Word;
    using Value = typename Message::Value;

    // The label of the node (x, y), the lowest one on ties. ``node`` is an Arriving: the beliefs
    // are not kept, as registers are few; what needs the label before it can look at them asks
    // for them once more.
    template <typename Node>
    static __device__ __forceinline__ void select(Node& node, int x, int y, int width,
                                                  const Matches& out) {
        // From the middle of the range outwards: labels fall in the low halves and rise in the
        // high ones.
        Value least = Message::largest(), least_high = least, last = 0, last_high = 0;
        Value before = 0, after = 0, before_high = 0, after_high = 0;
        int found = -2, found_high = -2;
        node.restart();
#pragma unroll 4
        for (int c = S::CHUNKS - 1; c >= 0; --c) {
            Word words[4];
            node.belief(c, words);
            if (c == S::CHUNKS - 1) {
                last = Message::high(words[3]);
                last_high = Message::low(words[3]);
            }
#pragma unroll
            for (int i = 3; i >= 0; --i) {
                const int label = 4 * c + i, mirrored = S::PADDED - 1 - label;
                const Value low = Message::low(words[i]), high = Message::high(words[i]);
                if (DISPARITIES >= S::PADDED / 2 || label < DISPARITIES) {
                    if (label == found - 1) before = low;
                    if (low <= least) {
                        least = low;
                        found = label;
                        after = last;
                    }
                    last = low;
                }
                if (S::PADS == 0 || mirrored < DISPARITIES) {
                    if (mirrored == found_high + 1) after_high = high;
                    if (high < least_high) {
                        least_high = high;
                        found_high = mirrored;
                        before_high = last_high;
                    }
                    last_high = high;
                }
            }
        }
        if (least_high < least) {
            least = least_high;
            found = found_high;
            before = before_high;
            after = after_high;
        }
        const int at = y * width + x;
        out.label[at] = short(found);
        out.fraction[at] = found > 0 && found < DISPARITIES - 1
            ? sixteenths(before, least, after) : 0;
        if (out.second == nullptr && out.right == nullptr) return;

        Value second = Message::largest();
        const bool offers = out.right != nullptr && x >= out.first_x && x < out.end_x;
        const Value excess = offers ? node.excess() : Value(0);
        uint64* const row = out.right + y * width + x - out.min_disparity;
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
        if (out.second != nullptr) {
            static_cast<Value*>(out.best)[at] = least;
            static_cast<Value*>(out.second)[at] =
                found > 1 || found < DISPARITIES - 2 ? second : Value(NO_SECOND);
        }
    }

    static __device__ __forceinline__ void offer(uint64* at, Value belief, int label) {
        atomicMin(at, uint64(Message::bits(belief)) << 32 | uint32(label));
    }
};
