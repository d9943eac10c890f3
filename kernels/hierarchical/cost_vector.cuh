// The data cost of one node: where its vector lies, and its words from whatever it is kept as.
#pragma once
#include "hierarchical/vector.cuh"

// Data cost of a node in the format Kind: Bytes, Nibbles, multiples, or a format of messages.
template <typename Kind, int DISPARITIES>
struct Cost {
    using V = Vector<Kind, DISPARITIES>;
    using Word = typename Conditional<Kind::IS_SCALED, float2, typename Kind::Word>::Type;
    using Unit = typename Kind::Unit;
    using Side = typename Conditional<sizeof(Unit) == 16, uint2, uint32>::Type;
    static constexpr int UNITS = Shape<Kind, DISPARITIES>::UNITS;
    // Registers hold the unit of a chunk until its words are needed.
    static constexpr bool IS_SMALL = sizeof(Unit) < 16 || Kind::IS_SCALED;
    const Unit* first;
    int columns;
    uint32 factor;  // of Nibbles; of multiples the pattern of a float

    // The node (x, y), whose colour is (x + y) % 2.
    DEVICE Cost(const void* cost, int columns, uint32 factor, int x, int y)
        : first(static_cast<const Unit*>(cost) + size_t(2 * y + ((x + y) & 1)) * UNITS * columns
                + (x >> 1)),
          columns(columns), factor(factor) {}
    DEVICE void load(int chunk, Word (&part)[4]) const {
        if constexpr (IS_SMALL) expand(unit(chunk), factor, true, part);
        else V::template load<true>(V::unit({first, columns}, chunk), columns, 0, part);
    }
    // The same for one side, as floats or as whole numbers.
    template <typename Value>
    DEVICE void load(int chunk, int side, Value (&part)[4]) const {
        if constexpr (IS_SMALL) {
            expand(one_side(unit(chunk), side), factor, true, part);
        } else {
            Word both[4];
            load(chunk, both);
#pragma unroll
            for (int i = 0; i < 4; ++i) convert(side ? both[i].y : both[i].x, part[i]);
        }
    }
    static DEVICE void convert(float cost, float& value) { value = cost; }
    static DEVICE void convert(float cost, int& value) { value = __float2int_rn(cost); }
    DEVICE Unit unit(int chunk) const { return __ldg(first + unsigned(chunk * columns)); }
    // The bytes of a unit that belong to one side.
    static DEVICE uint32 one_side(uint2 bytes, int side) {
        return __byte_perm(bytes.x, bytes.y, side ? 0x7531 : 0x6420);
    }
    static DEVICE uint2 one_side(uint4 sums, int side) {
        const uint32 selectors = side ? 0x7632 : 0x5410;
        return make_uint2(__byte_perm(sums.x, sums.y, selectors),
                          __byte_perm(sums.z, sums.w, selectors));
    }
    // The words of a unit, or of one side of it, where ``is_wanted``; else zeros.
    static DEVICE void expand(uint2 bytes, uint32, bool is_wanted, uint32 (&part)[4]) {
        const uint32 even = is_wanted ? 0x4140 : 0x4444, odd = is_wanted ? 0x4342 : 0x4444;
        part[0] = __byte_perm(bytes.x, 0, even);
        part[1] = __byte_perm(bytes.x, 0, odd);
        part[2] = __byte_perm(bytes.y, 0, even);
        part[3] = __byte_perm(bytes.y, 0, odd);
    }
    static DEVICE void expand(uint32 nibbles, uint32 factor, bool is_wanted, uint32 (&part)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            part[i] = (nibbles >> 4 * i & 0x000f000fu) * (is_wanted ? factor : 0);
    }
    static DEVICE void expand(uint2 bytes, uint32 factor, bool is_wanted, float2 (&part)[4]) {
        const uint32 words[2] = {is_wanted ? bytes.x : 0, is_wanted ? bytes.y : 0};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            part[i] = make_float2(product(words[i / 2], 0x7440 + 2 * i % 4, factor),
                                  product(words[i / 2], 0x7440 + (2 * i + 1) % 4, factor));
    }
    static DEVICE void expand(uint4 sums, uint32 factor, bool is_wanted, float2 (&part)[4]) {
        const uint32 words[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            part[i] = make_float2(product(is_wanted ? words[i] : 0, 0x7410, factor),
                                  product(is_wanted ? words[i] : 0, 0x7432, factor));
    }
    template <typename Value>
    static DEVICE void expand(uint2 sums, uint32 factor, bool is_wanted, Value (&part)[4]) {
        const uint32 words[2] = {is_wanted ? sums.x : 0, is_wanted ? sums.y : 0};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            convert(product(words[i / 2], i % 2 ? 0x7432 : 0x7410, factor), part[i]);
    }
    static DEVICE void expand(uint32 bytes, uint32 factor, bool is_wanted, float (&part)[4]) {
        if (!is_wanted) bytes = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) part[i] = product(bytes, 0x7440 + i, factor);
    }
    static DEVICE void expand(uint32 bytes, uint32 factor, bool is_wanted, int (&part)[4]) {
        // Up to 2^22 the products are the low bits of their sums with 1.5 * 2^23.
        constexpr uint32 ONE_AND_A_HALF = 0x4b400000;
        if (!is_wanted) bytes = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float sum = __fmaf_rn(shifted(bytes, 0x7440 + i) - 8388608.0f,
                                        __uint_as_float(factor), __uint_as_float(ONE_AND_A_HALF));
            part[i] = __float_as_uint(sum) - ONE_AND_A_HALF;
        }
    }

private:
    // 2^23 + b, whose lowest bytes are the bytes b that ``selectors`` take.
    static DEVICE float shifted(uint32 word, uint32 selectors) {
        return __uint_as_float(__byte_perm(word, 0x4b000000u, selectors));
    }
    // b times the factor, rounded once.
    static DEVICE float product(uint32 word, uint32 selectors, uint32 factor) {
        const float one = __uint_as_float(factor);
        return __fmaf_rn(shifted(word, selectors), one, -8388608.0f * one);
    }
};
