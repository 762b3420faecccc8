// Are atomic operations at system scope atomic between GPUs? Every thread of every GPU adds to one
// counter; the sum must be exact.

#include "common.cuh"

// `times` additions by every thread. Each hangs on the last one's answer; a counter never reaches 2^63, so
// 1 is added. Of a constant the compiler would make one addition of 32 per warp, and most of the contention
// that is asked about would be gone. An answer of all ones, as a dead path gives, spoils the sum.
extern "C" __global__ void fl_atomic_add(u64 *counter, u64 times) {
    u64 seen = 0;
#pragma unroll 1
    for (u64 k = 0; k < times; k++) seen = atomicAdd_system(counter, 1 + (seen >> 63));
}

// Some seconds. A path that answers a compare-and-swap with nonsense would never let one succeed.
#define CAS_CYCLES (1ull << 34)

// `times` additions by every thread, each by compare-and-swap. Gives up after CAS_CYCLES: the sum is
// then short, and says so.
extern "C" __global__ void fl_atomic_cas(u64 *counter, u64 times) {
    const u64 start = clock64();
    u64 seen = *(const volatile u64 *)counter;
    for (u64 k = 0; k < times; k++) {
        for (;;) {
            const u64 expected = seen;
            seen = atomicCAS_system(counter, expected, expected + 1);
            if (seen == expected) break;
            if ((u64)clock64() - start > CAS_CYCLES) return;
        }
        seen += 1;
    }
}
