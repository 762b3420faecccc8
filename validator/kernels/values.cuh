// The values that collectives are tested with: whole numbers, so small that their sum over all ranks is
// exact in the element's type, in whatever order it is added up. Plain C as well, so that a test can compile
// it for the host; value-vectors.toml holds known values for all who implement it.

#pragma once

#include "word.cuh"

// ncclDataType_t and ncclRedOp_t of nccl.h, and a code of our own for values that nobody reduced.
#define INT32 2u
#define HALF 6u
#define FLOAT 7u
#define DOUBLE 8u
#define BFLOAT16 9u
#define SUM 0u
#define MAX 2u
#define MIN 3u
#define AVG 4u
#define COPY 0xFFFFFFFFu

// So much lies between one rank's seed and the next one's: 2^64 over the golden ratio.
#define RANK_STEP 0x9E3779B97F4A7C15ull

// A group is what one access moves.
#define GROUP_BYTES 16
#define GROUP_WORDS 4

// What a group must hold.
typedef struct {
    u64 seed;        // the first rank's
    u32 ranks;       // how many, from that one on
    u32 type, op;
    u32 range, scale, powers;
    u32 reciprocal;  // of range: all ones / range
} Values;

static __device__ __forceinline__ Values values_of(u64 seed, u32 rank, u32 ranks, u32 type, u32 op, u32 range, u32 scale,
                                                   u32 powers) {
    const Values it = {seed + rank * RANK_STEP, ranks, type, op, range, scale, powers, 0xFFFFFFFFu / range};
    return it;
}

// w % range in four instructions. With r = (2^32 - 1 - s) / range and s < range, w * r / 2^32 is less than 1
// below w / range and never above it: the quotient is right or one too small. In the latter case the
// remainder is one range too large; in the former, taking the range away wraps to something larger.
static __device__ __forceinline__ u32 modulo(u32 w, u32 range, u32 reciprocal) {
    const u32 rest = w - (u32)((u64)w * reciprocal >> 32) * range;
    return rest < rest - range ? rest : rest - range;
}

// A whole number greater than 0 in a type of 2 bytes, which holds it exactly: no rounding, no special values.
static __device__ __forceinline__ u32 narrow_bits(u32 type, u32 bits_of_float) {
    return type == HALF ? (bits_of_float >> 13) - ((127 - 15) << 10) : bits_of_float >> 16;
}

static __device__ __forceinline__ u32 float_bits(u32 value) {
    union { float number; u32 bits; } it;
    it.number = (float)value;
    return it.bits;
}

static __device__ __forceinline__ u64 double_bits(u64 value) {
    union { double number; u64 bits; } it;
    it.number = (double)value;
    return it.bits;
}

// Element `e` of a group becomes `value` in its type of `bytes`. All types but the last are too small for
// exact values of more than 32 bits.
static __device__ __forceinline__ void put(u32 *group, u32 bytes, u32 e, u32 type, u64 value) {
    if (bytes == 2) {
        const u32 bits = narrow_bits(type, float_bits((u32)value));
        group[e / 2] = e % 2 == 0 ? bits : group[e / 2] | bits << 16;
    } else if (bytes == 4) {
        group[e] = type == FLOAT ? float_bits((u32)value) : (u32)value;
    } else {
        const u64 bits = double_bits(value);
        group[2 * e] = (u32)bits;
        group[2 * e + 1] = (u32)(bits >> 32);
    }
}

// So many elements are made together: enough work for a thread to do at once, and few enough registers.
#define TOGETHER 4

// The elements from number `i` on, `n` of them; `n` and `bytes`, of an element, are constants where this is
// called. Of each rank only w % range is counted up, and what all ranks have in common is applied at the end:
// scale * (1 + a) + scale * (1 + b) = scale * (2 + (a + b)).
static __device__ __forceinline__ void make_elements(u32 *words, const Values *asked, u32 bytes, u32 n, u64 i) {
    u32 low[TOGETHER], high[TOGETHER];
#pragma unroll
    for (u32 e = 0; e < n; e++) low[e] = asked->op == MIN ? 0xFFFFFFFFu : 0, high[e] = 0;
    u64 seed = asked->seed;
#pragma unroll 1
    for (u32 r = 0; r < asked->ranks; r++, seed += RANK_STEP) {
        u32 rest[TOGETHER];
#pragma unroll
        for (u32 e = 0; e < n; e++) rest[e] = modulo(word(seed, i + e), asked->range, asked->reciprocal);
        if (asked->op == MAX) {
#pragma unroll
            for (u32 e = 0; e < n; e++) low[e] = rest[e] > low[e] ? rest[e] : low[e];
        } else if (asked->op == MIN) {
#pragma unroll
            for (u32 e = 0; e < n; e++) low[e] = rest[e] < low[e] ? rest[e] : low[e];
        } else {
#pragma unroll
            for (u32 e = 0; e < n; e++) {
                const u32 more = asked->powers ? 1u << rest[e] : rest[e];
                low[e] += more;
                if (bytes == 8) high[e] += low[e] < more;
            }
        }
    }
    const u32 extreme = asked->op == MAX || asked->op == MIN;
    const u32 scale = asked->op == AVG ? 1 : asked->scale;
#pragma unroll
    for (u32 e = 0; e < n; e++) {
        u64 value = (u64)high[e] << 32 | low[e];
        if (!asked->powers) value += extreme ? 1 : asked->ranks;
        else if (extreme) value = 1u << low[e];
        put(words, bytes, e, asked->type, value * scale);
    }
}

// The group whose first element has number `i`. Small elements are made in two rounds by the same code.
static __device__ __forceinline__ void make_group(u32 *group, const Values *asked, u32 bytes, u64 i) {
    if (bytes == 8) {
        make_elements(group, asked, 8, 2, i);
    } else if (bytes == 4) {
        make_elements(group, asked, 4, TOGETHER, i);
    } else {
        group[2] = group[3] = 0;
#pragma unroll 1
        for (u32 round = 0; round < 2; round++, i += TOGETHER) {
            group[0] = group[2], group[1] = group[3];
            make_elements(group + 2, asked, 2, TOGETHER, i);
        }
    }
}
