// binary16 in memory, float32 in registers.
#pragma once
#include "hierarchical/formats/float32.cuh"

struct Float16 : FloatWords {
    using Sum = Float32;  // 16 bits are too few for sums of many costs
    static constexpr int UNITS_PER_CHUNK = 1;

    static __device__ __forceinline__ Word widen(uint32 packed) {
        Word word;
        asm("{.reg .f16 a, b;\n mov.b32 {a, b}, %2;\n cvt.f32.f16 %0, a;\n cvt.f32.f16 %1, b;}"
            : "=f"(word.x), "=f"(word.y)
            : "r"(packed));
        return word;
    }
    static __device__ __forceinline__ uint32 narrow(Word word) {
        uint32 packed;
        asm("{.reg .f16 a, b;\n cvt.rn.f16.f32 a, %1;\n cvt.rn.f16.f32 b, %2;\n"
            " mov.b32 %0, {a, b};}"
            : "=r"(packed)
            : "f"(word.x), "f"(word.y));
        return packed;
    }
    static __device__ __forceinline__ Word kept(Word word) { return widen(narrow(word)); }

    static __device__ __forceinline__ void load(const Unit* at, int, Word (&words)[4]) {
        const Unit unit = *at;
        words[0] = widen(unit.x);
        words[1] = widen(unit.y);
        words[2] = widen(unit.z);
        words[3] = widen(unit.w);
    }
    static __device__ __forceinline__ void store(Unit* at, int, const Word (&words)[4]) {
        *at = make_uint4(narrow(words[0]), narrow(words[1]), narrow(words[2]), narrow(words[3]));
    }
};

struct Float16Halves : SplitFloat {
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
    static __device__ __forceinline__ void store(Unit* at, int, int side, const Word (&words)[4]) {
        reinterpret_cast<uint2*>(at)[side] = make_uint2(
            Float16::narrow(make_float2(words[0], words[1])),
            Float16::narrow(make_float2(words[2], words[3])));
    }
};
