// The pattern: what every word of a tested buffer must be. Plain C as well, so that a test can compile it
// for the host; pattern-vectors.toml holds known values for all who implement it.

#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

// Word number i of the pattern with this seed. Both halves of both numbers count: a transfer that lands
// 2^32 words away, or that is left from a round with another seed, does not look right.
// The last line is the finalizer "lowbias32" (constants by Chris Wellons' hash prospector).
static __device__ __forceinline__ u32 word(u64 seed, u64 i) {
    u32 h = (u32)i * 0x9E3779B1u + (u32)seed;
    h ^= (u32)(i >> 32) * 0x85EBCA6Bu + (u32)(seed >> 32);
    h ^= h >> 16; h *= 0x7FEB352Du; h ^= h >> 15; h *= 0x846CA68Bu; h ^= h >> 16;
    return h;
}
