// Arithmetic of all formats that compute in float32: a whole vector in one lane, or split over
// two.
#pragma once
#include "hierarchical/formats/split_words.cuh"

// A word is two float32 registers: the low value and the high one.
struct FloatWords {
    using Word = float2;
    using Value = float;
    using Running = Word;
    using Parameter = float;
    using Unit = uint4;
    static constexpr int WORD_REGISTERS = 2, SIDES = 1;
    static constexpr bool IS_DELTAS = false, HAS_SIX_BITS = false;
    static constexpr bool IS_WHOLE = false, IS_SCALED = false;

    static DEVICE float infinity() { return __int_as_float(0x7f800000); }
    static DEVICE Word zero() { return make_float2(0.0f, 0.0f); }
    static DEVICE Value largest() { return infinity(); }
    static DEVICE Word splat(Parameter value) { return make_float2(value, value); }
    static DEVICE Word add(Word a, Word b) { return make_float2(a.x + b.x, a.y + b.y); }
    static DEVICE Word subtract(Word a, Word b) { return make_float2(a.x - b.x, a.y - b.y); }
    static DEVICE Word swap(Word a) { return make_float2(a.y, a.x); }
    static DEVICE Value low(Word a) { return a.x; }
    static DEVICE Value high(Word a) { return a.y; }
    static DEVICE Word mask_high(Word a) { return make_float2(a.x, infinity()); }
    static DEVICE Word masked() { return make_float2(infinity(), infinity()); }
    static DEVICE Word with_high(Word a, Word b) { return make_float2(a.x, b.y); }
    static DEVICE Word least(Word a, Word b) {
        return make_float2(fminf(a.x, b.x), fminf(a.y, b.y));
    }
    static DEVICE Word least(Word a, Word b, Word c) { return least(least(a, b), c); }
    static DEVICE Word least_step(Word a, Word step, Word b) {
        return make_float2(fminf(a.x + step.x, b.x), fminf(a.y + step.y, b.y));
    }
    static DEVICE Word offset(Word smallest) { return smallest; }
    static DEVICE Word offset_of_equal(Word smallest) { return smallest; }
    static DEVICE uint32 zero_after(Word a) { return __float_as_uint(a.x) >> 31; }
    static DEVICE Word normalise(Word h, Word offset, Word truncation) {
        return least(subtract(h, offset), truncation);
    }
    static DEVICE Word shuffle_xor(Word a, int mask) {
        return make_float2(__shfl_xor_sync(~0u, a.x, mask), __shfl_xor_sync(~0u, a.y, mask));
    }
    static DEVICE Word shuffle(Word a, int lane) {
        return make_float2(__shfl_sync(~0u, a.x, lane), __shfl_sync(~0u, a.y, lane));
    }
    // Beliefs are at least 0, so their bit patterns are in the order of their values.
    static DEVICE uint32 bits(Value value) { return __float_as_uint(fmaxf(value, 0.0f)); }
};

// In memory every chunk has the four values of side 0 before those of side 1.
struct SplitFloat : SplitWords<float> {
    static constexpr bool IS_DELTAS = false, IS_WHOLE = false;

    static DEVICE Value largest() { return FloatWords::infinity(); }
    static DEVICE Word masked() { return FloatWords::infinity(); }
    static DEVICE Word least(Word a, Word b) { return fminf(a, b); }
    static DEVICE Word least(Word a, Word b, Word c) { return fminf(fminf(a, b), c); }
    static DEVICE Word least_step(Word a, Word step, Word b) { return fminf(a + step, b); }
    static DEVICE Word offset(Word smallest) { return smallest; }
    static DEVICE Word normalise(Word h, Word offset, Word truncation) {
        return fminf(h - offset, truncation);
    }
    static DEVICE uint32 bits(Value value) { return FloatWords::bits(value); }
};
