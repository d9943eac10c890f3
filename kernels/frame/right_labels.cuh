// Keys that pixels of the left image offer to those of the right one: a cost above a label. The
// least key wins: it is the least cost with the lowest label.
#pragma once
#include "device.cuh"

template <typename Key> struct RightKey;

// Belief propagation: 32 bits of belief, 32 bits of label.
template <> struct RightKey<uint64> { static constexpr uint64 NONE = ~0ull, LABEL_MASK = 0xffff; };

// Block matching: a SAD above 9 bits of label.
template <> struct RightKey<uint32> {
    static constexpr int LABEL_BITS = 9;
    static constexpr uint32 NONE = ~0u, LABEL_MASK = (1u << LABEL_BITS) - 1;
};
