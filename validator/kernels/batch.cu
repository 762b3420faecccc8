// Many copies of any size, from anywhere to anywhere, in one launch; and one check of what came of them. The host
// says in a table what they are. Addresses and sizes count in bytes: nothing need be aligned.

#include "common.cuh"
#include "tally.cuh"

typedef long long s64;

// One copy. Byte k of the data must be byte `first` + k of the data's pattern; around it lies another pattern, of
// which `place` is the byte that belongs to `to`.
struct Piece {
    u64 to, from, bytes, first, place;
};

// Who does which part: with `wide` all threads work on one piece after the other, else each block on its own.
struct Share {
    u64 piece, pieces, part, parts;
};

static __device__ __forceinline__ Share share(u32 wide) {
    if (wide) return {0, 1, thread_number(), thread_count()};
    return {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x};
}

template <typename T>
static __device__ __forceinline__ void copy_units(char *to, const char *from, u64 units, const Share &mine) {
    for (u64 k = mine.part; k < units; k += mine.parts) ((T *)to)[k] = ((const T *)from)[k];
}

// In units of UNIT bytes between two boundaries, and bytes at both ends; both addresses lie alike to the boundaries.
template <typename T>
static __device__ __forceinline__ void copy_piece(const Piece &piece, const Share &mine) {
    char *to = (char *)piece.to;
    const char *from = (const char *)piece.from;
    u64 head = (sizeof(T) - piece.to % sizeof(T)) % sizeof(T);
    if (head > piece.bytes) head = piece.bytes;
    const u64 units = (piece.bytes - head) / sizeof(T), body = units * sizeof(T);
    copy_units<char>(to, from, head, mine);
    copy_units<T>(to + head, from + head, units, mine);
    copy_units<char>(to + head + body, from + head + body, piece.bytes - head - body, mine);
}

// Plain loads and stores, as in the other copies.
extern "C" __global__ void fl_batch_copy(const Piece *pieces, u64 count, u32 wide) {
    const Share mine = share(wide);
    for (u64 n = mine.piece; n < count; n += mine.pieces) {
        const Piece piece = pieces[n];
        const u64 apart = piece.to ^ piece.from;
        if (apart % 16 == 0) copy_piece<uint4>(piece, mine);
        else if (apart % 4 == 0) copy_piece<u32>(piece, mine);
        else copy_piece<char>(piece, mine);
    }
}

// The four bytes of the pattern from byte `at` on, which may lie before byte 0.
static __device__ __forceinline__ u32 bytes_at(u64 seed, s64 at) {
    const u32 low = word(seed, (u64)(at >> 2)), by = (u32)(at & 3) * 8;
    return by == 0 ? low : low >> by | word(seed, (u64)((at >> 2) + 1)) << (32 - by);
}

// Which bytes of the word at `at` are the piece's data: their bits are set.
static __device__ __forceinline__ u32 bits_inside(const Piece &piece, u64 at) {
    const u64 end = piece.to + piece.bytes;
    if (at >= end || at + 4 <= piece.to) return 0;
    const u32 before = at < piece.to ? (u32)(piece.to - at) * 8 : 0, behind = end < at + 4 ? (u32)(at + 4 - end) * 8 : 0;
    return 0xFFFFFFFFu << before & 0xFFFFFFFFu >> behind;
}

// Counts wrong words as fl_check does, in the data and in `guard` bytes on both sides of it, where the pattern
// `sentinel` must still lie. Words count from the aligned one at or below the first guard byte; out[3] and out[4]
// hold the piece's number above 40 bits of that. With `restore` right words become the sentinel's again.
extern "C" __global__ void fl_batch_check(const Piece *pieces, u64 count, u32 wide, u64 seed, u64 sentinel, u64 guard,
                                          u32 restore, u64 *out) {
    const Share mine = share(wide);
    Tally tally = nothing();
    for (u64 n = mine.piece; n < count; n += mine.pieces) {
        const Piece piece = pieces[n];
        const u64 begin = (piece.to - guard) / 4 * 4, end = (piece.to + piece.bytes + guard + 3) / 4 * 4;
        for (u64 k = mine.part; k < (end - begin) / 4; k += mine.parts) {
            const u64 at = begin + k * 4;
            const s64 from_data = (s64)(at - piece.to);
            const u32 inside = bits_inside(piece, at);
            const u32 before = word(sentinel, (u64)((s64)piece.place + from_data) / 4);
            const u32 data = inside ? bytes_at(seed, (s64)piece.first + from_data) : 0;
            const u32 found = load_volatile((const u32 *)at);
            tally.looked += 1;
            if (found != ((data & inside) | (before & ~inside)))
                count_wrong(tally, n << 40 | k, found == 0, found == ~0u, found == before);
            else if (restore && inside) *(u32 *)at = before;
        }
    }
    add_up(tally, out);
}
