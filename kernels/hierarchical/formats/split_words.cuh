// What all formats share whose vectors are split over two lanes: side 0 has the lower labels, side
// 1 their mirror images, and a word is one value.
#pragma once
#include "device.cuh"

template <typename Number>
struct SplitWords {
    using Word = Number;
    using Value = Number;
    using Running = Number;
    using Parameter = Number;
    static constexpr int WORD_REGISTERS = 1, SIDES = 2;
    static constexpr bool HAS_SIX_BITS = false;

    static DEVICE Word zero() { return 0; }
    static DEVICE Word splat(Parameter value) { return value; }
    static DEVICE Word add(Word a, Word b) { return a + b; }
    static DEVICE Word subtract(Word a, Word b) { return a - b; }
    static DEVICE Word shuffle_xor(Word a, int mask) { return __shfl_xor_sync(~0u, a, mask); }
    static DEVICE Word shuffle(Word a, int lane) { return __shfl_sync(~0u, a, lane); }
};
