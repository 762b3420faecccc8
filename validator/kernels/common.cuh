// What all kernels share: how threads divide the work, and the few accesses whose ordering C++ cannot
// say. All grids and blocks are one-dimensional.
//
// Memory: chapter "Memory Consistency Model" of the PTX ISA. A plain access is "weak": it may be served
// from this SM's L1, which nobody else's writes reach. `volatile` is "relaxed at system scope": it goes
// to where the owner's L2 or memory decides, which is where a peer's writes arrive.

#pragma once

#include "word.cuh"

// Whole 16-byte accesses are as wide as a thread can make them.
#define WORDS_PER_VECTOR 4

static __device__ __forceinline__ u64 thread_number() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ __forceinline__ u64 thread_count() { return (u64)gridDim.x * blockDim.x; }

// A run of words that starts anywhere: `head` words up to the first 16-byte boundary, then `vectors`
// of 16 bytes, then what is left.
struct Parts {
    u64 head, vectors;
};

static __device__ __forceinline__ Parts parts(const u32 *from, u64 words) {
    u64 head = (16 - (u64)from % 16) % 16 / sizeof(u32);
    if (head > words) head = words;
    return {head, (words - head) / WORDS_PER_VECTOR};
}

// C++ has no volatile copy of a vector.
static __device__ __forceinline__ uint4 load_volatile(const uint4 *from) {
    uint4 it;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(it.x), "=r"(it.y), "=r"(it.z), "=r"(it.w)
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
    return it;
}

static __device__ __forceinline__ u32 load_volatile(const u32 *from) { return *(const volatile u32 *)from; }

// Nothing that follows in this thread is read or written before this load.
static __device__ __forceinline__ u32 load_acquire_system(const u32 *from) {
    u32 it;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(it) : "l"(__cvta_generic_to_global(from)) : "memory");
    return it;
}

// Who sees this store, by an acquire, sees what this thread did before it.
static __device__ __forceinline__ void store_release_system(u32 *to, u32 it) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(__cvta_generic_to_global(to)), "r"(it) : "memory");
}
