// What the kernels of tiled belief propagation need of CUDA, on threads of the host.
#pragma once
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __shared__ static  // one block runs after the other
#define __CUDA_ARCH__ 900

struct Index { unsigned x = 0, y = 0, z = 0; };
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }

struct HostWarp {
    pthread_barrier_t barrier;
    unsigned long long values[32];
};
inline thread_local Index threadIdx, blockIdx, blockDim, gridDim;
inline thread_local HostWarp* host_warp;
inline thread_local pthread_barrier_t* host_block;
inline thread_local int* host_said;      // by __syncthreads_or
inline thread_local uint4* host_shared;  // of this block
inline std::vector<uint4*> host_shared_of_blocks;
inline pthread_barrier_t host_grid;

// One block after the other, its threads side by side.
struct HostBlock {
    explicit HostBlock(int threads) : warps(threads / 32), threads(threads) {
        pthread_barrier_init(&barrier, nullptr, threads);
        for (auto& warp : warps) pthread_barrier_init(&warp.barrier, nullptr, 32);
    }
    template <typename Kernel> void run(Index at, Index grid, const Kernel& kernel);

    pthread_barrier_t barrier;
    std::vector<uint4> shared = std::vector<uint4>(1 << 14);
    std::vector<HostWarp> warps;
    int threads, said = 0;
};

template <typename Kernel> void HostBlock::run(Index at, Index grid, const Kernel& kernel) {
    std::vector<std::thread> all;
    for (int thread = 0; thread < threads; ++thread)
        all.emplace_back([&, thread] {
            threadIdx.x = thread;
            blockIdx = at;
            blockDim = {unsigned(threads), 1, 1};
            gridDim = grid;
            host_block = &barrier;
            host_said = &said;
            host_warp = &warps[thread / 32];
            host_shared = shared.data();
            kernel();
        });
    for (auto& thread : all) thread.join();
}

inline void __syncthreads() { pthread_barrier_wait(host_block); }
inline int __syncthreads_or(int says) {
    if (says) __atomic_store_n(host_said, 1, __ATOMIC_SEQ_CST);
    __syncthreads();
    const int said = __atomic_load_n(host_said, __ATOMIC_SEQ_CST);
    __syncthreads();
    if (threadIdx.x == 0) __atomic_store_n(host_said, 0, __ATOMIC_SEQ_CST);
    __syncthreads();
    return said;
}
inline int __syncthreads_count(int says) {
    if (says) __atomic_fetch_add(host_said, 1, __ATOMIC_SEQ_CST);
    __syncthreads();
    const int said = __atomic_load_n(host_said, __ATOMIC_SEQ_CST);
    __syncthreads();
    if (threadIdx.x == 0) __atomic_store_n(host_said, 0, __ATOMIC_SEQ_CST);
    __syncthreads();
    return said;
}
inline void __syncwarp() { pthread_barrier_wait(&host_warp->barrier); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __nanosleep(unsigned) { sched_yield(); }

template <typename Value> Value __shfl_sync(unsigned, Value value, int lane) {
    std::memcpy(&host_warp->values[threadIdx.x % 32], &value, sizeof value);
    pthread_barrier_wait(&host_warp->barrier);
    Value found;
    std::memcpy(&found, &host_warp->values[lane & 31], sizeof found);
    pthread_barrier_wait(&host_warp->barrier);
    return found;
}
template <typename Value> Value __shfl_xor_sync(unsigned mask, Value value, int other) {
    return __shfl_sync(mask, value, (threadIdx.x % 32) ^ other);
}

// Lanes of a width take each other's values; at its end each keeps its own.
template <typename Value>
Value __shfl_up_sync(unsigned mask, Value value, unsigned lanes, unsigned width = 32) {
    const unsigned lane = threadIdx.x % 32;
    return __shfl_sync(mask, value, lane % width >= lanes ? lane - lanes : lane);
}
template <typename Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned lanes, unsigned width = 32) {
    const unsigned lane = threadIdx.x % 32;
    return __shfl_sync(mask, value, lane % width + lanes < width ? lane + lanes : lane);
}
inline unsigned __reduce_min_sync(unsigned, unsigned value) {
    host_warp->values[threadIdx.x % 32] = value;
    pthread_barrier_wait(&host_warp->barrier);
    const unsigned found = unsigned(*std::min_element(host_warp->values, host_warp->values + 32));
    pthread_barrier_wait(&host_warp->barrier);
    return found;
}
inline bool __any_sync(unsigned mask, bool says) {
    bool any = says;
    for (int other = 1; other < 32; other *= 2) any |= __shfl_xor_sync(mask, any, other);
    return any;
}
inline unsigned __ballot_sync(unsigned, int says) {
    unsigned found = 0;
    for (int lane = 0; lane < 32; ++lane)
        found |= unsigned(__shfl_sync(~0u, says, lane) != 0) << lane;
    return found;
}

inline unsigned host_permute(unsigned a, unsigned b, unsigned selectors) {
    const unsigned long long bytes = (unsigned long long)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned selector = selectors >> 4 * i & 15;
        unsigned byte = bytes >> 8 * (selector & 7) & 0xff;
        if (selector & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selectors) {
    return host_permute(a, b, selectors & 0x7777);
}
inline unsigned __funnelshift_r(unsigned a, unsigned b, int bits) {
    return bits ? a >> bits | b << (32 - bits) : a;
}

inline int host_half(unsigned word, int i) { return short(word >> 16 * i); }
template <typename Function> unsigned host_halves(const Function& of) {
    return (of(0) & 0xffffu) | unsigned(of(1)) << 16;
}
inline unsigned __vmins2(unsigned a, unsigned b) {
    return host_halves([&](int i) { return std::min(host_half(a, i), host_half(b, i)); });
}
inline unsigned __vimin3_s16x2(unsigned a, unsigned b, unsigned c) {
    return __vmins2(__vmins2(a, b), c);
}
inline unsigned __vabsdiffu4(unsigned a, unsigned b) {
    unsigned result = 0;
    for (int i = 0; i < 32; i += 8)
        result |= unsigned(std::abs(int(a >> i & 0xff) - int(b >> i & 0xff))) << i;
    return result;
}
inline unsigned __vneg2(unsigned a) {
    return host_halves([&](int i) { return -host_half(a, i); });
}
// Stops where 16 bits do not hold a sum.
inline unsigned __viaddmin_s16x2(unsigned a, unsigned b, unsigned c) {
    return host_halves([&](int i) {
        const int sum = host_half(a, i) + host_half(b, i);
        if (sum != short(sum)) {
            std::fprintf(stderr, "%d does not fit 16 bits\n", sum);
            std::abort();
        }
        return std::min(sum, host_half(c, i));
    });
}
inline int __viaddmin_s32(int a, int b, int c) { return std::min(a + b, c); }
inline int __vimin3_s32(int a, int b, int c) { return std::min(std::min(a, b), c); }
inline int __dp2a_lo(int a, int b, int c) {
    return c + short(a) * (signed char)(b) + short(a >> 16) * (signed char)(b >> 8);
}

template <typename Value> Value __ldg(const Value* at) { return *at; }
template <typename Value> Value min(Value a, Value b) { return a < b ? a : b; }
template <typename Value> Value max(Value a, Value b) { return a > b ? a : b; }
inline unsigned min(unsigned a, int b) { return min(a, unsigned(b)); }
using std::abs;
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(bits) : 32; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdividef(float a, float b) { return a / b; }
inline int __float2int_rn(float value) { return int(std::nearbyint(value)); }
inline float __fadd_rz(float a, float b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline float __int_as_float(int bits) { return __uint_as_float(unsigned(bits)); }
inline unsigned atomicAdd(unsigned* at, unsigned value) {
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
inline unsigned atomicOr(unsigned* at, unsigned value) {
    return __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST);
}
inline int atomicMin(int* at, int value) {
    int known = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    while (known > value
           && !__atomic_compare_exchange_n(at, &known, value, false, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST)) {}
    return known;
}
inline unsigned long long atomicMin(unsigned long long* at, unsigned long long value) {
    unsigned long long known = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    while (known > value
           && !__atomic_compare_exchange_n(at, &known, value, false, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST)) {}
    return known;
}
