// Messages of floats as whole numbers of one step: 32 bits in registers, differences of
// neighbouring labels in 16 bits in memory, which hold the slope.
#pragma once
#include "hierarchical/formats/split_words.cuh"

// A difference is a value minus the next one towards the middle of the range; the difference of
// the two labels in the middle is side 1's. As in Int16SixBits a message loses a constant.
struct Fixed32 : SplitWords<int> {
    using Unit = uint4;
    static constexpr int UNITS_PER_CHUNK = 1;
    static constexpr bool IS_DELTAS = true, IS_WHOLE = true;

    static DEVICE Value largest() { return 0x7fffffff; }
    static DEVICE Word masked() { return 0x7fffffff; }
    static DEVICE Word least(Word a, Word b) { return min(a, b); }
    static DEVICE Word least(Word a, Word b, Word c) {
#if __CUDA_ARCH__ >= 900
        return __vimin3_s32(a, b, c);
#else
        return min(min(a, b), c);
#endif
    }
    static DEVICE Word least_step(Word a, Word step, Word b) {
#if __CUDA_ARCH__ >= 900
        return __viaddmin_s32(a, step, b);
#else
        return min(a + step, b);
#endif
    }
    static DEVICE Word offset(Word smallest) { return -smallest; }
    static DEVICE Word normalise(Word h, Word offset, Word truncation) {
        return least_step(h, offset, truncation);
    }
    static DEVICE uint32 bits(Value value) { return value; }

    static DEVICE Running begin(Word bound) { return bound; }
    // The values of one side of a chunk, the last one first. ``value``: the value after them.
    static DEVICE void follow(uint2 found, Running& value, Word (&words)[4]) {
        // Sums of two products: with the upper one of two differences, and with both.
        constexpr int UPPER = 0x0100, BOTH = 0x0101;
        words[3] = __dp2a_lo(int(found.y), UPPER, value);
        words[2] = __dp2a_lo(int(found.y), BOTH, value);
        words[1] = __dp2a_lo(int(found.x), UPPER, words[2]);
        words[0] = value = __dp2a_lo(int(found.x), BOTH, words[2]);
    }
    // The inverse of ``follow``.
    static DEVICE uint2 lead(const Word (&words)[4], Running& value) {
        const uint2 found = make_uint2(
            __byte_perm(words[0] - words[1], words[1] - words[2], 0x5410),
            __byte_perm(words[2] - words[3], words[3] - value, 0x5410));
        value = words[0];
        return found;
    }
};
