// Communication between blocks: relaxed and acquire accesses to global memory. And a barrier for
// warps of one block that do different work.
#pragma once
#include "device.cuh"

// Copies COUNT registers of 32 bits from or to shared memory, as many at once as alignment allows.
template <int COUNT>
DEVICE void copy_registers(uint32* to, const uint32* from) {
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from + i);
    } else if constexpr (COUNT % 2 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2)
            *reinterpret_cast<uint2*>(to + i) = *reinterpret_cast<const uint2*>(from + i);
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) to[i] = from[i];
    }
}

// The same in global memory that other blocks access meanwhile. Each register arrives whole, in
// any order.
template <int COUNT>
DEVICE void load_relaxed(uint32* to, const uint32* from) {
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(to[i]), "=r"(to[i + 1]), "=r"(to[i + 2]), "=r"(to[i + 3])
                         : "l"(from + i)
                         : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                         : "=r"(to[i])
                         : "l"(from + i)
                         : "memory");
    }
}
template <int COUNT>
DEVICE void store_relaxed(uint32* to, const uint32* from) {
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};"
                         :
                         : "l"(to + i), "r"(from[i]), "r"(from[i + 1]), "r"(from[i + 2]),
                           "r"(from[i + 3])
                         : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile("st.relaxed.gpu.global.u32 [%0], %1;"
                         :
                         : "l"(to + i), "r"(from[i])
                         : "memory");
    }
}

DEVICE uint32 load_acquire(const uint32* at) {
    uint32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

// A barrier of all THREADS of the block. Its warps may wait at different places of the code, for
// which __syncthreads is not defined, nor bar.sync, which is short for barrier.sync.aligned.
template <int THREADS> DEVICE void wait_for_block() {
    asm volatile("barrier.sync 1, %0;" : : "n"(THREADS) : "memory");
}
