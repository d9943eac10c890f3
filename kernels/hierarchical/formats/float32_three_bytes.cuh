// float32 in registers, fixed point of 24 bits in memory.
//
// Truncations lie in [1, 2) (costs and messages are scaled by a power of two), so that a value v
// is the low 24 bits of the pattern of 2 + v, in steps of 2^-22. Zero is kept as zero. Of four
// values, the low ones of a chunk or the high ones, the first three take the lower bytes of three
// words, and the fourth takes their upper bytes.
#pragma once
#include "hierarchical/formats/float_words.cuh"

struct Float32ThreeBytes : FloatWords {
    using Unit = uint2;
    static constexpr int UNITS_PER_CHUNK = 3;

    static DEVICE float expand(uint32 bits) { return __uint_as_float(bits) - 2.0f; }
    static DEVICE void expand(uint32 a, uint32 b, uint32 c, float (&values)[4]) {
        constexpr uint32 TOP = 0x40;  // the highest byte of the pattern of 2
        values[0] = expand(__byte_perm(a, TOP, 0x4210));
        values[1] = expand(__byte_perm(b, TOP, 0x4210));
        values[2] = expand(__byte_perm(c, TOP, 0x4210));
        values[3] = expand(
            __byte_perm(__byte_perm(a, b, 0x0073), __byte_perm(c, TOP, 0x4300), 0x7610));
    }
    static DEVICE void pack(const float (&values)[4], uint32& a, uint32& b, uint32& c) {
        const uint32 last = __float_as_uint(2.0f + values[3]);
        a = __byte_perm(__float_as_uint(2.0f + values[0]), last, 0x4210);
        b = __byte_perm(__float_as_uint(2.0f + values[1]), last, 0x5210);
        c = __byte_perm(__float_as_uint(2.0f + values[2]), last, 0x6210);
    }

    static DEVICE void load(const Unit* at, int stride, Word (&words)[4]) {
        const Unit first = at[0], second = at[stride], third = at[2 * stride];
        float low[4], high[4];
        expand(first.x, first.y, second.x, low);
        expand(second.y, third.x, third.y, high);
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = make_float2(low[i], high[i]);
    }
    static DEVICE void store(Unit* at, int stride, const Word (&words)[4]) {
        const float low[4] = {words[0].x, words[1].x, words[2].x, words[3].x};
        const float high[4] = {words[0].y, words[1].y, words[2].y, words[3].y};
        Unit first, second, third;
        pack(low, first.x, first.y, second.x);
        pack(high, second.y, third.x, third.y);
        at[0] = first;
        at[stride] = second;
        at[2 * stride] = third;
    }
};

// The third of a side's three words lies in the second unit.
struct Float32ThreeBytesSplit : SplitFloat {
    using Unit = uint2;
    static constexpr int UNITS_PER_CHUNK = 3;

    template <bool READ_ONLY>
    static DEVICE void load(const Unit* at, int stride, int side, Word (&words)[4]) {
        const uint2 found = fetch<READ_ONLY>(at + 2 * side * stride);
        const uint32 last = fetch<READ_ONLY>(reinterpret_cast<const uint32*>(at + stride) + side);
        Float32ThreeBytes::expand(found.x, found.y, last, words);
    }
    static DEVICE void store(Unit* at, int stride, int side, const Word (&words)[4]) {
        uint32 a, b, c;
        Float32ThreeBytes::pack(words, a, b, c);
        at[2 * side * stride] = make_uint2(a, b);
        reinterpret_cast<uint32*>(at + stride)[side] = c;
    }
};
