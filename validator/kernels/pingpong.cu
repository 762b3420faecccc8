// Does a flag overtake the data that was sent before it? Two kernels, each resident on its GPU, send
// each other a payload and then a flag, in turns. Who sees the flag must see the payload.
//
// Why nothing else than a broken path can make a word wrong (names of the PTX ISA's "Memory Consistency
// Model"):
// - payload before flag: each lane stores its word, then fences at system scope; __syncwarp orders all
//   lanes before lane 0, whose store of the flag is a release. This is a release pattern, cumulative
//   over what __syncwarp ordered before it.
// - flag before reading: every lane acquires the flag itself. The reads that follow are relaxed at
//   system scope, so no old L1 line answers them either.
// - reading before the next payload: a side releases its flag for round r after it has read round r's
//   payload (its lanes' loads, then their fences, then __syncwarp, then lane 0's release), or, if it goes
//   first, before it sends round r + 1 by the same steps. The other side overwrites that payload only
//   after it acquired this flag. So a mailbox is never written while it is read, and the flag can never
//   be beyond the round that is waited for.

#include "common.cuh"

#define EVERY_LANE 0xFFFFFFFFu
#define PAYLOAD 32  // the mailbox's word where it begins: a line of its own, away from the flag

static __device__ __forceinline__ void send(u32 *to, u64 seed, u64 round) {
    const u32 lane = threadIdx.x;
    to[PAYLOAD + lane] = word(seed, round * 32 + lane);
    __threadfence_system();
    __syncwarp();
    if (lane == 0) store_release_system(to, (u32)round);
}

// False when it did not come in time. Each lane's own load acquires for that lane; 32 loads of one
// address are one access. Both answers are the whole warp's, so that no lane goes on alone.
static __device__ __forceinline__ bool await(const u32 *flag, u64 round, u64 start, u64 max_cycles) {
    for (;;) {
        const bool here = load_acquire_system(flag) == (u32)round;
        if (__all_sync(EVERY_LANE, here)) return true;
        if (__any_sync(EVERY_LANE, (u64)clock64() - start > max_cycles)) return false;
    }
}

// One warp. out[0] wrong words, out[1] the first bad round (the smaller one of it and what stands there),
// out[2] rounds completed, out[3] 1 if the other side did not answer within max_cycles of this kernel's
// start, out[4] cycles. When one side gives up, the other one's next flag never comes and it gives up by
// its own clock. Both mailboxes' flags are 0 before either kernel starts; rounds < 2^32.
extern "C" __global__ void fl_pingpong(u32 *mine, u32 *theirs, u64 rounds, u64 seed_mine, u64 seed_theirs, u32 first,
                                       u64 max_cycles, u64 *out) {
    const u64 start = clock64();
    const u32 lane = threadIdx.x;
    if (blockIdx.x != 0 || lane >= 32) return;
    u64 wrong = 0, first_bad = ~0ull, done = 0;
    bool late = false;
    for (u64 round = 1; round <= rounds; round++) {
        if (first) send(theirs, seed_theirs, round);
        late = !await(mine, round, start, max_cycles);
        if (late) break;
        if (load_volatile(mine + PAYLOAD + lane) != word(seed_mine, round * 32 + lane)) {
            wrong += 1;
            if (first_bad > round) first_bad = round;
        }
        if (!first) send(theirs, seed_theirs, round);
        done = round;
    }
    const u64 cycles = (u64)clock64() - start;
    for (u32 step = 16; step > 0; step /= 2) {
        const u64 others = __shfl_down_sync(EVERY_LANE, wrong, step);
        const u64 earlier = __shfl_down_sync(EVERY_LANE, first_bad, step);
        if (lane + step >= 32) continue;
        wrong += others;
        if (earlier < first_bad) first_bad = earlier;
    }
    if (lane != 0) return;
    out[0] = wrong;
    if (first_bad < out[1]) out[1] = first_bad;
    out[2] = done;
    out[3] = late;
    out[4] = cycles;
}

// The same game with a block of many warps and a payload of several KiB: WIDE_THREADS threads store 16 bytes each.
// The steps are those above, with __syncthreads in place of __syncwarp: it orders all threads of the block before
// thread 0, whose store of the flag is a release, so that the release is cumulative over the payload of all warps.
// A warp that is ahead stores only into the other side's mailbox, whose last payload has been read; it cannot send
// the next flag before all warps have seen the present one, because that takes another __syncthreads.
#define WIDE_THREADS 512

static __device__ __forceinline__ uint4 payload(u64 seed, u64 round) {
    const u64 k = (round * WIDE_THREADS + threadIdx.x) * WORDS_PER_VECTOR;
    return make_uint4(word(seed, k), word(seed, k + 1), word(seed, k + 2), word(seed, k + 3));
}

static __device__ __forceinline__ void send_wide(u32 *to, u64 seed, u64 round) {
    ((uint4 *)(to + PAYLOAD))[threadIdx.x] = payload(seed, round);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) store_release_system(to, (u32)round);
}

// One block of WIDE_THREADS. Arguments and results as those of fl_pingpong, but max_cycles counts from the beginning of
// each round: under load a round may take long, and many of them longer. out[1] must be preset to all ones and the
// others to 0.
extern "C" __global__ void fl_pingpong_wide(u32 *mine, u32 *theirs, u64 rounds, u64 seed_mine, u64 seed_theirs,
                                            u32 first, u64 max_cycles, u64 *out) {
    const u64 start = clock64();
    if (blockIdx.x != 0 || blockDim.x != WIDE_THREADS) return;
    u64 wrong = 0, first_bad = ~0ull, done = 0;
    bool late = false;
    for (u64 round = 1; round <= rounds; round++) {
        if (first) send_wide(theirs, seed_theirs, round);
        // Whether to go on is the whole block's decision: a warp that left alone would be missing at the barrier.
        late = __syncthreads_or(!await(mine, round, clock64(), max_cycles));
        if (late) break;
        const uint4 found = load_volatile((const uint4 *)(mine + PAYLOAD) + threadIdx.x), sent = payload(seed_mine, round);
        const u32 bad = (found.x != sent.x) + (found.y != sent.y) + (found.z != sent.z) + (found.w != sent.w);
        wrong += bad;
        if (bad && first_bad > round) first_bad = round;
        if (!first) send_wide(theirs, seed_theirs, round);
        done = round;
    }
    if (wrong > 0) {
        atomicAdd(out, wrong);
        atomicMin(out + 1, first_bad);
    }
    if (threadIdx.x != 0) return;
    out[2] = done;
    out[3] = late;
    out[4] = (u64)clock64() - start;
}
