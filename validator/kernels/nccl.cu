// Fills memory with the values that a collective gets, and judges what it gave: bit by bit, for the values
// are exact. Both run on the memory's owner.

#include "common.cuh"
#include "tally.cuh"
#include "values.cuh"

// A run of elements that starts anywhere, in groups between 16-byte boundaries: the first one begins `lead`
// elements before the run, and of the first and the last a part may lie outside.
template <u32 BYTES>
struct Run {
    enum : u32 { EACH = GROUP_BYTES / BYTES };
    u64 lead, count, groups;

    __device__ __forceinline__ Run(const void *from, u64 count)
        : lead((u64)from % GROUP_BYTES / BYTES), count(count), groups((lead + count + EACH - 1) / EACH) {}

    // The number in the run of a group's first element; before the run it wraps, and is far behind its end.
    __device__ __forceinline__ u64 begin(u64 group) const { return group * EACH - lead; }
    __device__ __forceinline__ bool inside(u64 k) const { return k < count; }
    __device__ __forceinline__ bool whole(u64 k) const { return k < count && count - k >= EACH; }
};

// A vector access has its words in fields, and registers have no index.
static __device__ __forceinline__ uint4 vector_of(const u32 *words) {
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// Registers have no index either: a loop over elements takes the first and moves the others one place ahead.
template <u32 BYTES>
static __device__ __forceinline__ void move_ahead(u32 *words) {
    const u32 by = BYTES / 4;
#pragma unroll
    for (u32 c = 0; c < GROUP_WORDS; c++) {
        const u32 behind = c + 1 < GROUP_WORDS ? words[c + 1] : 0;
        if (BYTES == 2) words[c] = words[c] >> 16 | behind << 16;
        else words[c] = c + by < GROUP_WORDS ? words[(c + by) % GROUP_WORDS] : 0;
    }
}

template <u32 BYTES>
static __device__ __forceinline__ void store_first(void *to, u32 e, const u32 *words) {
    if (BYTES == 2) ((unsigned short *)to)[e] = (unsigned short)words[0];
    if (BYTES == 4) ((u32 *)to)[e] = words[0];
    if (BYTES == 8) ((u64 *)to)[e] = (u64)words[1] << 32 | words[0];
}

template <u32 BYTES>
static __device__ __forceinline__ void load_last(const void *from, u32 e, u32 *words) {
    if (BYTES == 2) words[3] |= (u32)((const volatile unsigned short *)from)[e] << 16;
    if (BYTES == 4) words[3] = ((const volatile u32 *)from)[e];
    if (BYTES == 8) {
        const u64 it = ((const volatile u64 *)from)[e];
        words[2] = (u32)it, words[3] = (u32)(it >> 32);
    }
}

// Not 0 if any bit of the first element is set.
template <u32 BYTES>
static __device__ __forceinline__ u32 first_bits(const u32 *words) {
    if (BYTES == 2) return words[0] & 0xFFFF;
    return BYTES == 4 ? words[0] : words[0] | words[1];
}

// Whether all bits of the first element are ones.
template <u32 BYTES>
static __device__ __forceinline__ bool first_ones(const u32 *words) {
    if (BYTES == 2) return (words[0] & 0xFFFF) == 0xFFFF;
    return (BYTES == 4 ? words[0] : words[0] & words[1]) == ~0u;
}

template <u32 BYTES>
static __device__ __forceinline__ void fill_run(void *dst, u64 count, const Values &values, u64 first) {
    const Run<BYTES> run(dst, count);
    const u64 all = thread_count();
    uint4 *groups = (uint4 *)((u64)dst - run.lead * BYTES);
    for (u64 g = thread_number(); g < run.groups; g += all) {
        const u64 k = run.begin(g);
        u32 words[GROUP_WORDS];
        make_group(words, &values, BYTES, first + k);
        if (run.whole(k)) {
            groups[g] = vector_of(words);
            continue;
        }
#pragma unroll 1
        for (u32 e = 0; e < Run<BYTES>::EACH; e++, move_ahead<BYTES>(words))
            if (run.inside(k + e)) store_first<BYTES>(groups + g, e, words);
    }
}

// The runs of several calls: call `c` has its own `stride` elements behind that of the call before, and its
// numbers begin `step` later.
struct Calls {
    u64 count, stride, step;
};

template <u32 BYTES>
static __device__ __forceinline__ void fill(void *dst, u64 count, const Values &values, u64 first, const Calls &calls) {
    for (u64 c = 0; c < calls.count; c++)
        fill_run<BYTES>((char *)dst + c * calls.stride * BYTES, count, values, first + c * calls.step);
}

// dst[c * stride + k] = the value of `rank` with number first + c * step + k, as `type`, for each k below
// `count` of each of so many calls.
extern "C" __global__ void fl_nccl_fill(void *dst, u64 count, u32 type, u32 rank, u64 seed, u64 first, u32 range, u32 scale,
                                        u32 powers, u64 calls, u64 stride, u64 step) {
    const Values values = values_of(seed, rank, 1, type, COPY, range, scale, powers);
    const Calls all = {calls, stride, step};
    switch (type) {
        case HALF: case BFLOAT16: fill<2>(dst, count, values, first, all); break;
        case INT32: case FLOAT: fill<4>(dst, count, values, first, all); break;
        case DOUBLE: fill<8>(dst, count, values, first, all); break;
    }
}

// Judges the group that begins with element `k` of the run. Nearly all are right: one test for all of its
// bits, and the counting out of its way. Elements outside of the run were not loaded and are not counted.
template <u32 BYTES>
static __device__ __forceinline__ void judge_group(Tally &tally, const Run<BYTES> &run, const Values &values, u64 first,
                                                   u64 base, u64 k, u32 *found) {
    u32 words[GROUP_WORDS], bits = 0;
    make_group(words, &values, BYTES, first + k);
#pragma unroll
    for (u32 c = 0; c < GROUP_WORDS; c++) bits |= words[c] ^= found[c];
    if (bits == 0 && run.whole(k)) {
        tally.looked += Run<BYTES>::EACH;
        return;
    }
#pragma unroll 1
    for (u32 e = 0; e < Run<BYTES>::EACH; e++, move_ahead<BYTES>(words), move_ahead<BYTES>(found)) {
        if (!run.inside(k + e)) continue;
        tally.looked += 1;
        if (first_bits<BYTES>(words))
            count_wrong(tally, base + k + e, first_bits<BYTES>(found) == 0, first_ones<BYTES>(found), false);
    }
}

// Of `all` threads this is number `me`.
template <u32 BYTES>
static __device__ __forceinline__ void check_run(Tally &tally, const void *src, u64 count, const Values &values, u64 first,
                                                 u64 base, u64 me, u64 all) {
    const Run<BYTES> run(src, count);
    const uint4 *groups = (const uint4 *)((u64)src - run.lead * BYTES);
    u32 next[GROUP_WORDS] = {};
    // The next group is on its way while this one is judged.
    for (u64 g = me;; g += all) {
        u32 found[GROUP_WORDS] = {next[0], next[1], next[2], next[3]};
        const u64 k = run.begin(g);
        if (g < run.groups && run.whole(k)) {
            const uint4 it = load_volatile(groups + g);
            next[0] = it.x, next[1] = it.y, next[2] = it.z, next[3] = it.w;
        } else if (g < run.groups) {
#pragma unroll 1
            for (u32 e = 0; e < Run<BYTES>::EACH; e++) {
                move_ahead<BYTES>(next);
                if (run.inside(k + e)) load_last<BYTES>(groups + g, e, next);
            }
        }
        if (g != me) judge_group<BYTES>(tally, run, values, first, base, run.begin(g - all), found);
        if (g >= run.groups) break;
    }
}

// Runs of fewer elements than this for each thread of a block are a block's own.
#define SHORT 64

// Each call has `parts` runs, one behind the other, each of the next rank. Short runs are shared out among the
// blocks; a long one is all blocks' before they come to the next.
template <u32 BYTES>
static __device__ __forceinline__ void check(Tally &tally, const void *src, u64 count, const Values &values, u64 first,
                                             u64 parts, const Calls &calls) {
    const bool own = count < (u64)blockDim.x * SHORT;
    const u64 me = own ? threadIdx.x : thread_number(), all = own ? blockDim.x : thread_count();
    for (u64 r = own ? blockIdx.x : 0; r < calls.count * parts; r += own ? gridDim.x : 1) {
        const u64 call = r / parts, part = r % parts;
        Values mine = values;
        mine.seed += part * RANK_STEP;
        check_run<BYTES>(tally, (const char *)src + (call * calls.stride + part * count) * BYTES, count, mine,
                         first + call * calls.step, r * count, me, all);
    }
}

// Counts the elements of src whose bits are not the expected ones. There are `parts` runs of `count` elements for
// each of so many calls: element k of part p of call c is src[c * stride + p * count + k], and must be the value
// with number first + c * step + k, of rank `rank` + p where `op` is COPY, else of all ranks as `op` reduces them.
// `out` is as fl_check's: out[0] wrong ones, out[1] of them all zero, out[3] and out[4] the first and last by their
// number in all runs, (c * parts + p) * count + k, out[5] all that were looked at, out[7] wrong ones that are all ones;
// it is added to, so that several launches count together. Volatile loads as there.
extern "C" __global__ void fl_nccl_check(const void *src, u64 count, u32 type, u32 op, u32 rank, u32 ranks, u64 seed, u64 first,
                                         u32 range, u32 scale, u32 powers, u64 parts, u64 calls, u64 stride, u64 step, u64 *out) {
    const bool copy = op == COPY;
    const Values values = values_of(seed, copy ? rank : 0, copy ? 1 : ranks, type, op, range, scale, powers);
    const Calls all = {calls, stride, step};
    Tally tally = nothing();
    switch (type) {
        case HALF: case BFLOAT16: check<2>(tally, src, count, values, first, parts, all); break;
        case INT32: case FLOAT: check<4>(tally, src, count, values, first, parts, all); break;
        case DOUBLE: check<8>(tally, src, count, values, first, parts, all); break;
    }
    add_up(tally, out);
}
