// Used by every kernel: integer types, loads, byte permutations and time stamps.
#pragma once

using int16 = short;
using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

// A function of kernels. All are inlined: a call would keep its arguments in registers and memory
// of its own.
#define DEVICE __device__ __forceinline__

// The second least belief where every label is at most 1 from the best one.
constexpr int NO_SECOND = 0x7fffffff;

DEVICE uint64 time_in_ns() {
    uint64 now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}
// Writes the time from the first thread of a grid; null = no time is wanted.
DEVICE void stamp_time(uint64* at) {
    if (at == nullptr || (threadIdx.x | threadIdx.y | blockIdx.x | blockIdx.y | blockIdx.z) != 0)
        return;
    *at = time_in_ns();
}
// Writes the time from every block. The one that stays is the end of one of the last blocks.
DEVICE void stamp_end(uint64* at) {
    if (at != nullptr && threadIdx.x == 0) *at = time_in_ns();
}

// Writes the time from the block of a grid that ends last. ``ended`` counts blocks; the last block
// sets it back to 0. All threads of a block call it.
DEVICE void stamp_last(uint64* at, uint32* ended) {
    if (at == nullptr) return;
    __syncthreads();
    const uint32 others = gridDim.x * gridDim.y - 1;
    if ((threadIdx.x | threadIdx.y) == 0 && atomicInc(ended, others) == others) *at = time_in_ns();
}

// One type or the other.
template <bool IS_FIRST, typename First, typename Second> struct Conditional {
    using Type = First;
};
template <typename First, typename Second>
struct Conditional<false, First, Second> {
    using Type = Second;
};

// The least power of two that is at least ``count``, but at most 32, a warp.
__device__ constexpr int power_of_two_from(int count) {
    int power = 1;
    while (power < count && power < 32) power *= 2;
    return power;
}
__device__ constexpr int logarithm_of(int power) {
    int logarithm = 0;
    while (power >> logarithm > 1) ++logarithm;
    return logarithm;
}

// Loads a value. READ_ONLY: it lies in device memory that no thread of the kernel writes.
template <bool READ_ONLY, typename Value>
DEVICE Value fetch(const Value* at) {
    if constexpr (READ_ONLY) return __ldg(at);
    else return *at;
}

// __byte_perm whose selectors have a fourth bit: the sign of that byte, eight times.
DEVICE uint32 permute_signed(uint32 a, uint32 b, uint32 selectors) {
    uint32 result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selectors));
    return result;
}
