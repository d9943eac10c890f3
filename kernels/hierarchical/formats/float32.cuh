// float32 messages as they are: 32 bits for each value.
#pragma once
#include "hierarchical/formats/float_words.cuh"

struct Float32 : FloatWords {
    using Sum = Float32;
    static constexpr int UNITS_PER_CHUNK = 2;

    static DEVICE void load(const Unit* at, int stride, Word (&words)[4]) {
        const Unit a = at[0], b = at[stride];
        words[0] = make_float2(__uint_as_float(a.x), __uint_as_float(a.y));
        words[1] = make_float2(__uint_as_float(a.z), __uint_as_float(a.w));
        words[2] = make_float2(__uint_as_float(b.x), __uint_as_float(b.y));
        words[3] = make_float2(__uint_as_float(b.z), __uint_as_float(b.w));
    }
    static DEVICE void store(Unit* at, int stride, const Word (&words)[4]) {
        at[0] = make_uint4(__float_as_uint(words[0].x), __float_as_uint(words[0].y),
                           __float_as_uint(words[1].x), __float_as_uint(words[1].y));
        at[stride] = make_uint4(__float_as_uint(words[2].x), __float_as_uint(words[2].y),
                                __float_as_uint(words[3].x), __float_as_uint(words[3].y));
    }
};

struct Float32Split : SplitFloat {
    using Unit = uint4;
    static constexpr int UNITS_PER_CHUNK = 2;

    template <bool READ_ONLY>
    static DEVICE void load(const Unit* at, int stride, int side, Word (&words)[4]) {
        const uint4 found = fetch<READ_ONLY>(at + side * stride);
        words[0] = __uint_as_float(found.x);
        words[1] = __uint_as_float(found.y);
        words[2] = __uint_as_float(found.z);
        words[3] = __uint_as_float(found.w);
    }
    static DEVICE void store(Unit* at, int stride, int side, const Word (&words)[4]) {
        at[side * stride] = make_uint4(__float_as_uint(words[0]), __float_as_uint(words[1]),
                                       __float_as_uint(words[2]), __float_as_uint(words[3]));
    }
};
