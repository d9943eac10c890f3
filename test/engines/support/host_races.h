// What ThreadSanitizer has to know of emulated CUDA threads: which one runs, and what orders them.
//
// A thread is a fiber of ThreadSanitizer. Taking turns orders nothing, else it would hide every
// race. What does: barriers, and an atomic store after a fence that is loaded before another one.
// Shuffles and votes do not, as CUDA has it. Blocks that run one after the other are ordered.
#pragma once
#include <vector>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>

// A function whose own accesses are the emulation's and no kernel's.
#define HOST_UNSEEN __attribute__((noinline, no_sanitize_thread))

// One set of a process, whatever libraries it loads: a fiber takes milliseconds to make.
inline std::vector<void*> host_fibers;

inline void host_release(const void* at) { __tsan_release(const_cast<void*>(at)); }
inline void host_acquire(const void* at) { __tsan_acquire(const_cast<void*>(at)); }
HOST_UNSEEN inline void* host_fiber(int number) {
    while (int(host_fibers.size()) <= number) host_fibers.push_back(__tsan_create_fiber(0));
    return host_fibers[number];
}
HOST_UNSEEN inline void* host_own_fiber() { return __tsan_get_current_fiber(); }
HOST_UNSEEN inline void host_turn_to(void* fiber) {
    __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
}
#else
#define HOST_UNSEEN inline
inline void host_release(const void*) {}
inline void host_acquire(const void*) {}
inline void* host_fiber(int) { return nullptr; }
inline void* host_own_fiber() { return nullptr; }
inline void host_turn_to(void*) {}
#endif

// Of a thread: what a fence has before it, and what the next one orders.
struct HostFences {
    bool has_fenced = false;
    const void* loaded[8] = {};  // the last ones
    unsigned loads = 0;
};
