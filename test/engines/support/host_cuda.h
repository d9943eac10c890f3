// What the kernels need of CUDA, on the host.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "host_races.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
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

// Threads of the kernels run one at a time, each on a stack of its own, until they wait. Every
// second turn goes through them backwards, so that a missing barrier may show itself.
struct HostBarrier {
    int of, arrived = 0;
    unsigned phase = 0;
    unsigned long long passed[2] = {};  // by the parity of the phase: what it orders
};
struct HostWarp {
    HostBarrier barrier{32};
    unsigned long long values[32];
};
struct HostThread {
    ucontext_t context;
    Index thread, block, block_size, grid;
    HostWarp* warp = nullptr;
    HostBarrier* threads_of_block = nullptr;
    int* said = nullptr;      // by __syncthreads_or
    uint4* dynamic_shared = nullptr;  // of this block
    const HostBarrier* waits_for = nullptr;
    unsigned waits_in = 0;  // phase
    bool ended = true;
    void* fiber = nullptr;
    HostFences fences;
};
static HostThread host_caller;  // what is not a thread of a kernel
static HostThread* host_running = &host_caller;
HOST_UNSEEN static HostThread* host_now() { return host_running; }
#define host_thread host_now()
#define threadIdx (host_thread->thread)
#define blockIdx (host_thread->block)
#define blockDim (host_thread->block_size)
#define gridDim (host_thread->grid)
#define host_shared (host_thread->dynamic_shared)
static HostBarrier host_grid;
static unsigned long long host_begin, host_end;  // of a kernel: what they order

HOST_UNSEEN static void host_yield() {
    HostThread* const thread = host_running;
    host_turn_to(host_caller.fiber);
    swapcontext(&thread->context, &host_caller.context);
}
enum HostOrder { UNORDERED, ORDERED };
HOST_UNSEEN static void host_wait(HostBarrier& barrier, HostOrder order = ORDERED) {
    const unsigned phase = barrier.phase;
    void* const passed = &barrier.passed[phase % 2];
    if (order == ORDERED) host_release(passed);
    if (++barrier.arrived == barrier.of) {
        barrier.arrived = 0;
        ++barrier.phase;
    } else {
        host_running->waits_for = &barrier;
        host_running->waits_in = phase;
        host_yield();
        host_running->waits_for = nullptr;
    }
    if (order == ORDERED) host_acquire(passed);
}

struct HostThreads {
    explicit HostThreads(int count) : threads(count) {
        memory = static_cast<char*>(mmap(nullptr, count * STACK, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        if (memory == MAP_FAILED) stop("no memory for stacks");
        for (int i = 0; i < count; ++i)
            if (mprotect(memory + i * STACK, PAGE, PROT_NONE)) stop("no guard of a stack");
    }
    HostThreads(const HostThreads&) = delete;
    ~HostThreads() { munmap(memory, threads.size() * STACK); }

    // Each thread begins as `prepare(i, thread)` leaves it; returns when all have ended.
    template <typename Kernel, typename Prepare>
    HOST_UNSEEN void run(const Kernel& kernel, const Prepare& prepare) {
        running<Kernel> = &kernel;
        const int count = int(threads.size());
        HostThread* const first = threads.data();
        for (int i = 0; i < count; ++i) {
            HostThread& thread = first[i];
            thread.ended = false;
            thread.fiber = host_fiber(i);
            thread.fences = HostFences();
            prepare(i, thread);
            getcontext(&thread.context);
            thread.context.uc_stack.ss_sp = memory + i * STACK + PAGE;
            thread.context.uc_stack.ss_size = STACK - PAGE;
            thread.context.uc_link = &host_caller.context;
            makecontext(&thread.context, &begin<Kernel>, 0);
        }
        host_caller.fiber = host_own_fiber();
        host_release(&host_begin);
        bool backwards = false, all_ended = false;
        for (; !all_ended; backwards = !backwards) {
            bool all_wait = all_ended = true;
            for (int i = 0; i < count; ++i) {
                HostThread& thread = first[backwards ? count - 1 - i : i];
                if (thread.ended) continue;
                all_ended = false;
                if (thread.waits_for && thread.waits_for->phase == thread.waits_in) continue;
                all_wait = false;
                host_running = &thread;
                host_turn_to(thread.fiber);
                swapcontext(&host_caller.context, &thread.context);
                host_running = &host_caller;
            }
            if (all_wait && !all_ended) stop("threads wait for others that have ended");
        }
        host_acquire(&host_end);
    }
    template <typename Kernel> HOST_UNSEEN static void begin() {
        host_acquire(&host_begin);
        (*running<Kernel>)();
        host_release(&host_end);
        host_running->ended = true;
        host_turn_to(host_caller.fiber);
    }
    static void stop(const char* why) {
        std::fprintf(stderr, "%s\n", why);
        std::abort();
    }

    template <typename Kernel> static inline const Kernel* running = nullptr;
    static constexpr size_t STACK = 1 << 18, PAGE = 1 << 16;
    std::vector<HostThread> threads;
    char* memory;
};

// One block after the other, its threads side by side.
struct HostBlock {
    explicit HostBlock(int threads) : all(threads), warps(threads / 32), barrier{threads},
                                      threads(threads) {}
    template <typename Kernel> void run(Index at, Index grid, const Kernel& kernel) {
        all.run(kernel, [&](int i, HostThread& thread) {
            thread.thread = {unsigned(i), 0, 0};
            thread.block = at;
            thread.block_size = {unsigned(threads), 1, 1};
            thread.grid = grid;
            thread.warp = &warps[i / 32];
            thread.threads_of_block = &barrier;
            thread.said = &said;
            thread.dynamic_shared = shared.data();
        });
    }

    HostThreads all;
    std::vector<uint4> shared = std::vector<uint4>(1 << 14);
    std::vector<HostWarp> warps;
    HostBarrier barrier;
    int threads, said = 0;
};

inline void __syncthreads() { host_wait(*host_thread->threads_of_block); }
HOST_UNSEEN static int __syncthreads_count(int says) {
    int& said = *host_running->said;
    said += says != 0;
    __syncthreads();
    const int found = said;
    __syncthreads();
    said = 0;
    __syncthreads();
    return found;
}
inline int __syncthreads_or(int says) { return __syncthreads_count(says) != 0; }
inline void __syncwarp() { host_wait(host_thread->warp->barrier); }

// Atomic accesses are relaxed. What is before a fence is published by any later store of the
// thread, and a fence takes in what the stores had published that the thread has loaded.
HOST_UNSEEN static void __threadfence() {
    HostFences& fences = host_running->fences;
    for (const void* at : fences.loaded) if (at) host_acquire(at);
    fences.has_fenced = true;
}
HOST_UNSEEN static void host_loads(const void* at) {
    HostFences& fences = host_running->fences;
    fences.loaded[fences.loads++ % 8] = at;
}
HOST_UNSEEN static void host_stores(const void* at) {
    if (host_running->fences.has_fenced) host_release(at);
}
template <typename Value> Value host_load(const Value* at) {
    host_loads(at);
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}
template <typename Value> void host_store(Value* at, Value value) {
    host_stores(at);
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}
inline void __nanosleep(unsigned) { host_yield(); }

template <typename Value>
HOST_UNSEEN Value host_shuffle(Value value, int lane) {
    HostWarp& warp = *host_running->warp;
    unsigned long long word = 0;
    __builtin_memcpy(&word, &value, sizeof value);
    warp.values[host_running->thread.x % 32] = word;
    host_wait(warp.barrier, UNORDERED);
    word = warp.values[lane & 31];
    host_wait(warp.barrier, UNORDERED);
    Value found;
    __builtin_memcpy(&found, &word, sizeof found);
    return found;
}
template <typename Value> Value __shfl_sync(unsigned, Value value, int lane, int width = 32) {
    return host_shuffle(value, int(threadIdx.x % 32) / width * width + (lane & width - 1));
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
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
    for (int other = 1; other < 32; other *= 2)
        value = std::min(value, __shfl_xor_sync(mask, value, other));
    return value;
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
    bits &= 31;
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
    host_loads(at);
    host_stores(at);
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
inline unsigned atomicOr(unsigned* at, unsigned value) {
    host_loads(at);
    host_stores(at);
    return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}
template <typename Value> Value atomicMin(Value* at, Value value) {
    Value known = host_load(at);
    host_stores(at);
    while (known > value
           && !__atomic_compare_exchange_n(at, &known, value, false, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED)) {}
    return known;
}

// A kernel of one argument in memory, and at most one number; its shared memory holds rubbish.
template <typename Argument, typename... More>
void host_launch(void (*kernel)(Argument, More...), const void* argument, const unsigned* grid,
                 const unsigned* size, int shared_bytes, int more) {
    HostBlock block(size[0] * size[1]);
    block.shared.assign(shared_bytes / 16 + 1, {0x5b5b5b5b, 0x5b5b5b5b, 0x5b5b5b5b, 0x5b5b5b5b});
    for (unsigned z = 0; z < grid[2]; ++z)
        for (unsigned y = 0; y < grid[1]; ++y)
            for (unsigned x = 0; x < grid[0]; ++x)
                block.run({x, y, z}, {grid[0], grid[1], grid[2]}, [&] {
                    blockDim = {size[0], size[1], 1};
                    threadIdx = {threadIdx.x % size[0], threadIdx.x / size[0], 0};
                    kernel(*static_cast<const Argument*>(argument), More(more)...);
                });
}
