// Shared by the kernels of papers/plain_steps.cu: number types, layouts, and the memory of a
// message.
#pragma once
#include "hierarchical/labels.cuh"

// Nodes of one colour in a row: label after label of the whole row, or node after node.
enum Layout { DISPARITY_MAJOR, PIXEL_MAJOR };

// One level of the pyramid; a node (x, y) has the colour (x + y) % 2 and the column x / 2.
struct StorageLevel {
    void* cost[2];      // of each colour
    void* sent[2][4];   // messages by the nodes of a colour in a direction
    int width, height;  // nodes
    int pitch;          // columns of one colour in a row, with padding
};

// Element of label 0 of a node in any array of a level, and elements from one label to the next.
template <int DISPARITIES, Layout LAYOUT>
DEVICE size_t element(const StorageLevel& level, int y, int column) {
    return LAYOUT == DISPARITY_MAJOR ? size_t(y) * DISPARITIES * level.pitch + column
                                     : (size_t(y) * level.pitch + column) * DISPARITIES;
}
template <Layout LAYOUT> DEVICE int label_step(const StorageLevel& level) {
    return LAYOUT == DISPARITY_MAJOR ? level.pitch : 1;
}

DEVICE float widen_float16(uint16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
DEVICE uint16 narrow_to_float16(float value) {
    uint16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// A number type of messages: Stored in memory, Value in arithmetic (PIXELS nodes at once), Sum for
// data costs above level 0. Beliefs are Totals.

// float32 with the order of sums and the mean of the reference maps: no operation is contracted.
struct Singles {
    using Stored = float;
    using Sum = float;
    using Value = float;
    using Total = float;
    static constexpr int PIXELS = 1;
    static constexpr bool USES_MEAN = true;

    static DEVICE Value largest() { return __int_as_float(0x7f800000); }
    static DEVICE Value parameter(float value, int) { return value; }
    static DEVICE Value add(Value a, Value b) { return __fadd_rn(a, b); }
    static DEVICE Value subtract(Value a, Value b) { return __fadd_rn(a, -b); }
    static DEVICE Value least(Value a, Value b) { return fminf(a, b); }
    static DEVICE Total widen(float stored) { return stored; }
    static DEVICE Stored narrow(float value) { return value; }
    // In the order of the values, some of which are negative.
    static DEVICE uint32 ordered_bits(Total value) {
        const uint32 bits = __float_as_uint(value);
        return bits >> 31 ? ~bits : bits | 0x80000000u;
    }
};

// float16 in memory alone.
struct Halves : Singles {
    using Stored = uint16;
    static constexpr bool USES_MEAN = false;

    using Singles::widen;
    static DEVICE Total widen(uint16 stored) { return widen_float16(stored); }
    static DEVICE Stored narrow(float value) { return narrow_to_float16(value); }
};

// float16 in memory and arithmetic, two nodes of a row at once. Values are at least 0, so the bit
// patterns are in their order.
struct PackedHalves : Halves {
    using Value = uint32;
    static constexpr int PIXELS = 2;

    static DEVICE Value largest() { return 0x7c007c00u; }
    static DEVICE Value pack(float low, float high) {
        return uint32(narrow_to_float16(low)) | uint32(narrow_to_float16(high)) << 16;
    }
    static DEVICE Value parameter(float value, int) { return pack(value, value); }
    static DEVICE Value add(Value a, Value b) {
        Value sum;
        asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
        return sum;
    }
    static DEVICE Value subtract(Value a, Value b) {
        Value difference;
        asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
        return difference;
    }
    static DEVICE Value least(Value a, Value b) {
#if __CUDA_ARCH__ >= 800
        Value smaller;
        asm("min.f16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
        return smaller;
#else
        return __vminu2(a, b);
#endif
    }
};

// int16 with the least value subtracted: the same bits as in every other kernel of this type.
struct Integers {
    using Stored = short;
    using Sum = short;
    using Value = int;
    using Total = int;
    static constexpr int PIXELS = 1;
    static constexpr bool USES_MEAN = false;

    static DEVICE Value largest() { return NO_SECOND / 2; }
    static DEVICE Value parameter(float, int value) { return value; }
    static DEVICE Value add(Value a, Value b) { return a + b; }
    static DEVICE Value subtract(Value a, Value b) { return a - b; }
    static DEVICE Value least(Value a, Value b) { return min(a, b); }
    static DEVICE Total widen(short stored) { return stored; }
    static DEVICE Stored narrow(int value) { return short(value); }
    static DEVICE uint32 ordered_bits(Total value) { return uint32(value); }
};

// Places of the values of the message under computation. The first lie in registers (their loops
// are unrolled), the next in shared memory. The rest lie in an array that is indexed in a loop,
// which is therefore local memory. The kernel owns the arrays: as members of one object the
// indexed one would take the others with it.
template <typename Value, int REGISTERS, int SHARED, int LOCAL, int THREADS>
struct MessageValues {
    Value* registers;
    Value* shared;  // of this thread; values of a label lie side by side
    Value* local;

    template <typename Step> DEVICE void rising(Step step) const {
#pragma unroll
        for (int i = 0; i < REGISTERS; ++i) step(i, registers[i]);
#pragma unroll 1
        for (int i = 0; i < SHARED; ++i) step(REGISTERS + i, shared[i * THREADS]);
#pragma unroll 1
        for (int i = 0; i < LOCAL; ++i) step(REGISTERS + SHARED + i, local[i]);
    }
    template <typename Step> DEVICE void falling(Step step) const {
#pragma unroll 1
        for (int i = LOCAL - 1; i >= 0; --i) step(REGISTERS + SHARED + i, local[i]);
#pragma unroll 1
        for (int i = SHARED - 1; i >= 0; --i) step(REGISTERS + i, shared[i * THREADS]);
#pragma unroll
        for (int i = REGISTERS - 1; i >= 0; --i) step(i, registers[i]);
    }
};

// One vector over the disparities of a thread's node, or of its two nodes. ``apart``: elements
// from the first node to the second, 0 = there is one.
template <typename Kind, typename Element> struct NodeVector {
    using Value = typename Kind::Value;
    Element* first;
    int apart, step;  // step: from one label to the next

    DEVICE Value load(int label) const {
        const Element* const at = first + label * step;
        if constexpr (Kind::PIXELS == 1) {
            return Kind::widen(__ldg(at));
        } else {
            if (is_word(at)) return __ldg(reinterpret_cast<const uint32*>(at));
            return uint32(__ldg(at)) | uint32(__ldg(at + apart)) << 16;
        }
    }
    DEVICE void store(int label, Value value) const {
        Element* const at = first + label * step;
        if constexpr (Kind::PIXELS == 1) {
            *at = Kind::narrow(value);
        } else {
            if (is_word(at)) {
                *reinterpret_cast<uint32*>(at) = value;
                return;
            }
            *at = uint16(value);
            if (apart != 0) at[apart] = uint16(value >> 16);
        }
    }

private:
    DEVICE bool is_word(const void* at) const {
        return apart == 1 && (reinterpret_cast<size_t>(at) & 3) == 0;
    }
};

// Data cost as a term of h. Packed float16 above level 0: sums of costs exceed 11 bits. Their
// minimum is subtracted and changes no message. Values above ``cut``, four truncations, change
// none either: three messages and the truncation of the sent one hide them.
template <typename Kind, typename Element> struct NodeCost : NodeVector<Kind, const Element> {
    static constexpr bool IS_SHIFTED = Kind::PIXELS == 2 && sizeof(Element) == 4;
    float least[2] = {0.0f, 0.0f}, cut = 0.0f;

    template <int DISPARITIES> DEVICE void prepare(float truncation) {
        if constexpr (IS_SHIFTED) {
            cut = 4.0f * truncation;
            least[0] = least[1] = Singles::largest();
#pragma unroll 1
            for (int label = 0; label < DISPARITIES; ++label)
                for (int i = 0; i < 2; ++i) least[i] = fminf(least[i], at(label, i));
        }
    }
    DEVICE typename Kind::Value cost(int label) const {
        if constexpr (IS_SHIFTED)
            return Kind::pack(fminf(at(label, 0) - least[0], cut),
                              fminf(at(label, 1) - least[1], cut));
        else return this->load(label);
    }

private:
    DEVICE float at(int label, int i) const {
        return __ldg(this->first + label * this->step + i * this->apart);
    }
};
