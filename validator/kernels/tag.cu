// A tag in every page of a large memory: 16 bytes that name the page, the writer and the round. Peers write tags
// into all pages of an owner, and the owner looks at all of them in one pass: a page that a peer does not reach, or
// that two of its addresses lead to, gives itself away.

#include "common.cuh"
#include "tally.cuh"

// So many writers have places of their own in a page, a 64th of the page apart.
#define TAG_WRITERS 64

// The pages of one piece of memory: `first` is the number of the one at `base`. A page has 1 << `shift` bytes.
struct Pages {
    char *base;
    u64 first;
    u32 shift, writer;
    u64 nonce;

    // The first of a page's 16-byte vectors in which this writer's tag lies: another one in each page and round.
    __device__ __forceinline__ u64 vector(u64 page) const {
        const u64 vectors = 1ull << (shift - 4);
        return (word(nonce, page) + writer * (vectors / TAG_WRITERS)) & (vectors - 1);
    }

    __device__ __forceinline__ uint4 *place(u64 page) const {
        return (uint4 *)(base + ((page - first) << shift)) + vector(page);
    }
};

static __device__ __forceinline__ uint4 four_words(u64 seed, u64 i) {
    return make_uint4(word(seed, i), word(seed, i + 1), word(seed, i + 2), word(seed, i + 3));
}

static __device__ __forceinline__ bool same(const uint4 &a, const uint4 &b) {
    return ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) == 0;
}

// The tag of page n: words 4n to 4n + 3 of the pattern with this seed, which is the writer's and the round's.
extern "C" __global__ void fl_tag(char *base, u64 pages, u64 first, u32 shift, u32 writer, u64 nonce, u64 seed) {
    const Pages all = {base, first, shift, writer, nonce};
    for (u64 p = thread_number(); p < pages; p += thread_count()) *all.place(first + p) = four_words(seed, (first + p) * 4);
}

// Counts the pages whose tag is not there, as fl_check counts words: out[1] those that hold zeros, out[2] those that
// hold what was there before (the pattern with seed `sentinel`, whose word 0 is that of page 0), out[3] and out[4]
// the first and last by number, out[7] those that hold all ones. With `restore` what was there before is put back
// where the tag is right; what is wrong stays, to be looked at.
extern "C" __global__ void fl_tag_check(char *base, u64 pages, u64 first, u32 shift, u32 writer, u64 nonce, u64 seed,
                                        u64 sentinel, u32 restore, u64 *out) {
    const Pages all = {base, first, shift, writer, nonce};
    Tally tally = nothing();
    for (u64 p = thread_number(); p < pages; p += thread_count()) {
        const u64 page = first + p;
        uint4 *place = all.place(page);
        const uint4 found = load_volatile(place);
        const uint4 before = four_words(sentinel, (page << (shift - 2)) + all.vector(page) * WORDS_PER_VECTOR);
        tally.looked += 1;
        if (!same(found, four_words(seed, page * 4))) {
            count_wrong(tally, page, same(found, make_uint4(0, 0, 0, 0)), same(found, make_uint4(~0u, ~0u, ~0u, ~0u)),
                        same(found, before));
        } else if (restore) {
            *place = before;
        }
    }
    add_up(tally, out);
}
