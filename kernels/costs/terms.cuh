// What a combined data cost is the sum of.
#pragma once
#include "device.cuh"

// floor(w min(distance, bound) + 1/2), w in 64ths.
struct Term {
    int weight, bound;
};

DEVICE uint32 cost_of(Term term, int distance) {
    return uint32(term.weight * min(distance, term.bound) + 32) >> 6;
}
