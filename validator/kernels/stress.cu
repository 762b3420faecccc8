// What wears a GPU: all of its memory inverted in place, again and again, and matrix products on its tensor cores
// whose every result is an exact integer, so that the processor knows the sum that must come out.

#include "common.cuh"
#include "tally.cuh"

typedef unsigned short u16;

// Vectors in flight per thread, as in fl_check.
#define MARCH_DEPTH 4

// Moving inversions: word k of `memory` must be word(seed, first + k) ^ before. Counts those that are not, as fl_check
// does (out[2]: those that hold the pattern ^ after already; out[6]: every bit that was wrong in one of them), and
// writes word(seed, first + k) ^ after over all of them. `memory` lies on a 16-byte boundary, and `vectors` of 16 bytes are used.
extern "C" __global__ void fl_march(uint4 *memory, u64 vectors, u64 first, u64 seed, u32 before, u32 after, u64 *out) {
    const u64 all = thread_count();
    Tally tally = nothing();
    u32 bits = 0;
    for (u64 v = thread_number(); v < vectors; v += MARCH_DEPTH * all) {
        u32 found[MARCH_DEPTH][WORDS_PER_VECTOR] = {};
#pragma unroll
        for (u32 d = 0; d < MARCH_DEPTH; d++) {
            if (v + d * all >= vectors) break;
            const uint4 it = load_volatile(memory + v + d * all);
            found[d][0] = it.x, found[d][1] = it.y, found[d][2] = it.z, found[d][3] = it.w;
        }
#pragma unroll
        for (u32 d = 0; d < MARCH_DEPTH; d++) {
            const u64 at = v + d * all;
            if (at >= vectors) break;
            u32 next[WORDS_PER_VECTOR];
#pragma unroll
            for (u32 c = 0; c < WORDS_PER_VECTOR; c++) {
                const u64 k = at * WORDS_PER_VECTOR + c;
                const u32 pattern = word(seed, first + k);
                next[c] = pattern ^ after;
                const u32 wrong = found[d][c] ^ pattern ^ before;
                if (wrong) count_wrong(tally, k, found[d][c] == 0, found[d][c] == ~0u, found[d][c] == next[c]);
                bits |= wrong;
            }
            tally.looked += WORDS_PER_VECTOR;
            memory[at] = make_uint4(next[0], next[1], next[2], next[3]);
        }
    }
    if (bits) atomicOr(out + 6, (u64)bits);
    add_up(tally, out);
}

// --- products ---

// One batch of a block: C = sum over 16 turns of A_turn * B, where A and B are 128 x 64 and 64 x 128 small integers of the
// pattern, and A_turn is A with its blocks of 16 rows turned by one more each time. 1024 products of numbers from -127
// to 127 make one element: less than 2^24, which a float holds exactly.
#define SIDE 128
#define DEPTH 64
#define TURNS 16
#define TILE 16
// From one row of A, or column of B, to the next in shared memory, elements: rows lie in different banks, and on the
// boundaries that the instructions ask for.
#define STRIDE 80
// 8 warps, each of which has 2 x 4 tiles of C.
#define PRODUCT_THREADS 256
#define TILES_DOWN 2
#define TILES_ACROSS 4

// Element `i` of a batch's operands, of four in a word: -127 to 127.
static __device__ __forceinline__ int operand(u32 four, u32 i) {
    const int byte = (int)(signed char)(four >> (8 * i));
    return byte == -128 ? 0 : byte;
}

// A small integer as bfloat16, or as half on GPUs without bfloat16 (before sm_80): exact in both.
static __device__ __forceinline__ u16 small_float(int number) {
#if __CUDA_ARCH__ >= 800
    return (u16)(__float_as_uint((float)number) >> 16);
#else
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"((float)number));
    return half;
#endif
}

struct Integers {
    typedef signed char Element;
    typedef int Sum;
    static __device__ __forceinline__ Element element(int number) { return (Element)number; }

    // The operands of one tile: 16 x 16 from shared memory, rows STRIDE elements apart.
    u32 r[2];
    __device__ __forceinline__ void load_a(const Element *from) {
        asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.s8 {%0, %1}, [%2], %3;"
                     : "=r"(r[0]), "=r"(r[1])
                     : "l"(__cvta_generic_to_shared(from)), "r"(STRIDE)
                     : "memory");
    }
    __device__ __forceinline__ void load_b(const Element *from) {
        asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.s8 {%0, %1}, [%2], %3;"
                     : "=r"(r[0]), "=r"(r[1])
                     : "l"(__cvta_generic_to_shared(from)), "r"(STRIDE)
                     : "memory");
    }
    static __device__ __forceinline__ void multiply(Sum *c, const Integers &a, const Integers &b) {
        asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, "
                     "{%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7])
                     : "r"(a.r[0]), "r"(a.r[1]), "r"(b.r[0]), "r"(b.r[1]));
    }
};

#if __CUDA_ARCH__ >= 800
#define FLOATS 4
#else
#define FLOATS 8
#endif

struct Floats {
    typedef u16 Element;
    typedef float Sum;
    static __device__ __forceinline__ Element element(int number) { return small_float(number); }

    u32 r[FLOATS];
#if __CUDA_ARCH__ >= 800
    __device__ __forceinline__ void load_a(const Element *from) {
        asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "l"(__cvta_generic_to_shared(from)), "r"(STRIDE)
                     : "memory");
    }
    __device__ __forceinline__ void load_b(const Element *from) {
        asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "l"(__cvta_generic_to_shared(from)), "r"(STRIDE)
                     : "memory");
    }
    static __device__ __forceinline__ void multiply(Sum *c, const Floats &a, const Floats &b) {
        asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                     "{%8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3, %4, %5, %6, %7};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
                     : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]), "r"(b.r[2]), "r"(b.r[3]));
    }
#else
    __device__ __forceinline__ void load_a(const Element *from) {
        asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
                     : "l"(__cvta_generic_to_shared(from)), "r"(STRIDE)
                     : "memory");
    }
    __device__ __forceinline__ void load_b(const Element *from) {
        asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
                     : "l"(__cvta_generic_to_shared(from)), "r"(STRIDE)
                     : "memory");
    }
    static __device__ __forceinline__ void multiply(Sum *c, const Floats &a, const Floats &b) {
        asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                     "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}, "
                     "{%0, %1, %2, %3, %4, %5, %6, %7};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
                     : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(a.r[4]), "r"(a.r[5]), "r"(a.r[6]), "r"(a.r[7]),
                       "r"(b.r[0]), "r"(b.r[1]), "r"(b.r[2]), "r"(b.r[3]), "r"(b.r[4]), "r"(b.r[5]), "r"(b.r[6]), "r"(b.r[7]));
    }
#endif
};

// What one element adds to a block's sum: another number for each value, so that one wrong element always shows.
static __device__ __forceinline__ u32 mixed(int value) {
    u32 h = (u32)value * 0x9E3779B1u;
    return h ^ (h >> 15);
}

// The operands of a batch: words 0 to SIDE * DEPTH / 4 - 1 of the pattern are A by rows, the next ones B by columns.
template <class Kind> static __device__ __forceinline__ void make_operands(typename Kind::Element *a, typename Kind::Element *b, u64 seed) {
    const u32 words = SIDE * DEPTH / 4;
    for (u32 w = threadIdx.x; w < words; w += PRODUCT_THREADS) {
        const u32 at = w * 4 / DEPTH * STRIDE + w * 4 % DEPTH;
        const u32 of_a = word(seed, w), of_b = word(seed, words + w);
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            a[at + i] = Kind::element(operand(of_a, i));
            b[at + i] = Kind::element(operand(of_b, i));
        }
    }
}

// A warp's part of one batch; what its elements add to the sum.
template <class Kind> static __device__ __forceinline__ u64 one_batch(const typename Kind::Element *a, const typename Kind::Element *b) {
    const u32 warp = threadIdx.x / 32, down = warp / 2 * TILES_DOWN, across = warp % 2 * TILES_ACROSS;
    typename Kind::Sum c[TILES_DOWN][TILES_ACROSS][8] = {};
#pragma unroll 1
    for (u32 turn = 0; turn < TURNS; turn++) {
#pragma unroll
        for (u32 k = 0; k < DEPTH; k += TILE) {
            Kind left[TILES_DOWN], right[TILES_ACROSS];
#pragma unroll
            for (u32 y = 0; y < TILES_DOWN; y++) left[y].load_a(a + (down + y + turn) % (SIDE / TILE) * TILE * STRIDE + k);
#pragma unroll
            for (u32 x = 0; x < TILES_ACROSS; x++) right[x].load_b(b + (across + x) * TILE * STRIDE + k);
#pragma unroll
            for (u32 y = 0; y < TILES_DOWN; y++)
#pragma unroll
                for (u32 x = 0; x < TILES_ACROSS; x++) Kind::multiply(c[y][x], left[y], right[x]);
        }
    }
    u64 sum = 0;
#pragma unroll
    for (u32 y = 0; y < TILES_DOWN; y++)
#pragma unroll
        for (u32 x = 0; x < TILES_ACROSS; x++)
#pragma unroll
            for (u32 i = 0; i < 8; i++) sum += mixed((int)c[y][x][i]);
    return sum;
}

// Every block does the same `batches` batches (seeds seed, seed + 1, ..) `times` times. out[2 * block] is its sum, and
// out[2 * block + 1] the multiprocessor that it ran on. Blocks of PRODUCT_THREADS threads.
template <class Kind> static __device__ __forceinline__ void products(u64 seed, u32 batches, u32 times, u64 *out) {
    __shared__ __align__(32) typename Kind::Element a[SIDE * STRIDE], b[SIDE * STRIDE];
    __shared__ u64 total;
    if (threadIdx.x == 0) total = 0;
    u64 sum = 0;
    for (u32 time = 0; time < times; time++) {
        for (u32 batch = 0; batch < batches; batch++) {
            __syncthreads();
            make_operands<Kind>(a, b, seed + batch);
            __syncthreads();
            sum += one_batch<Kind>(a, b);
        }
    }
    // Shared memory has no 64-bit add on every GPU in one instruction; the compiler makes one.
    atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x != 0) return;
    u32 where;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(where));
    out[2 * blockIdx.x] = total;
    out[2 * blockIdx.x + 1] = where;
}

extern "C" __global__ void __launch_bounds__(PRODUCT_THREADS) fl_products_int8(u64 seed, u32 batches, u32 times, u64 *out) {
    products<Integers>(seed, batches, times, out);
}

extern "C" __global__ void __launch_bounds__(PRODUCT_THREADS) fl_products_float(u64 seed, u32 batches, u32 times, u64 *out) {
    products<Floats>(seed, batches, times, out);
}
