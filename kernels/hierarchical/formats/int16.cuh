// int16 messages as they are: 16 bits for each value, in registers and in memory.
#pragma once
#include "device.cuh"

// Two values in one 32-bit word. Every value is in [0, 32767] and every belief in [0, 65535], so
// that plain 32-bit sums and differences never carry from the low value to the high one.
struct Int16 {
    using Word = uint32;
    using Value = uint32;   // one value of a word, as it is compared and written out
    using Running = Word;   // the value that differences are added to
    using Parameter = int;  // slope and truncation
    using Sum = Int16;      // the format of data costs above level 0
    using Unit = uint4;     // the bytes that one thread loads or stores at once
    static constexpr int UNITS_PER_CHUNK = 1;  // of 8 labels
    static constexpr int WORD_REGISTERS = 1;
    static constexpr int SIDES = 1;  // 2: the vector is split over two lanes
    static constexpr bool IS_DELTAS = false, HAS_SIX_BITS = false;
    static constexpr bool IS_WHOLE = true;    // sums are the same in any order
    static constexpr bool IS_SCALED = false;  // data costs are multiples of a real factor

    static DEVICE Word zero() { return 0; }
    static DEVICE Value largest() { return 0x7fffffffu; }
    static DEVICE Word splat(Parameter value) { return uint32(value) * 0x00010001u; }
    static DEVICE Word add(Word a, Word b) { return a + b; }
    static DEVICE Word subtract(Word a, Word b) { return a - b; }
    static DEVICE Word swap(Word a) { return __byte_perm(a, a, 0x1032); }
    static DEVICE Value low(Word a) { return a & 0xffffu; }
    static DEVICE Value high(Word a) { return a >> 16; }
    // The word with its high value, a label beyond the range, above every other value.
    static DEVICE Word mask_high(Word a) { return __byte_perm(a, 0x7fff7fffu, 0x5410); }
    static DEVICE Word masked() { return 0x7fff7fffu; }
    static DEVICE Word with_high(Word a, Word b) { return __byte_perm(a, b, 0x7610); }

    // Minimum of the low and of the high values, which are at most 32767.
    static DEVICE Word least(Word a, Word b) {
#if __CUDA_ARCH__ >= 900
        return __vmins2(a, b);
#else
        // All values are below 2^15: the top bit survives the subtraction where a >= b.
        const uint32 greater = permute_signed((a | 0x80008000u) - b, 0, 0xbb99);
        return (a & ~greater) | (b & greater);
#endif
    }
    static DEVICE Word least(Word a, Word b, Word c) {
#if __CUDA_ARCH__ >= 900
        return __vimin3_s16x2(a, b, c);
#else
        return least(least(a, b), c);
#endif
    }
    // The same where one of the two values is at most 31743.
    static DEVICE Word least_small(Word a, Word b) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 900
        // Up to infinity (31744) the bit patterns of binary16 are in the order of integers, and
        // the minimum with a NaN is the other operand.
        uint32 result;
        asm("min.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
        return result;
#else
        return least(a, b);
#endif
    }
    // min(a + step, b) with sums of at most 21845.
    static DEVICE Word least_step(Word a, Word step, Word b) {
#if __CUDA_ARCH__ >= 900
        return __viaddmin_s16x2(a, step, b);
#else
        return least_small(a + step, b);
#endif
    }
    // The operand that ``normalise`` subtracts by: the least value, negated where an instruction
    // adds.
    static DEVICE Word offset(Word smallest) {
#if __CUDA_ARCH__ >= 900
        return __vneg2(smallest);
#else
        return smallest;
#endif
    }
    // The same of a word whose two values are equal and above 0.
    static DEVICE Word offset_of_equal(Word smallest) {
#if __CUDA_ARCH__ >= 900
        return 0x10000u - smallest;
#else
        return smallest;
#endif
    }
    // min(h - smallest, truncation); the truncation is at most 10922.
    static DEVICE Word normalise(Word h, Word offset, Word truncation) {
#if __CUDA_ARCH__ >= 900
        return __viaddmin_s16x2(h, offset, truncation);
#else
        return least_small(h - offset, truncation);
#endif
    }

    static DEVICE void load(const Unit* at, int, Word (&words)[4]) {
        const Unit unit = *at;
        words[0] = unit.x;
        words[1] = unit.y;
        words[2] = unit.z;
        words[3] = unit.w;
    }
    static DEVICE void store(Unit* at, int, const Word (&words)[4]) {
        *at = make_uint4(words[0], words[1], words[2], words[3]);
    }
    static DEVICE Word shuffle_xor(Word a, int mask) { return __shfl_xor_sync(~0u, a, mask); }
    static DEVICE Word shuffle(Word a, int lane) { return __shfl_sync(~0u, a, lane); }
    static DEVICE uint32 bits(Value value) { return value; }
    // 0, but known only once the word is: it orders instructions. Values are at most 32767.
    static DEVICE uint32 zero_after(Word a) { return a >> 31; }
};
