// plain GPUS COLLECTIVE BYTES..: microseconds of one NCCL call, out of place and in place, measured like nccl-tests
// 2.19 with its defaults: one process and one thread for all GPUs, one warm-up call, then 20 calls and the wait for
// their end by the host's clock, each call at the next offset in the buffers. Nothing else is between the clock and
// NCCL, and no value is checked. Prints `BYTES OUT IN` for each size; no size may be larger than the last one.
// libnccl.so.2 and libcuda.so.1 are found by the loader.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GPUS = 16, CALLS = 20, FLOAT = 7, SUM = 0, ROOT = 0, NOT_READY = 600, NON_BLOCKING = 1 };
// An all-to-all kind counts its elements in multiples of this many bytes.
enum { UNIT = 16 };

typedef void *Handle;
typedef struct { Handle stream, comm; uint64_t send, receive; } Rank;
typedef struct { const char *name, *function; int split; } Collective;

// `split`: every rank has a part of the buffer.
static const Collective all[] = {
    { "all_reduce", "ncclAllReduce", 0 }, { "all_gather", "ncclAllGather", 1 },
    { "reduce_scatter", "ncclReduceScatter", 1 }, { "broadcast", "ncclBroadcast", 0 },
    { "reduce", "ncclReduce", 0 }, { "alltoall", "ncclAlltoAll", 1 }, { "sendrecv", "ncclSend", 0 },
    { "gather", "ncclGather", 1 }, { "scatter", "ncclScatter", 1 },
};

static Rank ranks[GPUS];
static int gpus;
static const Collective *which;
static uint64_t most;

static void die(const char *what, int code) {
    fprintf(stderr, "plain: %s: %d\n", what, code);
    exit(1);
}

static void *function(Handle library, const char *name) {
    void *it = dlsym(library, name);
    if (!it) { fprintf(stderr, "plain: %s\n", dlerror()); exit(3); }
    return it;
}

static Handle library(const char *name) {
    Handle it = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!it) { fprintf(stderr, "plain: %s\n", dlerror()); exit(1); }
    return it;
}

#define good(call) do { int code = (call); if (code) die(#call, code); } while (0)

static int (*group_start)(void), (*group_end)(void), (*async_error)(Handle, int *), (*query)(Handle);
static void *call, *receive;

// One rank's call; the call's count is `part` bytes.
static int one(const Rank *it, int rank, uint64_t part, uint64_t shift, int in_place) {
    uint64_t to = it->receive + shift, from = in_place ? to : it->send + shift, count = part / 4;
    const char *name = which->name;
    // In place, a rank's part is at its position in the whole.
    if (in_place && (!strcmp(name, "all_gather") || !strcmp(name, "gather"))) from = to + rank * part;
    if (in_place && (!strcmp(name, "reduce_scatter") || !strcmp(name, "scatter"))) to = from + rank * part;
    if (!strcmp(name, "all_reduce") || !strcmp(name, "reduce_scatter"))
        return ((int (*)(uint64_t, uint64_t, size_t, int, int, Handle, Handle))call)(from, to, count, FLOAT, SUM, it->comm, it->stream);
    if (!strcmp(name, "reduce"))
        return ((int (*)(uint64_t, uint64_t, size_t, int, int, int, Handle, Handle))call)(from, to, count, FLOAT, SUM, ROOT, it->comm, it->stream);
    if (!strcmp(name, "all_gather") || !strcmp(name, "alltoall"))
        return ((int (*)(uint64_t, uint64_t, size_t, int, Handle, Handle))call)(from, to, count, FLOAT, it->comm, it->stream);
    if (strcmp(name, "sendrecv"))
        return ((int (*)(uint64_t, uint64_t, size_t, int, int, Handle, Handle))call)(from, to, count, FLOAT, ROOT, it->comm, it->stream);
    int (*send)(uint64_t, size_t, int, int, Handle, Handle) = call, (*take)(uint64_t, size_t, int, int, Handle, Handle) = receive;
    int code = send(from, count, FLOAT, (rank + 1) % gpus, it->comm, it->stream);
    return code ? code : take(to, count, FLOAT, (rank + gpus - 1) % gpus, it->comm, it->stream);
}

static void enqueue(int n, uint64_t bytes, int in_place) {
    uint64_t places = most / bytes, shift = bytes * (n % (places ? places : 1));
    uint64_t part = which->split ? bytes / gpus / UNIT * UNIT : bytes;
    good(group_start());
    for (int rank = 0; rank < gpus; rank++) good(one(&ranks[rank], rank, part, shift, in_place));
    good(group_end());
}

static void finish(void) {
    for (int left = gpus, done[GPUS] = { 0 }; left;)
        for (int rank = 0; rank < gpus; rank++) {
            if (done[rank]) continue;
            int state = query(ranks[rank].stream), error = 0;
            if (state == 0) { done[rank] = 1; left--; continue; }
            if (state != NOT_READY) die("a stream", state);
            good(async_error(ranks[rank].comm, &error));
            if (error) die("a communicator", error);
        }
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static double time_us(uint64_t bytes, int in_place) {
    enqueue(0, bytes, in_place);
    finish();
    double began = now_us();
    for (int n = 0; n < CALLS; n++) enqueue(n, bytes, in_place);
    finish();
    return (now_us() - began) / CALLS;
}

static void open_gpus(Handle cuda, Handle nccl) {
    int (*retain)(Handle *, int) = function(cuda, "cuDevicePrimaryCtxRetain");
    int (*current)(Handle) = function(cuda, "cuCtxSetCurrent");
    int (*alloc)(uint64_t *, size_t) = function(cuda, "cuMemAlloc_v2");
    int (*stream)(Handle *, unsigned) = function(cuda, "cuStreamCreate");
    int (*init)(Handle *, int, const int *) = function(nccl, "ncclCommInitAll");
    int devices[GPUS];
    Handle contexts[GPUS], comms[GPUS];
    for (int n = 0; n < gpus; n++) {
        devices[n] = n;
        good(retain(&contexts[n], n));
        good(current(contexts[n]));
        good(alloc(&ranks[n].send, most));
        good(alloc(&ranks[n].receive, most));
        good(stream(&ranks[n].stream, NON_BLOCKING));
    }
    good(current(contexts[0]));
    good(init(comms, gpus, devices));
    for (int n = 0; n < gpus; n++) ranks[n].comm = comms[n];
}

int main(int count, char **words) {
    gpus = count > 3 ? atoi(words[1]) : 0;
    for (size_t n = 0; count > 3 && n < sizeof all / sizeof *all; n++)
        if (!strcmp(all[n].name, words[2])) which = &all[n];
    if (gpus < 1 || gpus > GPUS || !which) {
        fputs("usage: plain GPUS COLLECTIVE BYTES..; 1 to 16 GPUs, collectives as in nccl-tests\n", stderr);
        return 2;
    }
    most = strtoull(words[count - 1], NULL, 10);
    Handle cuda = library("libcuda.so.1"), nccl = library("libnccl.so.2");
    int (*start)(unsigned) = function(cuda, "cuInit");
    good(start(0));
    query = function(cuda, "cuStreamQuery");
    group_start = function(nccl, "ncclGroupStart");
    group_end = function(nccl, "ncclGroupEnd");
    async_error = function(nccl, "ncclCommGetAsyncError");
    call = function(nccl, which->function);
    receive = function(nccl, "ncclRecv");
    open_gpus(cuda, nccl);
    // Every size runs twice before anything is timed, as in nccl-tests.
    for (int n = 3; n < count * 2 - 3; n++) {
        uint64_t bytes = strtoull(words[3 + (n - 3) % (count - 3)], NULL, 10);
        if (bytes == 0 || bytes > most) die("a size", (int)bytes);
        enqueue(0, bytes, 0);
        finish();
    }
    for (int n = 3; n < count; n++) {
        uint64_t bytes = strtoull(words[n], NULL, 10);
        double out = time_us(bytes, 0), in = time_us(bytes, 1);
        printf("%llu %.2f %.2f\n", (unsigned long long)bytes, out, in);
    }
    return 0;
}
