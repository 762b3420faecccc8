// The all-reduce that inference frameworks make by themselves, beside NCCL: one process for each GPU, each with
// its peers' memory open through CUDA IPC, and kernels that wait on their GPU for flags which peers write.
//
// A rank has a signal area (a flag for each block and rank), and a data area: its input, then its part of the
// sum (two-shot alone). Flags count steps, three to a round, and only grow. All ranks launch the same kernels
// with as many blocks, and a block waits only for the blocks of its own number.
//
// Why nothing else than a broken path can make a word wrong (names of the PTX ISA's "Memory Consistency Model"):
// - data before flag: what the block did lies before its barrier, and what earlier kernels of the stream did lies
//   before this kernel; the store of the flag behind both is a release at system scope, and is cumulative.
// - flag before reading: a thread acquires each peer's flag at system scope, and the block's barrier orders that
//   before the reads of all its threads. These are plain loads, as the frameworks' are.
// - reading before the next round: the last step of a round is passed only when all ranks have read. Each block
//   reads of a peer's sums what the peer's block of the same number wrote.

#include "common.cuh"
#include "tally.cuh"
#include "values.cuh"

// The most ranks.
#define RANKS 16
// How far a peer may be ahead of the step that is waited for.
#define AHEAD 2
#define STEPS 3
// Values are 1 + w % VALUE_RANGE: the sum of all ranks is exact, and neither 0 nor all ones.
#define VALUE_RANGE 0x04000000u
// Of a word's number the low bits are its place, the others the round.
#define PLACE_BITS 20

// A rank's own addresses of all ranks' memory.
struct Areas {
    u32 *signals[RANKS], *inputs[RANKS], *sums[RANKS];
};

// The ranks' own books, which no peer reads. `late` is 0, or the step and the peer (plus 1) whose flag did not come.
struct Books {
    u64 rounds, late, ns[62];
};

struct Launch {
    const Areas *areas;
    u32 rank, ranks;
    u64 max_cycles;
    Books *books;
};

static __device__ __forceinline__ u64 nanoseconds() {
    u64 it;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(it));
    return it;
}

// Whether a launch before this one gave up; the same answer for the whole block.
static __device__ __forceinline__ bool has_ended(const Books *books) {
    return __syncthreads_or(threadIdx.x == 0 && books->late != 0);
}

// False when a peer's flag did not come in time; the same answer for the whole block.
static __device__ __forceinline__ bool meet(const Launch &launch, u32 step) {
    __syncthreads();
    bool late = false;
    const u32 peer = threadIdx.x;
    if (peer < launch.ranks && peer != launch.rank) {
        const u32 block = blockIdx.x * RANKS;
        store_release_system(launch.areas->signals[peer] + block + launch.rank, step);
        const u32 *flag = launch.areas->signals[launch.rank] + block + peer;
        const u64 start = clock64();
        while (!late && load_acquire_system(flag) - step > AHEAD) late = (u64)clock64() - start > launch.max_cycles;
        if (late) atomicCAS(&launch.books->late, 0ull, (u64)step << 8 | (peer + 1));
    }
    return !__syncthreads_or(late);
}

static __device__ __forceinline__ void add(uint4 &sum, const uint4 &it) {
    sum.x += it.x, sum.y += it.y, sum.z += it.z, sum.w += it.w;
}

// The sum of all ranks' vector `v`. Each rank begins with itself, so that they do not all read from one.
static __device__ __forceinline__ uint4 sum_of(const Launch &launch, u64 v) {
    uint4 sum = make_uint4(0, 0, 0, 0);
#pragma unroll 4
    for (u32 k = 0; k < launch.ranks; k++) {
        const u32 from = launch.rank + k < launch.ranks ? launch.rank + k : launch.rank + k - launch.ranks;
        add(sum, ((const uint4 *)launch.areas->inputs[from])[v]);
    }
    return sum;
}

static __device__ __forceinline__ bool one_shot(const Launch &launch, uint4 *out, u64 vectors, u32 step) {
    if (!meet(launch, step)) return false;
    for (u64 v = thread_number(); v < vectors; v += thread_count()) out[v] = sum_of(launch, v);
    return meet(launch, step + 2);
}

// Each rank sums up its part, and gets the others' from their memory.
static __device__ __forceinline__ bool two_shot(const Launch &launch, uint4 *out, u64 vectors, u32 step) {
    const u64 part = (vectors + launch.ranks - 1) / launch.ranks, begin = launch.rank * part;
    if (!meet(launch, step)) return false;
    uint4 *own = (uint4 *)launch.areas->sums[launch.rank];
    for (u64 v = thread_number(); v < part && begin + v < vectors; v += thread_count()) own[v] = sum_of(launch, begin + v);
    if (!meet(launch, step + 1)) return false;
    for (u64 v = thread_number(); v < part; v += thread_count()) {
#pragma unroll 4
        for (u32 from = 0; from < launch.ranks; from++)
            if (from * part + v < vectors) out[from * part + v] = ((const uint4 *)launch.areas->sums[from])[v];
    }
    return meet(launch, step + 2);
}

// out[k] = the sum of all ranks' inputs, of so many vectors. This is number `n` of a graph: books->ns[n] becomes
// how long it took. Does nothing once a launch gave up. Blocks have RANKS threads at least.
extern "C" __global__ void fl_reduce(const Areas *areas, u32 rank, u32 ranks, u64 max_cycles, Books *books, uint4 *out,
                                     u64 vectors, u32 n, u32 twice) {
    const Launch launch = {areas, rank, ranks, max_cycles, books};
    const u64 begun = nanoseconds();
    if (has_ended(books)) return;
    const u32 step = (u32)(books->rounds + n + 1) * STEPS;
    const bool met = twice ? two_shot(launch, out, vectors, step) : one_shot(launch, out, vectors, step);
    if (met && thread_number() == 0) books->ns[n] = nanoseconds() - begun;
}

static __device__ __forceinline__ u32 value(u64 seed, u32 rank, u64 i) {
    return 1 + (word(seed + rank * RANK_STEP, i) & (VALUE_RANGE - 1));
}

static __device__ __forceinline__ u32 value_of_all(u64 seed, u32 ranks, u64 i) {
    u32 sum = 0;
#pragma unroll 1
    for (u32 rank = 0; rank < ranks; rank++) sum += value(seed, rank, i);
    return sum;
}

static __device__ __forceinline__ u64 first_of(const Books *books, u32 n) { return (books->rounds + n + 1) << PLACE_BITS; }

// The input of round `n` of a graph: another one in each round, so that one that is left from before is wrong.
extern "C" __global__ void fl_reduce_fill(u32 *input, u64 words, u64 seed, u32 rank, u32 n, const Books *books) {
    const u64 first = first_of(books, n);
    for (u64 k = thread_number(); k < words; k += thread_count()) input[k] = value(seed, rank, first + k);
}

// What the first wrong word that any thread came to was.
struct Sample {
    u64 taken, place, found, wanted;
};

// What is wrong with a sum. With one wrong input the others' values tell what it was; so they do where only one
// input is right.
struct Why {
    bool zeros, stale, ones;
    u32 peers;
};

static __device__ __forceinline__ void suspect(Why &why, u32 instead, u32 zeros, u32 stale, u32 ones, u32 peers) {
    if (instead != zeros && instead != stale && instead != ones) return;
    why.zeros |= instead == zeros, why.stale |= instead == stale, why.ones |= instead == ones;
    why.peers |= peers;
}

static __device__ __forceinline__ Why why_of(u32 found, u64 seed, u32 ranks, u64 i) {
    const u64 before = i - (1ull << PLACE_BITS);
    const u32 wanted = value_of_all(seed, ranks, i), old = value_of_all(seed, ranks, before);
    Why why = {false, false, false, 0};
    suspect(why, found, 0, old, 0xFFFFFFFFu, 0);
#pragma unroll 1
    for (u32 rank = 0; rank < ranks; rank++) {
        const u32 own = value(seed, rank, i), then = value(seed, rank, before);
        suspect(why, found - (wanted - own), 0, then, 0xFFFFFFFFu, 1u << rank);
        if (ranks > 2) suspect(why, found - own, 0, old - then, 1 - ranks, (1u << ranks) - 1 - (1u << rank));
    }
    return why;
}

// Counts the words of round `n` of a graph that are not the sum of all ranks' inputs. out[0] to out[5] are as
// fl_check's, where the sentinel is the round before and a word's number is the round's times 2^20 and its place;
// out[6] a bit for each rank whose input can have been wrong in all of them (the host presets all ones), out[7] those
// with all ones in the place of an input, and from out[8] on a sample. Looks at nothing once a launch gave up.
extern "C" __global__ void fl_reduce_check(const u32 *src, u64 words, u64 seed, u32 ranks, u32 n, const Books *books,
                                           u64 *out) {
    Tally tally = nothing();
    const u64 first = first_of(books, n);
    for (u64 k = thread_number(); k < words && books->late == 0; k += thread_count()) {
        const u32 found = load_volatile(src + k), wanted = value_of_all(seed, ranks, first + k);
        tally.looked += 1;
        if (found == wanted) continue;
        const Why why = why_of(found, seed, ranks, first + k);
        count_wrong(tally, first + k, why.zeros, why.ones, why.stale);
        if (why.peers) atomicAnd(out + 6, (u64)why.peers);
        Sample *sample = (Sample *)(out + 8);
        if (atomicCAS(&sample->taken, 0ull, 1ull) == 0) sample->place = first + k, sample->found = found, sample->wanted = wanted;
    }
    add_up(tally, out);
}

// So many rounds are over: the next graph goes on behind them. One thread.
extern "C" __global__ void fl_reduce_next(Books *books, u32 rounds) {
    books->rounds += rounds;
}
