// Arithmetic of all formats that compute in float32: a whole vector in one lane, or split over
// two.
#pragma once
#include "device.cuh"

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

    static __device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
    static __device__ __forceinline__ Word zero() { return make_float2(0.0f, 0.0f); }
    static __device__ __forceinline__ Value largest() { return infinity(); }
    static __device__ __forceinline__ Word splat(Parameter value) {
        return make_float2(value, value);
    }
    static __device__ __forceinline__ Word add(Word a, Word b) {
        return make_float2(a.x + b.x, a.y + b.y);
    }
    static __device__ __forceinline__ Word subtract(Word a, Word b) {
        return make_float2(a.x - b.x, a.y - b.y);
    }
    static __device__ __forceinline__ Word swap(Word a) { return make_float2(a.y, a.x); }
    static __device__ __forceinline__ Value low(Word a) { return a.x; }
    static __device__ __forceinline__ Value high(Word a) { return a.y; }
    static __device__ __forceinline__ Word mask_high(Word a) {
        return make_float2(a.x, infinity());
    }
    static __device__ __forceinline__ Word masked() { return make_float2(infinity(), infinity()); }
    static __device__ __forceinline__ Word with_high(Word a, Word b) {
        return make_float2(a.x, b.y);
    }
    static __device__ __forceinline__ Word least(Word a, Word b) {
        return make_float2(fminf(a.x, b.x), fminf(a.y, b.y));
    }
    static __device__ __forceinline__ Word least(Word a, Word b, Word c) {
        return least(least(a, b), c);
    }
    static __device__ __forceinline__ Word least_step(Word a, Word step, Word b) {
        return make_float2(fminf(a.x + step.x, b.x), fminf(a.y + step.y, b.y));
    }
    static __device__ __forceinline__ Word offset(Word smallest) { return smallest; }
    static __device__ __forceinline__ Word offset_of_equal(Word smallest) { return smallest; }
    static __device__ __forceinline__ uint32 zero_after(Word a) {
        return __float_as_uint(a.x) >> 31;
    }
    static __device__ __forceinline__ Word normalise(Word h, Word offset, Word truncation) {
        return least(subtract(h, offset), truncation);
    }
    static __device__ __forceinline__ Word shuffle_xor(Word a, int mask) {
        return make_float2(__shfl_xor_sync(~0u, a.x, mask), __shfl_xor_sync(~0u, a.y, mask));
    }
    static __device__ __forceinline__ Word shuffle(Word a, int lane) {
        return make_float2(__shfl_sync(~0u, a.x, lane), __shfl_sync(~0u, a.y, lane));
    }
    // Beliefs are at least 0, so their bit patterns are in the order of their values.
    static __device__ __forceinline__ uint32 bits(Value value) {
        return __float_as_uint(fmaxf(value, 0.0f));
    }
};

// A vector is split over two lanes. Side 0 has the lower labels, side 1 their mirror images, and a
// word is one value. In memory every chunk has the four values of side 0 before those of side 1.
struct SplitFloat {
    using Word = float;
    using Value = float;
    using Running = Word;
    using Parameter = float;
    static constexpr int WORD_REGISTERS = 1, SIDES = 2;
    static constexpr bool IS_DELTAS = false, HAS_SIX_BITS = false, IS_WHOLE = false;

    static __device__ __forceinline__ Word zero() { return 0.0f; }
    static __device__ __forceinline__ Value largest() { return FloatWords::infinity(); }
    static __device__ __forceinline__ Word splat(Parameter value) { return value; }
    static __device__ __forceinline__ Word add(Word a, Word b) { return a + b; }
    static __device__ __forceinline__ Word subtract(Word a, Word b) { return a - b; }
    static __device__ __forceinline__ Word masked() { return FloatWords::infinity(); }
    static __device__ __forceinline__ Word least(Word a, Word b) { return fminf(a, b); }
    static __device__ __forceinline__ Word least(Word a, Word b, Word c) {
        return fminf(fminf(a, b), c);
    }
    static __device__ __forceinline__ Word least_step(Word a, Word step, Word b) {
        return fminf(a + step, b);
    }
    static __device__ __forceinline__ Word offset(Word smallest) { return smallest; }
    static __device__ __forceinline__ Word normalise(Word h, Word offset, Word truncation) {
        return fminf(h - offset, truncation);
    }
    static __device__ __forceinline__ Word shuffle_xor(Word a, int mask) {
        return __shfl_xor_sync(~0u, a, mask);
    }
    static __device__ __forceinline__ Word shuffle(Word a, int lane) {
        return __shfl_sync(~0u, a, lane);
    }
    static __device__ __forceinline__ uint32 bits(Value value) { return FloatWords::bits(value); }
};
