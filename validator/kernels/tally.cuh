// What a check counted: each thread for itself, then each warp, then all of them in the caller's memory.

#pragma once

#include "common.cuh"

// What is wrong, and how: the words of a check's `out`, in their order.
struct Tally {
    u64 wrong, zero, sentinel, first, last, looked, ones;
};

// Nothing looked at, nothing wrong.
static __device__ __forceinline__ Tally nothing() { return {0, 0, 0, ~0ull, 0, 0, 0}; }

// Number `k` is wrong. All ones are what a read gives that no device answered.
static __device__ __forceinline__ void count_wrong(Tally &tally, u64 k, bool zero, bool ones, bool sentinel) {
    tally.wrong += 1;
    tally.zero += zero;
    tally.ones += ones;
    tally.sentinel += sentinel;
    if (k < tally.first) tally.first = k;
    if (k > tally.last) tally.last = k;
}

// Adds up a warp's tallies in its first lane. `lanes` of the warp exist (a block's last warp may be
// short), and all of them come here together.
static __device__ __forceinline__ void gather(Tally &tally, u32 lane, u32 lanes) {
    const u32 mask = lanes == 32 ? 0xFFFFFFFFu : (1u << lanes) - 1;
    for (u32 step = 16; step > 0; step /= 2) {
        const u64 wrong = __shfl_down_sync(mask, tally.wrong, step), zero = __shfl_down_sync(mask, tally.zero, step);
        const u64 sentinel = __shfl_down_sync(mask, tally.sentinel, step), looked = __shfl_down_sync(mask, tally.looked, step);
        const u64 first = __shfl_down_sync(mask, tally.first, step), last = __shfl_down_sync(mask, tally.last, step);
        const u64 ones = __shfl_down_sync(mask, tally.ones, step);
        if (lane + step >= lanes) continue;
        tally.wrong += wrong;
        tally.zero += zero;
        tally.sentinel += sentinel;
        if (first < tally.first) tally.first = first;
        if (last > tally.last) tally.last = last;
        tally.looked += looked;
        tally.ones += ones;
    }
}

// Adds a kernel's tallies to out[0..6] and out[7]; every thread of it comes here, last of all. The host presets
// 0, 0, 0, all ones, 0, 0, 0, 0.
static __device__ __forceinline__ void add_up(Tally &tally, u64 *out) {
    // No thread has left: every warp is whole here, but for the lanes that its block never had.
    const u32 lane = threadIdx.x % 32, rest = blockDim.x - (threadIdx.x - lane);
    gather(tally, lane, rest < 32 ? rest : 32);
    if (lane != 0) return;
    // Only this kernel writes `out`, and the host reads it after its end: the device's scope is enough.
    atomicAdd(out + 5, tally.looked);
    if (tally.wrong == 0) return;
    atomicAdd(out, tally.wrong);
    atomicAdd(out + 1, tally.zero);
    atomicAdd(out + 2, tally.sentinel);
    atomicMin(out + 3, tally.first);
    atomicMax(out + 4, tally.last);
    atomicAdd(out + 7, tally.ones);
}
