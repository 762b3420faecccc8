// Helpers of measurements: a kernel that holds a stream until the host has enqueued everything, and a
// chase of pointers that measures one load at a time.

#include "common.cuh"

// Returns when *flag is set, or after max_cycles: a host that died leaves no kernel behind. One thread.
extern "C" __global__ void fl_spin(const volatile u32 *flag, u64 max_cycles) {
    const u64 start = clock64();
    while (*flag == 0 && (u64)clock64() - start < max_cycles) {
    }
}

// A ring of `count` pointers, each `stride_bytes` behind the last, the last one pointing to the first.
// They are this process's addresses: the chase must run in the process that made the ring.
extern "C" __global__ void fl_chase_init(u64 *ring, u64 count, u64 stride_bytes) {
    const u64 all = thread_count();
    for (u64 k = thread_number(); k < count; k += all) {
        const u64 next = k + 1 == count ? 0 : k + 1;
        ring[k * (stride_bytes / sizeof(u64))] = (u64)ring + next * stride_bytes;
    }
}

// `steps` loads, each from where the last one points: out[0] where it ended, out[1] the cycles. Volatile:
// a ring that fits into L1 would be measured there. One thread.
extern "C" __global__ void fl_chase(const u64 *start, u64 steps, u64 *out) {
    u64 at = (u64)start;
    const u64 begun = clock64();
#pragma unroll 8
    for (u64 step = 0; step < steps; step++) at = *(const volatile u64 *)at;
    // The store needs the last load's answer and instructions are issued in order, so the second reading
    // of the clock comes after it; all three are volatile and keep their order.
    *(volatile u64 *)out = at;
    out[1] = (u64)clock64() - begun;
}
