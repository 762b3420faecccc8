// A libnccl.so.2 that forwards every call to the real one and does one thing wrong, so that the validator's reaction
// can be checked on real GPUs. Only functions that the validator requires are here: alltoall, gather and scatter are
// sends and receives, as with an NCCL before 2.28. REAL is the real library; the fault is the word in the file
// `fault` next to this one. With OLD, a function is missing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// As in nccl.h.
typedef void *Comm;
typedef void *Stream;
typedef struct { char internal[128]; } UniqueId;
typedef unsigned long long address;
enum { MAX = 2, HALF = 6, FLOAT = 7, DOUBLE = 8, BFLOAT16 = 9, INT32 = 2 };

static char fault[32];
static void *nccl, *cuda;

static int is(const char *word) { return strcmp(fault, word) == 0; }

static void *found(void *library, const char *name) {
    void *it = dlsym(library, name);
    if (!it) { fprintf(stderr, "shim: %s\n", dlerror()); abort(); }
    return it;
}

// real(name, arguments ..): the real function, which is looked up once.
#define real(name, ...) ({ static __typeof__(&name) it; if (!it) it = (__typeof__(&name))found(nccl, #name); it(__VA_ARGS__); })
#define driver(name, types, ...) ({ static int (*it) types; if (!it) it = (int (*) types)found(cuda, #name); it(__VA_ARGS__); })

static void sleep_forever(void) { for (;;) pause(); }

static int rank_of(Comm comm) {
    static int (*it)(Comm, int *);
    if (!it) it = (int (*)(Comm, int *))found(nccl, "ncclCommUserRank");
    int rank = -1;
    it(comm, &rank);
    return rank;
}

static size_t bytes_of(int type) { return type == DOUBLE ? 8 : type == HALF || type == BFLOAT16 ? 2 : 4; }

// One element in the middle of a buffer is set, after the collective, to a value that no sum of whole numbers has. In
// a group only the group's end launches the collective, so it waits for that.
typedef struct { address at; size_t bytes; Stream stream; } Spot;
static __thread Spot spots[64];
static __thread int spotted, depth;

static void spoil(void) {
    if (depth > 0) return;
    for (int n = 0; n < spotted; n++) {
        void *context = NULL;
        int code = driver(cuStreamGetCtx, (Stream, void **), spots[n].stream, &context);
        if (code == 0) code = driver(cuCtxPushCurrent_v2, (void *), context);
        if (code == 0) {
            code = driver(cuMemsetD8Async, (address, unsigned char, size_t, Stream), spots[n].at, 0x3f, spots[n].bytes, spots[n].stream);
            void *none;
            driver(cuCtxPopCurrent_v2, (void **), &none);
        }
        // A fault that could not be applied must not look like one that was not found.
        if (code != 0) { fprintf(stderr, "shim: no fault was put in: CUDA error %d\n", code); abort(); }
    }
    spotted = 0;
}

// Consecutive identical calls: a burst that is timed, after calls whose results were checked.
static __thread struct { size_t count; int type, op, times; } last[64];

static int repeated(size_t count, int type, int op, int rank) {
    if (rank < 0 || rank >= 64) return 0;
    int same = last[rank].count == count && last[rank].type == type && last[rank].op == op;
    last[rank].times = same ? last[rank].times + 1 : 0;
    last[rank].count = count, last[rank].type = type, last[rank].op = op;
    return last[rank].times;
}

static void wrong_element(void *buffer, size_t count, int type, Stream stream) {
    size_t bytes = bytes_of(type);
    if (count > 0 && spotted < 64) spots[spotted++] = (Spot){ (address)buffer + count / 2 * bytes, bytes, stream };
    spoil();
}

// Whether this process is only one rank of its communicators.
static int joined;
// Number of all_reduce calls so far.
static unsigned long called;

int ncclGetVersion(int *version) { return real(ncclGetVersion, version); }
int ncclGetUniqueId(UniqueId *id) { return real(ncclGetUniqueId, id); }

int ncclCommInitAll(Comm *comms, int count, const int *devices) {
    if (is("hang-init")) sleep_forever();
    return real(ncclCommInitAll, comms, count, devices);
}

int ncclCommInitRank(Comm *comm, int ranks, UniqueId id, int rank) {
    if (is("hang-init") || (is("hang-join") && rank == 1)) sleep_forever();
    joined = 1;
    return real(ncclCommInitRank, comm, ranks, id, rank);
}

int ncclCommDestroy(Comm comm) { return real(ncclCommDestroy, comm); }

int ncclCommAbort(Comm comm) {
    if (is("hang-abort")) sleep_forever();
    return real(ncclCommAbort, comm);
}

int ncclCommGetAsyncError(Comm comm, int *error) { return real(ncclCommGetAsyncError, comm, error); }
const char *ncclGetErrorString(int code) { return real(ncclGetErrorString, code); }
#ifndef OLD
const char *ncclGetLastError(Comm comm) { return real(ncclGetLastError, comm); }
#endif

int ncclAllReduce(const void *send, void *receive, size_t count, int type, int op, Comm comm, Stream stream) {
    int large = count * bytes_of(type) >= 1 << 20, rank = rank_of(comm);
    if (is("nccl-unknown-code")) return 12345;
    if (is("nccl-crash") && rank == 1) abort();
    // Nothing is launched on one rank, so that the others wait for it. Only in large calls: NCCL has started well by
    // then, and the first test has passed.
    if ((is("hang-collective") || is("hang-abort")) && large && rank == 1) return 0;
    int times = repeated(count, type, op, rank);
    // Nothing is done, and quickly: the time must not be believed.
    if (is("timed-skipped") && large && times > 2) return 0;
    int code = real(ncclAllReduce, send, receive, count, type, op, comm, stream);
    size_t bytes = count * bytes_of(type);
    int here = is("wrong-element") ? large : is("wrong-bfloat16") ? type == BFLOAT16 : is("wrong-joined") ? large && joined
             : is("timed-wrong") ? large && times > 2 : is("odd-count") ? count > 1 && count % 2 == 1
             : is("large-call") ? bytes > 128 << 20 : is("in-place") ? send == receive && count > 64
             : is("unaligned-call") ? (address)receive % 16 != 0 && count > 1
             : is("rare-call") ? __sync_add_and_fetch(&called, 1) % 1000 == 0 : 0;
    if (code == 0 && here && rank == 1) wrong_element(receive, count, type, stream);
    return code;
}

int ncclAllGather(const void *send, void *receive, size_t count, int type, Comm comm, Stream stream) {
    int rank = rank_of(comm), times = repeated(count, type, -1, rank);
    int code = real(ncclAllGather, send, receive, count, type, comm, stream);
    if (code == 0 && is("timed-gather") && count * bytes_of(type) >= 1 << 16 && times > 2 && rank == 0) wrong_element(receive, count, type, stream);
    return code;
}

int ncclReduceScatter(const void *send, void *receive, size_t count, int type, int op, Comm comm, Stream stream) {
    int code = real(ncclReduceScatter, send, receive, count, type, op, comm, stream);
    if (code == 0 && is("scatter-max") && op == MAX && rank_of(comm) == 1) wrong_element(receive, count, type, stream);
    return code;
}

int ncclBroadcast(const void *send, void *receive, size_t count, int type, int root, Comm comm, Stream stream) {
    int code = real(ncclBroadcast, send, receive, count, type, root, comm, stream);
    if (code == 0 && is("wrong-broadcast") && rank_of(comm) == 1) wrong_element(receive, count, type, stream);
    return code;
}

int ncclReduce(const void *send, void *receive, size_t count, int type, int op, int root, Comm comm, Stream stream) {
    return real(ncclReduce, send, receive, count, type, op, root, comm, stream);
}

int ncclSend(const void *send, size_t count, int type, int peer, Comm comm, Stream stream) {
    return real(ncclSend, send, count, type, peer, comm, stream);
}

int ncclRecv(void *receive, size_t count, int type, int peer, Comm comm, Stream stream) {
    return real(ncclRecv, receive, count, type, peer, comm, stream);
}

int ncclGroupStart(void) {
    depth++;
    return real(ncclGroupStart);
}

int ncclGroupEnd(void) {
    int code = real(ncclGroupEnd);
    depth--;
    if (code == 0) spoil();
    return code;
}

// NCCL reads its settings at its first call and logs them, so the validator's are overruled before that.
static void overrule(void) {
    const char *shm = getenv("NCCL_SHM_DISABLE");
    int strict = shm && strcmp(shm, "1") == 0;
    if (is("no-p2p") || is("shm") || (is("shm-if-allowed") && !strict)) setenv("NCCL_P2P_DISABLE", "1", 1);
    if (is("shm")) {
        setenv("NCCL_SHM_DISABLE", "0", 1);
        setenv("NCCL_NET_DISABLE_INTRA", "0", 1);
    }
}

__attribute__((constructor)) static void begin(void) {
    Dl_info own;
    char path[4096];
    dladdr((void *)begin, &own);
    snprintf(path, sizeof path, "%.*s/fault", (int)(strrchr(own.dli_fname, '/') - own.dli_fname), own.dli_fname);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%31s", fault) != 1) abort();
    fclose(file);
    overrule();
    nccl = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nccl || !cuda) { fprintf(stderr, "shim: %s\n", dlerror()); abort(); }
}
