// Copies by the SMs. Plain loads: a kernel starts with an empty L1 and no word is read twice, so none
// can be stale; plain stores are visible to all when the kernel has ended.

#include "common.cuh"

// Bytes in flight are what fills a link: 132 SMs x 512 threads x 12 x 16 B = 13 MB covers 450 GB/s for
// 29 us, far beyond any latency (nvbandwidth takes the same figures, so that the numbers compare).
#define COPY_DEPTH 12

// The bandwidth copy; 512 threads a block, as many blocks as SMs. A round moves COPY_DEPTH vectors per
// thread, a grid apart. The last round is guarded, not a loop of its own: its loads fly together too.
extern "C" __global__ void fl_copy16(uint4 *dst, const uint4 *src, u64 n16) {
    const u64 all = thread_count();
    u64 at = thread_number();
    for (; at + (COPY_DEPTH - 1) * all < n16; at += COPY_DEPTH * all) {
        uint4 held[COPY_DEPTH];
        const uint4 *from = src + at;
        uint4 *to = dst + at;
#pragma unroll
        for (u32 d = 0; d < COPY_DEPTH; d++, from += all) held[d] = *from;
#pragma unroll
        for (u32 d = 0; d < COPY_DEPTH; d++, to += all) *to = held[d];
    }
    uint4 held[COPY_DEPTH];
#pragma unroll
    for (u32 d = 0; d < COPY_DEPTH; d++)
        if (at + d * all < n16) held[d] = src[at + d * all];
#pragma unroll
    for (u32 d = 0; d < COPY_DEPTH; d++)
        if (at + d * all < n16) dst[at + d * all] = held[d];
}

// For what is no multiple of 16 bytes, or not aligned to them.
extern "C" __global__ void fl_copy_words(u32 *dst, const u32 *src, u64 words) {
    const u64 all = thread_count();
    for (u64 k = thread_number(); k < words; k += all) dst[k] = src[k];
}

// The SM mode of p2pBandwidthLatencyTest: the grid strides over 16-byte vectors.
extern "C" __global__ void fl_copy_vec(uint4 *dst, const uint4 *src, u64 n16) {
    const u64 all = thread_count();
    for (u64 k = thread_number(); k < n16; k += all) dst[k] = src[k];
}
