// Communication between blocks: relaxed and acquire accesses to global memory, and asynchronous
// stores into another block's shared memory (distributed shared memory, sm_90), completed through
// an mbarrier. And a barrier for warps of one block that do different work.
#pragma once
#include "device.cuh"

// Copies COUNT registers of 32 bits from or to shared memory, as many at once as alignment allows.
template <int COUNT>
__device__ __forceinline__ void copy_registers(uint32* to, const uint32* from) {
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
__device__ __forceinline__ void load_relaxed(uint32* to, const uint32* from) {
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
__device__ __forceinline__ void store_relaxed(uint32* to, const uint32* from) {
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

__device__ __forceinline__ uint32 load_acquire(const uint32* at) {
    uint32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

// Blocks of a cluster store into each other's shared memory. One mbarrier for each edge counts the
// bytes that have arrived.
__device__ __forceinline__ uint32 shared_address(const void* at) {
    return uint32(__cvta_generic_to_shared(at));
}
__device__ __forceinline__ void init_barrier(uint64* barrier) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
                 :
                 : "r"(shared_address(barrier))
                 : "memory");
#endif
}
// Makes initialised barriers visible to the cluster; wait_for_cluster comes after it.
__device__ __forceinline__ void fence_barrier_init() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
// The next phase of the barrier ends after so many bytes.
__device__ __forceinline__ void expect_bytes(uint64* barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
#endif
}
// Waits until the phase of this parity has ended.
__device__ __forceinline__ void wait_parity(uint64* barrier, int parity) {
#if __CUDA_ARCH__ >= 900
    uint32 is_there = 0;
    while (is_there == 0)
        asm volatile(
            "{\n.reg .pred there;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 there, [%1], %2;\n"
            "selp.u32 %0, 1, 0, there;\n}"
            : "=r"(is_there)
            : "r"(shared_address(barrier)), "r"(parity)
            : "memory");
#endif
}
// Stores COUNT registers into the block ``rank`` of the cluster, at the place that ``to`` has in
// this block.
template <int COUNT>
__device__ __forceinline__ void store_async(uint32* to, uint64* barrier, int rank,
                                            const uint32* from) {
#if __CUDA_ARCH__ >= 900
    uint32 at, there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(to)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(there)
        : "r"(shared_address(barrier)), "r"(rank));
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile(
                "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
                "[%0], {%1, %2, %3, %4}, [%5];"
                :
                : "r"(at + 4 * i), "r"(from[i]), "r"(from[i + 1]), "r"(from[i + 2]),
                  "r"(from[i + 3]), "r"(there)
                : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile(
                "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 "
                "[%0], %1, [%2];"
                :
                : "r"(at + 4 * i), "r"(from[i]), "r"(there)
                : "memory");
    }
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// A barrier of all THREADS of the block. Its warps may wait at different places of the code, for
// which __syncthreads is not defined, nor bar.sync, which is short for barrier.sync.aligned.
template <int THREADS> __device__ __forceinline__ void wait_for_block() {
    asm volatile("barrier.sync 1, %0;" : : "n"(THREADS) : "memory");
}
