// Fills memory with the pattern, and judges what lies there. Both run on the memory's owner: what the
// owner sees is the truth that a peer's transfer is held against.

#include "common.cuh"
#include "tally.cuh"

// dst[k] = word(seed, first + k). Plain stores: the end of a kernel makes them visible to all.
extern "C" __global__ void fl_fill(u32 *dst, u64 words, u64 seed, u64 first) {
    const u64 me = thread_number(), all = thread_count();
    const Parts part = parts(dst, words);
    for (u64 k = me; k < part.head; k += all) dst[k] = word(seed, first + k);
    uint4 *body = (uint4 *)(dst + part.head);
    for (u64 v = me; v < part.vectors; v += all) {
        const u64 i = first + part.head + v * WORDS_PER_VECTOR;
        body[v] = make_uint4(word(seed, i), word(seed, i + 1), word(seed, i + 2), word(seed, i + 3));
    }
    for (u64 k = part.head + part.vectors * WORDS_PER_VECTOR + me; k < words; k += all) dst[k] = word(seed, first + k);
}

// What a run is held against: `expected` must be there, `sentinel` was there before.
struct Question {
    u64 first, expected, sentinel;
};

static __device__ __forceinline__ void judge(Tally &tally, const Question &asked, u64 k, u32 found) {
    if (found != word(asked.expected, asked.first + k))
        count_wrong(tally, k, found == 0, found == ~0u, found == word(asked.sentinel, asked.first + k));
}

static __device__ __forceinline__ void check_word(Tally &tally, const Question &asked, const u32 *src, u64 k) {
    tally.looked += 1;
    judge(tally, asked, k, load_volatile(src + k));
}

// Not 0 if any of four words is not the expected one.
static __device__ __forceinline__ u32 differ(const Question &asked, u64 k, const u32 *found) {
    u32 bits = 0;
#pragma unroll
    for (u32 c = 0; c < WORDS_PER_VECTOR; c++) bits |= found[c] ^ word(asked.expected, asked.first + k + c);
    return bits;
}

// Vectors in flight per thread: with fewer, a memory of 5 TB/s waits for its own latency.
#define CHECK_DEPTH 4

// Loads a thread's next vectors, a grid apart, and judges them. All but a broken machine's words are right
// and the loop has to keep up with the memory: one test for all of them, and the counting out of its way.
static __device__ __forceinline__ void check_vectors(Tally &tally, const Question &asked, const u32 *src, const Parts &part,
                                                     u64 v, u64 all) {
    const uint4 *body = (const uint4 *)(src + part.head);
    u32 found[CHECK_DEPTH * WORDS_PER_VECTOR] = {};
#pragma unroll
    for (u32 d = 0; d < CHECK_DEPTH; d++) {
        if (v + d * all >= part.vectors) break;
        const uint4 it = load_volatile(body + v + d * all);
        u32 *to = found + d * WORDS_PER_VECTOR;
        to[0] = it.x, to[1] = it.y, to[2] = it.z, to[3] = it.w;
        tally.looked += WORDS_PER_VECTOR;
    }
    u32 bits = 0;
#pragma unroll
    for (u32 d = 0; d < CHECK_DEPTH; d++)
        if (v + d * all < part.vectors)
            bits |= differ(asked, part.head + (v + d * all) * WORDS_PER_VECTOR, found + d * WORDS_PER_VECTOR);
    if (bits == 0) return;
    // Registers have no index: the words move past the first place instead. They are not read again, for
    // what is wrong once may be right the second time.
#pragma unroll 1
    for (u32 n = 0; n < CHECK_DEPTH * WORDS_PER_VECTOR; n++) {
        const u64 vector = v + n / WORDS_PER_VECTOR * all;
        if (vector >= part.vectors) return;
        judge(tally, asked, part.head + vector * WORDS_PER_VECTOR + n % WORDS_PER_VECTOR, found[0]);
#pragma unroll
        for (u32 c = 1; c < CHECK_DEPTH * WORDS_PER_VECTOR; c++) found[c - 1] = found[c];
    }
}

// Counts k with src[k] != word(expected, first + k): out[0] of them, out[1] zero, out[2] equal to the
// sentinel's word, out[3] the first k, out[4] the last, and in out[5] all words looked at, so that a check
// that never ran is not taken for one that found nothing; out[7] all ones. The host presets 0, 0, 0, all ones, and 0.
// Volatile loads: no answer comes out of an L1 that an earlier load of this kernel filled.
extern "C" __global__ void fl_check(const u32 *src, u64 words, u64 first, u64 expected, u64 sentinel, u64 *out) {
    const u64 me = thread_number(), all = thread_count();
    const Question asked = {first, expected, sentinel};
    const Parts part = parts(src, words);
    Tally tally = nothing();

    for (u64 k = me; k < part.head; k += all) check_word(tally, asked, src, k);
    for (u64 v = me; v < part.vectors; v += CHECK_DEPTH * all) check_vectors(tally, asked, src, part, v, all);
    for (u64 k = part.head + part.vectors * WORDS_PER_VECTOR + me; k < words; k += all)
        check_word(tally, asked, src, k);
    add_up(tally, out);
}
