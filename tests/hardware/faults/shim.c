// A libcuda.so.1 that forwards every call to the real one and does one thing wrong, so that the validator's reaction
// can be checked on real GPUs. run.sh generates calls.h: CALL(name) for each function that the validator looks up.
// The fault is the word in the file `fault` next to this library.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long address;
static char fault[32];
static void *real;

#define CALL(name) static void *real_##name;
#include "calls.h"
#undef CALL

// The functions with faults. Only copies between GPUs and to the host use cuMemcpyAsync and its variants.
static int (*copy)(address, address, size_t, void *);
static int (*set)(address, unsigned char, size_t, void *);
static int (*query)(void *);
static int (*function)(void **, void *, const char *);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static int (*alloc)(address *, size_t);
static int (*release)(address);
static int (*retain)(void **, int);
static int (*set_current)(void *);
typedef struct { char bytes[64]; } Handle; // a CUipcMemHandle, which is passed by value
static int (*ipc_open)(address *, Handle, unsigned);
static int copied;
static void *copy16;

static int is(const char *word) { return strcmp(fault, word) == 0; }

// Known memory: blocks of this process by GPU, and blocks of other processes.
typedef struct { address at; size_t bytes; int gpu; } Block;
static Block blocks[4096];
static int known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { FOREIGN = -1 };
static const size_t LARGE = 128 << 20, PAGE = 2 << 20;

// A fault that could not be applied must not look like one that was not found.
static void must(int code, const char *what) {
    if (code != 0) { fprintf(stderr, "shim: no fault was put in: %s: CUDA error %d\n", what, code); abort(); }
}

// The GPU of a thread's current context.
static struct { void *context; int gpu; } contexts[64];
static __thread int here = -2;

static int wrong_cuDevicePrimaryCtxRetain(void **context, int gpu) {
    int code = retain(context, gpu);
    if (code == 0 && gpu >= 0 && gpu < 64) contexts[gpu].context = *context, contexts[gpu].gpu = gpu;
    return code;
}

static int wrong_cuCtxSetCurrent(void *context) {
    here = -2;
    for (int n = 0; n < 64; n++)
        if (context && contexts[n].context == context) here = contexts[n].gpu;
    return set_current(context);
}

static void learn(address at, size_t bytes, int gpu) {
    pthread_mutex_lock(&lock);
    if (known < 4096) blocks[known++] = (Block){ at, bytes, gpu };
    pthread_mutex_unlock(&lock);
}

static void forget(address at) {
    pthread_mutex_lock(&lock);
    for (int n = 0; n < known; n++)
        if (blocks[n].at == at) blocks[n--] = blocks[--known];
    pthread_mutex_unlock(&lock);
}

// The block that contains an address; its GPU is -2 if there is none.
static Block block_of(address at) {
    Block it = { 0, 0, -2 };
    pthread_mutex_lock(&lock);
    for (int n = 0; n < known; n++)
        if (at >= blocks[n].at && at < blocks[n].at + blocks[n].bytes) it = blocks[n];
    pthread_mutex_unlock(&lock);
    return it;
}

// The largest block of a GPU, at least LARGE; with `third` that of any GPU except these two.
static Block largest(int gpu, int other, int third) {
    Block it = { 0, 0, -2 };
    pthread_mutex_lock(&lock);
    for (int n = 0; n < known; n++) {
        int fits = third ? blocks[n].gpu >= 0 && blocks[n].gpu != gpu && blocks[n].gpu != other : blocks[n].gpu == gpu;
        if (fits && blocks[n].bytes >= LARGE && blocks[n].bytes > it.bytes) it = blocks[n];
    }
    pthread_mutex_unlock(&lock);
    return it;
}

static int wrong_cuMemAlloc_v2(address *at, size_t bytes) {
    int code = alloc(at, bytes);
    if (code == 0) learn(*at, bytes, here);
    return code;
}

static int wrong_cuMemFree_v2(address at) {
    forget(at);
    return release(at);
}

// Whether a copy is between blocks of two different GPUs of this process.
static int between(address to, address from, int *a, int *b) {
    *a = block_of(from).gpu, *b = block_of(to).gpu;
    return *a >= 0 && *b >= 0 && *a != *b;
}

// A page of GPU 1 does not keep what peers write: its old contents are restored after their work.
static address hole(void) {
    Block it = largest(1, 0, 0);
    return it.bytes ? (it.at + it.bytes / 10 * 6 + PAGE - 1) / PAGE * PAGE : 0;
}

static address saved[64];

static address begin_hole(int by, void *stream) {
    address at = is("hole") && by != 1 && by >= 0 && by < 64 ? hole() : 0;
    if (!at) return 0;
    if (!saved[by]) must(alloc(&saved[by], PAGE), "memory for the hole");
    must(copy(saved[by], at, PAGE, stream), "saving the hole");
    return at;
}

static void end_hole(address at, int by, void *stream) {
    if (at) must(copy(at, saved[by], PAGE, stream), "restoring the hole");
}

// A copy from GPU 0 to GPU 1 also writes some bytes elsewhere: on a third GPU, or if there is none far away on GPU 1.
static void stray(address to, address from, size_t bytes, void *stream) {
    int a, b;
    if (!is("stray") || bytes < 4096 || !between(to, from, &a, &b) || a != 0 || b != 1) return;
    Block it = largest(0, 1, 1);
    if (!it.bytes) it = largest(1, 0, 0);
    if (it.bytes && block_of(to).at != it.at) must(copy(it.at + it.bytes / 3 / 4 * 4, from, 16, stream), "a stray write");
}

static int wrong_cuMemcpyAsync(address to, address from, size_t bytes, void *stream) {
    static unsigned long small;
    copied = 1;
    if (is("zeros")) return set(to, 0, bytes, stream);
    if (is("dropped")) return 0;
    if (is("short") && bytes > 4096) return copy(to, from, bytes - 16, stream);
    if (is("shifted") && bytes > 4096) return copy(to + 256, from, bytes - 256, stream);
    if (is("unknown-code")) return 12345;
    if (is("crash")) abort();
    if (is("block")) pause();
    int a, b, peers = between(to, from, &a, &b);
    // Only sizes that are not a power of two, and only the last byte.
    if (is("odd-size") && peers && bytes % 2 == 1 && bytes > 1) return copy(to, from, bytes - 1, stream);
    if (is("between-sizes") && peers && bytes > 3 << 20 && bytes < 4 << 20) return copy(to, from, bytes - 16, stream);
    if (is("over-128m") && peers && bytes > 128 << 20) return copy(to, from, bytes - 16, stream);
    if (is("unaligned") && peers && to % 16 != 0 && bytes > 64) return copy(to, from, bytes - 4, stream);
    if (is("rare") && peers && a == 0 && b == 1 && __sync_add_and_fetch(&small, 1) % 300 == 0) return 0;
    if (is("foreign") && (block_of(to).gpu == FOREIGN || block_of(from).gpu == FOREIGN)) return 0;
    address at = begin_hole(here, stream);
    int code = copy(to, from, bytes, stream);
    end_hole(at, here, stream);
    if (code == 0) stray(to, from, bytes, stream);
    return code;
}

static int wrong_cuStreamQuery(void *stream) { return is("hang") && copied ? 600 : query(stream); }

static int wrong_cuModuleGetFunction(void **found, void *module, const char *name) {
    int code = function(found, module, name);
    if (strcmp(name, "fl_copy16") == 0) copy16 = *found;
    return code;
}

static int wrong_cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h,
                                void *stream, void **arguments, void **extra) {
    if (is("kernel-dropped") && f == copy16) return 0;
    address at = begin_hole(here, stream);
    int code = launch(f, a, b, c, d, e, g, h, stream, arguments, extra);
    end_hole(at, here, stream);
    return code;
}

static int wrong_cuIpcOpenMemHandle_v2(address *at, Handle handle, unsigned flags) {
    int code = ipc_open(at, handle, flags);
    // The block is at least as large as a page of the GPU.
    if (code == 0) learn(*at, PAGE, FOREIGN);
    return code;
}

static void *replaced(const char *name, void *it) {
    if (strcmp(name, "cuMemcpyAsync") == 0) { copy = it; return wrong_cuMemcpyAsync; }
    if (strcmp(name, "cuMemsetD8Async") == 0) { set = it; return it; }
    if (strcmp(name, "cuStreamQuery") == 0) { query = it; return wrong_cuStreamQuery; }
    if (strcmp(name, "cuModuleGetFunction") == 0) { function = it; return wrong_cuModuleGetFunction; }
    if (strcmp(name, "cuLaunchKernel") == 0) { launch = it; return wrong_cuLaunchKernel; }
    if (strcmp(name, "cuDevicePrimaryCtxRetain") == 0) { retain = it; return wrong_cuDevicePrimaryCtxRetain; }
    if (strcmp(name, "cuCtxSetCurrent") == 0) { set_current = it; return wrong_cuCtxSetCurrent; }
    if (strcmp(name, "cuMemAlloc_v2") == 0) { alloc = it; return wrong_cuMemAlloc_v2; }
    if (strcmp(name, "cuMemFree_v2") == 0) { release = it; return wrong_cuMemFree_v2; }
    if (strcmp(name, "cuIpcOpenMemHandle_v2") == 0) { ipc_open = it; return wrong_cuIpcOpenMemHandle_v2; }
    return it;
}

__attribute__((constructor)) static void begin(void) {
    Dl_info own;
    char path[4096];
    dladdr((void *)begin, &own);
    snprintf(path, sizeof path, "%.*s/fault", (int)(strrchr(own.dli_fname, '/') - own.dli_fname), own.dli_fname);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%31s", fault) != 1) abort();
    fclose(file);
    real = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    if (!real) { fprintf(stderr, "shim: %s\n", dlerror()); abort(); }
#define CALL(name) real_##name = replaced(#name, dlsym(real, #name));
#include "calls.h"
#undef CALL
}

#define CALL(name) \
    __attribute__((naked, visibility("default"))) void name(void) { __asm__("jmp *%0" : : "m"(real_##name)); }
#include "calls.h"
