// Message types and the words that the kernels compute with.
//
// A word holds two values of one vector over the disparities: label r and its mirror image,
// label PADDED - 1 - r. The forward pass of the lower envelope over rising labels and the
// backward pass of the mirrored half are then the same instruction on both values, and the only
// exchange between the halves is one swap in the middle. Long vectors of floats do not fit one
// thread's registers: two lanes have a half of the labels each, and a word one value.
#pragma once

using int16 = short;
using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

// Stands for the second least belief where no label is further than 1 from the best.
constexpr int NO_SECOND = 0x7fffffff;

__device__ __forceinline__ uint64 time_in_ns() {
    uint64 now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}
// Writes the time from the first thread of a grid; null = not wanted.
__device__ __forceinline__ void stamp_time(uint64* at) {
    if (at == nullptr || (threadIdx.x | threadIdx.y | blockIdx.x | blockIdx.y | blockIdx.z) != 0)
        return;
    *at = time_in_ns();
}
// Writes the time from every block: what stays is the end of one of the last.
__device__ __forceinline__ void stamp_end(uint64* at) {
    if (at != nullptr && threadIdx.x == 0) *at = time_in_ns();
}

// Writes the time from the block of a grid that ends last; ``ended`` counts blocks, and is 0 again
// after the last. For all threads of a block.
__device__ __forceinline__ void stamp_last(uint64* at, uint32* ended) {
    if (at == nullptr) return;
    __syncthreads();
    const uint32 others = gridDim.x * gridDim.y - 1;
    if ((threadIdx.x | threadIdx.y) == 0 && atomicInc(ended, others) == others)
        *at = time_in_ns();
}

// One type or the other.
template <bool IS_FIRST, typename First, typename Second> struct Conditional { using Type = First; };
template <typename First, typename Second>
struct Conditional<false, First, Second> { using Type = Second; };

// A value in memory; READ_ONLY = in device memory that no thread of the kernel writes.
template <bool READ_ONLY, typename Value>
__device__ __forceinline__ Value fetch(const Value* at) {
    if constexpr (READ_ONLY) return __ldg(at);
    else return *at;
}

// __byte_perm with the fourth bit of each selector: that byte's sign, eight times.
__device__ __forceinline__ uint32 permute_signed(uint32 a, uint32 b, uint32 selectors) {
    uint32 result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selectors));
    return result;
}

// int16: two values in one 32-bit word. Every value is in [0, 32767] and every belief in
// [0, 65535], so plain 32-bit sums and differences never carry from one half to the other.
struct Int16 {
    using Word = uint32;
    using Value = uint32;                       // one half, as it is compared and written out
    using Running = Word;                       // what differences are added to
    using Parameter = int;                      // slope and truncation
    using Sum = Int16;                          // as the data cost above level 0 is kept
    using Unit = uint4;                         // what one thread moves at once
    static constexpr int UNITS_PER_CHUNK = 1;   // of 8 disparities
    static constexpr int WORD_REGISTERS = 1;
    static constexpr int SIDES = 1;             // lanes with a half of the labels each, or 1
    static constexpr bool IS_DELTAS = false, HAS_SIX_BITS = false;
    static constexpr bool IS_WHOLE = true;      // sums are the same in any order
    static constexpr bool IS_SCALED = false;    // data costs are kept as multiples of a real factor

    static __device__ __forceinline__ Word zero() { return 0; }
    static __device__ __forceinline__ Value largest() { return 0x7fffffffu; }
    static __device__ __forceinline__ Word splat(Parameter value) {
        return uint32(value) * 0x00010001u;
    }
    static __device__ __forceinline__ Word add(Word a, Word b) { return a + b; }
    static __device__ __forceinline__ Word subtract(Word a, Word b) { return a - b; }
    static __device__ __forceinline__ Word swap(Word a) { return __byte_perm(a, a, 0x1032); }
    static __device__ __forceinline__ Value low(Word a) { return a & 0xffffu; }
    static __device__ __forceinline__ Value high(Word a) { return a >> 16; }
    // The word with its high half (label beyond the range) out of every minimum.
    static __device__ __forceinline__ Word drop_high(Word a) {
        return __byte_perm(a, 0x7fff7fffu, 0x5410);
    }
    static __device__ __forceinline__ Word dropped() { return 0x7fff7fffu; }
    static __device__ __forceinline__ Word with_high(Word a, Word b) {
        return __byte_perm(a, b, 0x7610);
    }

    // Least of each half; values up to 32767.
    static __device__ __forceinline__ Word least(Word a, Word b) {
#if __CUDA_ARCH__ >= 900
        return __vmins2(a, b);
#else
        // Both halves are below 2^15: the top bit survives the subtraction where a >= b.
        const uint32 greater = permute_signed((a | 0x80008000u) - b, 0, 0xbb99);
        return (a & ~greater) | (b & greater);
#endif
    }
    static __device__ __forceinline__ Word least(Word a, Word b, Word c) {
#if __CUDA_ARCH__ >= 900
        return __vimin3_s16x2(a, b, c);
#else
        return least(least(a, b), c);
#endif
    }
    // Least of each half; one of the two values is at most 31743.
    static __device__ __forceinline__ Word least_small(Word a, Word b) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 900
        // The patterns of binary16 are in the order of the integers up to infinity (31744), and
        // the minimum with a NaN is the other operand.
        uint32 result;
        asm("min.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
        return result;
#else
        return least(a, b);
#endif
    }
    // min(a + step, b) with sums of at most 21845.
    static __device__ __forceinline__ Word least_step(Word a, Word step, Word b) {
#if __CUDA_ARCH__ >= 900
        return __viaddmin_s16x2(a, step, b);
#else
        return least_small(a + step, b);
#endif
    }
    // What ``normalise`` wants to know of the least value.
    static __device__ __forceinline__ Word offset(Word smallest) {
#if __CUDA_ARCH__ >= 900
        return __vneg2(smallest);
#else
        return smallest;
#endif
    }
    // The same of a word with two equal halves, which are not 0.
    static __device__ __forceinline__ Word offset_of_equal(Word smallest) {
#if __CUDA_ARCH__ >= 900
        return 0x10000u - smallest;
#else
        return smallest;
#endif
    }
    // min(h - smallest, truncation); truncation is at most 10922.
    static __device__ __forceinline__ Word normalise(Word h, Word offset, Word truncation) {
#if __CUDA_ARCH__ >= 900
        return __viaddmin_s16x2(h, offset, truncation);
#else
        return least_small(h - offset, truncation);
#endif
    }

    static __device__ __forceinline__ void load(const Unit* at, int, Word (&words)[4]) {
        const Unit unit = *at;
        words[0] = unit.x; words[1] = unit.y; words[2] = unit.z; words[3] = unit.w;
    }
    static __device__ __forceinline__ void store(Unit* at, int, const Word (&words)[4]) {
        *at = make_uint4(words[0], words[1], words[2], words[3]);
    }
    static __device__ __forceinline__ Word shuffle_xor(Word a, int mask) {
        return __shfl_xor_sync(~0u, a, mask);
    }
    static __device__ __forceinline__ Word shuffle(Word a, int lane) {
        return __shfl_sync(~0u, a, lane);
    }
    static __device__ __forceinline__ uint32 bits(Value value) { return value; }
    // Nothing, but known only when the word is; its values are up to 32767.
    static __device__ __forceinline__ uint32 nothing_after(Word a) { return a >> 31; }
    // A word as it comes back from memory.
    static __device__ __forceinline__ Word kept(Word word) { return word; }
};

// The same messages in half the bytes, and exactly: neighbouring labels of a message differ by at
// most the slope, so that differences fit a byte where the slope does (1 to 127). Eight bytes for
// each chunk of 8 disparities, in the order of its words; a byte is the value minus the next one
// towards the middle of the range, plus the slope. What is lost is a constant: it moves the least
// value that the receiver subtracts, and the belief of every label alike.
struct Int16Deltas : Int16 {
    using Unit = uint2;
    static constexpr bool IS_DELTAS = true;

    static __device__ __forceinline__ Running begin(Word bound) { return bound; }
    // The words of a chunk from the last one on; ``value``: the one after them.
    static __device__ __forceinline__ void follow(Unit unit, Word slope, Running& value,
                                                  Word (&words)[4]) {
        Word bytes[4];
        expand(unit, bytes);
#pragma unroll
        for (int i = 3; i >= 0; --i) words[i] = value += bytes[i] - slope;
    }

    static __device__ __forceinline__ void expand(Unit unit, Word (&bytes)[4]) {
        bytes[0] = __byte_perm(unit.x, 0, 0x4140);
        bytes[1] = __byte_perm(unit.x, 0, 0x4342);
        bytes[2] = __byte_perm(unit.y, 0, 0x4140);
        bytes[3] = __byte_perm(unit.y, 0, 0x4342);
    }
    static __device__ __forceinline__ Unit shrink(const Word (&bytes)[4]) {
        return make_uint2(__byte_perm(bytes[0], bytes[1], 0x6420),
                          __byte_perm(bytes[2], bytes[3], 0x6420));
    }
};

// The same differences, plus 32, in 6 bits each where the slope is at most 31: three words for two
// chunks, in units of 16 bytes. A half of each word has two of them in its lower 12 bits, and in the
// upper four a part of the two that are left.
struct Int16SixBits : Int16Deltas {
    using Unit = uint4;
    static constexpr bool HAS_SIX_BITS = true;
    static constexpr uint32 BIAS = 0x00200020u;
    // So that of a message that says nothing all words are the same: two differences of 0 in each half.
    static constexpr uint32 FLIPPED = 0xa000a000u;

    static __device__ __forceinline__ void expand(uint32 a, uint32 b, uint32 c, Word (&found)[8]) {
        constexpr uint32 ALL = 0x003f003fu, LOW = 0x000f000fu, HIGH = 0x00300030u;
        c ^= FLIPPED;
        found[0] = a & ALL;
        found[1] = a >> 6 & ALL;
        found[2] = (a >> 12 & LOW) | (c >> 8 & HIGH);
        found[3] = b & ALL;
        found[4] = b >> 6 & ALL;
        found[5] = (b >> 12 & LOW) | (c >> 10 & HIGH);
        found[6] = c & ALL;
        found[7] = c >> 6 & ALL;
    }
    static __device__ __forceinline__ void shrink(const Word (&words)[8], uint32& a, uint32& b,
                                                  uint32& c) {
        constexpr uint32 LOW = 0x000f000fu, HIGH = 0x00300030u;
        a = words[0] + words[1] * 64 + (words[2] & LOW) * 4096;
        b = words[3] + words[4] * 64 + (words[5] & LOW) * 4096;
        c = (words[6] + words[7] * 64 + (words[2] & HIGH) * 256 + (words[5] & HIGH) * 1024)
            ^ FLIPPED;
    }
};

// The same messages in half the bytes where the truncation, their largest value, fits a byte: the
// values themselves, in the order of Int16Deltas.
struct Int16Bytes : Int16 {
    using Unit = uint2;

    static __device__ __forceinline__ void load(const Unit* at, int, Word (&words)[4]) {
        Int16Deltas::expand(*at, words);
    }
    static __device__ __forceinline__ void store(Unit* at, int, const Word (&words)[4]) {
        *at = Int16Deltas::shrink(words);
    }
};

// Data cost of level 0 in bytes, for words of Int16.
struct Bytes : Int16 {
    using Unit = uint2;         // 8 per chunk, in the order of its words
};

// The same where it is a multiple of one factor, at most 15 times that: the multiples in 4 bits each.
struct Nibbles : Int16 {
    using Unit = uint32;        // 8 per chunk: the low halves of words 0 to 3, then the high ones
};

// What float32 and float16 share: two float32 registers, whatever the messages are kept as.
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
    static __device__ __forceinline__ Word drop_high(Word a) {
        return make_float2(a.x, infinity());
    }
    static __device__ __forceinline__ Word dropped() {
        return make_float2(infinity(), infinity());
    }
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
    static __device__ __forceinline__ uint32 nothing_after(Word a) {
        return __float_as_uint(a.x) >> 31;
    }
    static __device__ __forceinline__ Word normalise(Word h, Word offset, Word truncation) {
        return least(subtract(h, offset), truncation);
    }
    static __device__ __forceinline__ Word shuffle_xor(Word a, int mask) {
        return make_float2(__shfl_xor_sync(~0u, a.x, mask),
                           __shfl_xor_sync(~0u, a.y, mask));
    }
    static __device__ __forceinline__ Word shuffle(Word a, int lane) {
        return make_float2(__shfl_sync(~0u, a.x, lane),
                           __shfl_sync(~0u, a.y, lane));
    }
    // Beliefs are never negative, so their patterns are in the order of their values.
    static __device__ __forceinline__ uint32 bits(Value value) {
        return __float_as_uint(fmaxf(value, 0.0f));
    }
};

struct Float32 : FloatWords {
    using Sum = Float32;
    static constexpr int UNITS_PER_CHUNK = 2;

    static __device__ __forceinline__ Word kept(Word word) { return word; }

    static __device__ __forceinline__ void load(const Unit* at, int stride, Word (&words)[4]) {
        const Unit a = at[0], b = at[stride];
        words[0] = make_float2(__uint_as_float(a.x), __uint_as_float(a.y));
        words[1] = make_float2(__uint_as_float(a.z), __uint_as_float(a.w));
        words[2] = make_float2(__uint_as_float(b.x), __uint_as_float(b.y));
        words[3] = make_float2(__uint_as_float(b.z), __uint_as_float(b.w));
    }
    static __device__ __forceinline__ void store(Unit* at, int stride, const Word (&words)[4]) {
        at[0] = make_uint4(__float_as_uint(words[0].x), __float_as_uint(words[0].y),
                           __float_as_uint(words[1].x), __float_as_uint(words[1].y));
        at[stride] = make_uint4(__float_as_uint(words[2].x), __float_as_uint(words[2].y),
                                __float_as_uint(words[3].x), __float_as_uint(words[3].y));
    }
};

// float32 in registers, fixed point in memory: three bytes for each value. Truncations lie in [1, 2)
// (``layout.float_scale``), so that a value v is the low 24 bits of the pattern of 2 + v, in steps of
// 2^-22: that is what a sum of messages from 2 on is rounded to. Zero is zero. Of four values, the low
// halves of a chunk or the high ones, the first three take the lower bytes of three words, and the
// fourth their upper ones.
struct Float32ThreeBytes : FloatWords {
    using Unit = uint2;
    static constexpr int UNITS_PER_CHUNK = 3;

    static __device__ __forceinline__ float expand(uint32 bits) {
        return __uint_as_float(bits) - 2.0f;
    }
    static __device__ __forceinline__ void expand(uint32 a, uint32 b, uint32 c,
                                                  float (&values)[4]) {
        constexpr uint32 TOP = 0x40;            // of the pattern of 2
        values[0] = expand(__byte_perm(a, TOP, 0x4210));
        values[1] = expand(__byte_perm(b, TOP, 0x4210));
        values[2] = expand(__byte_perm(c, TOP, 0x4210));
        values[3] = expand(__byte_perm(__byte_perm(a, b, 0x0073), __byte_perm(c, TOP, 0x4300),
                                       0x7610));
    }
    static __device__ __forceinline__ void shrink(const float (&values)[4], uint32& a, uint32& b,
                                                  uint32& c) {
        const uint32 last = __float_as_uint(2.0f + values[3]);
        a = __byte_perm(__float_as_uint(2.0f + values[0]), last, 0x4210);
        b = __byte_perm(__float_as_uint(2.0f + values[1]), last, 0x5210);
        c = __byte_perm(__float_as_uint(2.0f + values[2]), last, 0x6210);
    }

    static __device__ __forceinline__ void load(const Unit* at, int stride, Word (&words)[4]) {
        const Unit first = at[0], second = at[stride], third = at[2 * stride];
        float low[4], high[4];
        expand(first.x, first.y, second.x, low);
        expand(second.y, third.x, third.y, high);
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = make_float2(low[i], high[i]);
    }
    static __device__ __forceinline__ void store(Unit* at, int stride, const Word (&words)[4]) {
        const float low[4] = {words[0].x, words[1].x, words[2].x, words[3].x};
        const float high[4] = {words[0].y, words[1].y, words[2].y, words[3].y};
        Unit first, second, third;
        shrink(low, first.x, first.y, second.x);
        shrink(high, second.y, third.x, third.y);
        at[0] = first;
        at[stride] = second;
        at[2 * stride] = third;
    }
};

// Data cost of 8-bit images for messages of floats: whole numbers, to be multiplied by one factor.
// Sums of those of many pixels, in 16 bits:
struct MultipleSums : Int16 {
    using Sum = MultipleSums;
    static constexpr bool IS_SCALED = true;
};
// Differences of level 0, or sums of 4 or 16, in bytes:
struct Multiples : MultipleSums {
    using Unit = uint2;         // 8 per chunk, in the order of Bytes
};

// binary16 in memory, float32 in registers.
struct Float16 : FloatWords {
    using Sum = Float32;        // sums of many costs lose too much in 16 bits
    static constexpr int UNITS_PER_CHUNK = 1;

    static __device__ __forceinline__ Word widen(uint32 packed) {
        Word word;
        asm("{.reg .f16 a, b;\n mov.b32 {a, b}, %2;\n cvt.f32.f16 %0, a;\n cvt.f32.f16 %1, b;}"
            : "=f"(word.x), "=f"(word.y) : "r"(packed));
        return word;
    }
    static __device__ __forceinline__ uint32 narrow(Word word) {
        uint32 packed;
        asm("{.reg .f16 a, b;\n cvt.rn.f16.f32 a, %1;\n cvt.rn.f16.f32 b, %2;\n"
            " mov.b32 %0, {a, b};}"
            : "=r"(packed) : "f"(word.x), "f"(word.y));
        return packed;
    }
    static __device__ __forceinline__ Word kept(Word word) { return widen(narrow(word)); }

    static __device__ __forceinline__ void load(const Unit* at, int, Word (&words)[4]) {
        const Unit unit = *at;
        words[0] = widen(unit.x); words[1] = widen(unit.y);
        words[2] = widen(unit.z); words[3] = widen(unit.w);
    }
    static __device__ __forceinline__ void store(Unit* at, int, const Word (&words)[4]) {
        *at = make_uint4(narrow(words[0]), narrow(words[1]), narrow(words[2]),
                         narrow(words[3]));
    }
};

// A half of the labels in each of two lanes, side 0 the lower ones and side 1 their mirror images: a
// word is one value, and in memory every chunk has the four values of side 0 before those of side 1.
struct FloatHalves {
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
    static __device__ __forceinline__ Word dropped() { return FloatWords::infinity(); }
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

struct Float32Halves : FloatHalves {
    using Unit = uint4;
    static constexpr int UNITS_PER_CHUNK = 2;

    template <bool READ_ONLY>
    static __device__ __forceinline__ void load(const Unit* at, int stride, int side,
                                                Word (&words)[4]) {
        const uint4 found = fetch<READ_ONLY>(at + side * stride);
        words[0] = __uint_as_float(found.x);
        words[1] = __uint_as_float(found.y);
        words[2] = __uint_as_float(found.z);
        words[3] = __uint_as_float(found.w);
    }
    static __device__ __forceinline__ void store(Unit* at, int stride, int side,
                                                 const Word (&words)[4]) {
        at[side * stride] = make_uint4(__float_as_uint(words[0]), __float_as_uint(words[1]),
                                       __float_as_uint(words[2]), __float_as_uint(words[3]));
    }
};

struct Float16Halves : FloatHalves {
    using Unit = uint4;
    static constexpr int UNITS_PER_CHUNK = 1;

    template <bool READ_ONLY>
    static __device__ __forceinline__ void load(const Unit* at, int, int side, Word (&words)[4]) {
        const uint2 found = fetch<READ_ONLY>(reinterpret_cast<const uint2*>(at) + side);
        const float2 first = Float16::widen(found.x), second = Float16::widen(found.y);
        words[0] = first.x;
        words[1] = first.y;
        words[2] = second.x;
        words[3] = second.y;
    }
    static __device__ __forceinline__ void store(Unit* at, int, int side,
                                                 const Word (&words)[4]) {
        reinterpret_cast<uint2*>(at)[side] =
            make_uint2(Float16::narrow(make_float2(words[0], words[1])),
                       Float16::narrow(make_float2(words[2], words[3])));
    }
};

// As Float32ThreeBytes; of a side's three words the last one is in the second unit.
struct Float32ThreeByteHalves : FloatHalves {
    using Unit = uint2;
    static constexpr int UNITS_PER_CHUNK = 3;

    template <bool READ_ONLY>
    static __device__ __forceinline__ void load(const Unit* at, int stride, int side,
                                                Word (&words)[4]) {
        const uint2 found = fetch<READ_ONLY>(at + 2 * side * stride);
        const uint32 last = fetch<READ_ONLY>(reinterpret_cast<const uint32*>(at + stride) + side);
        Float32ThreeBytes::expand(found.x, found.y, last, words);
    }
    static __device__ __forceinline__ void store(Unit* at, int stride, int side,
                                                 const Word (&words)[4]) {
        uint32 a, b, c;
        Float32ThreeBytes::shrink(words, a, b, c);
        at[2 * side * stride] = make_uint2(a, b);
        reinterpret_cast<uint32*>(at + stride)[side] = c;
    }
};

// float32 as whole numbers of one step, as ``layout.is_fixed`` allows: in registers 32 bits, in memory
// the differences of neighbouring labels in 16, which hold the slope. A difference is the value minus the
// next one towards the middle of the range; that of the two labels in the middle is side 1's. Sides lie
// in memory as those of FloatHalves; as of Int16Deltas a constant is lost.
struct Fixed32 {
    using Word = int;
    using Value = int;
    using Running = int;
    using Parameter = int;
    using Unit = uint4;
    static constexpr int UNITS_PER_CHUNK = 1, WORD_REGISTERS = 1, SIDES = 2;
    static constexpr bool IS_DELTAS = true, HAS_SIX_BITS = false, IS_WHOLE = true;

    static __device__ __forceinline__ Word zero() { return 0; }
    static __device__ __forceinline__ Value largest() { return 0x7fffffff; }
    static __device__ __forceinline__ Word splat(Parameter value) { return value; }
    static __device__ __forceinline__ Word add(Word a, Word b) { return a + b; }
    static __device__ __forceinline__ Word subtract(Word a, Word b) { return a - b; }
    static __device__ __forceinline__ Word dropped() { return 0x7fffffff; }
    static __device__ __forceinline__ Word least(Word a, Word b) { return min(a, b); }
    static __device__ __forceinline__ Word least(Word a, Word b, Word c) {
#if __CUDA_ARCH__ >= 900
        return __vimin3_s32(a, b, c);
#else
        return min(min(a, b), c);
#endif
    }
    static __device__ __forceinline__ Word least_step(Word a, Word step, Word b) {
#if __CUDA_ARCH__ >= 900
        return __viaddmin_s32(a, step, b);
#else
        return min(a + step, b);
#endif
    }
    static __device__ __forceinline__ Word offset(Word smallest) { return -smallest; }
    static __device__ __forceinline__ Word normalise(Word h, Word offset, Word truncation) {
        return least_step(h, offset, truncation);
    }
    static __device__ __forceinline__ Word shuffle_xor(Word a, int mask) {
        return __shfl_xor_sync(~0u, a, mask);
    }
    static __device__ __forceinline__ Word shuffle(Word a, int lane) {
        return __shfl_sync(~0u, a, lane);
    }
    static __device__ __forceinline__ uint32 bits(Value value) { return value; }

    static __device__ __forceinline__ Running begin(Word bound) { return bound; }
    // The values of one side of a chunk from the last one on; ``value``: the one after them.
    static __device__ __forceinline__ void follow(uint2 found, Word, Running& value,
                                                  Word (&words)[4]) {
        // Sums of two products: with the upper of two differences, with both.
        constexpr int UPPER = 0x0100, BOTH = 0x0101;
        words[3] = __dp2a_lo(int(found.y), UPPER, value);
        words[2] = __dp2a_lo(int(found.y), BOTH, value);
        words[1] = __dp2a_lo(int(found.x), UPPER, words[2]);
        words[0] = value = __dp2a_lo(int(found.x), BOTH, words[2]);
    }
    // What ``follow`` reads again.
    static __device__ __forceinline__ uint2 lead(const Word (&words)[4], Running& value) {
        const uint2 found = make_uint2(
            __byte_perm(words[0] - words[1], words[1] - words[2], 0x5410),
            __byte_perm(words[2] - words[3], words[3] - value, 0x5410));
        value = words[0];
        return found;
    }
};

// How one vector over the disparities is spread over words, chunks and lanes.
template <typename Message, int DISPARITIES>
struct Shape {
    static constexpr int PADDED = (DISPARITIES + 7) / 8 * 8;
    static constexpr int CHUNKS = PADDED / 8;           // of 4 words
    static constexpr int UNITS = Message::HAS_SIX_BITS ? CHUNKS * 3 / 8
                                                       : CHUNKS * Message::UNITS_PER_CHUNK;
    static_assert(!Message::HAS_SIX_BITS || CHUNKS % 8 == 0, "whole units of 16 bytes");
    static constexpr int PADS = PADDED - DISPARITIES;   // labels beyond the range, high halves
    // Lanes of a warp that share a vector, so that it stays in registers: each has one of its sides
    // or both, and there one of its parts.
    static constexpr int SIDES = Message::SIDES;
    static constexpr int CHUNK_LIMIT = 16 / Message::WORD_REGISTERS;
    static constexpr int PARTS = CHUNKS <= CHUNK_LIMIT ? 1
        : CHUNKS <= 2 * CHUNK_LIMIT ? 2 : CHUNKS <= 4 * CHUNK_LIMIT ? 4 : 8;
    static constexpr int LANES = SIDES * PARTS;
    static constexpr int LANE_CHUNKS = (CHUNKS + PARTS - 1) / PARTS;
    static constexpr int WORDS = 4 * LANE_CHUNKS;       // of one lane
    // Chunks at the start of the first parts that stand for nothing.
    static constexpr int ABSENT = PARTS * LANE_CHUNKS - CHUNKS;
};

// A parameter in both halves of a word.
template <typename Message>
__device__ __forceinline__ typename Message::Word splat(int integer, float real) {
    // By way of float, which holds it: of an integer the compiler knows so much that it computes what
    // follows from it again for every word.
    return Message::splat(Message::IS_WHOLE ? integer : real);
}
