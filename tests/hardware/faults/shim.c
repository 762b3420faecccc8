// A libcuda.so.1 that passes every call on to the real one and does one thing wrong, so that what the
// validator says can be seen on real GPUs. run.sh generates calls.h: CALL(name) for each function that
// the validator looks up. The fault is the word in the file `fault` beside this library.
#define _GNU_SOURCE
#include <dlfcn.h>
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

// The wrong ones. Only copies between GPUs and to the host come by cuMemcpyAsync and its siblings.
static int (*copy)(address, address, size_t, void *);
static int (*set)(address, unsigned char, size_t, void *);
static int (*query)(void *);
static int (*function)(void **, void *, const char *);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static int copied;
static void *copy16;

static int is(const char *word) { return strcmp(fault, word) == 0; }

static int wrong_cuMemcpyAsync(address to, address from, size_t bytes, void *stream) {
    copied = 1;
    if (is("zeros")) return set(to, 0, bytes, stream);
    if (is("dropped")) return 0;
    if (is("short") && bytes > 4096) return copy(to, from, bytes - 16, stream);
    if (is("shifted") && bytes > 4096) return copy(to + 256, from, bytes - 256, stream);
    if (is("unknown-code")) return 12345;
    if (is("crash")) abort();
    if (is("block")) pause();
    return copy(to, from, bytes, stream);
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
    return launch(f, a, b, c, d, e, g, h, stream, arguments, extra);
}

static void *replaced(const char *name, void *it) {
    if (strcmp(name, "cuMemcpyAsync") == 0) { copy = it; return wrong_cuMemcpyAsync; }
    if (strcmp(name, "cuMemsetD8Async") == 0) { set = it; return it; }
    if (strcmp(name, "cuStreamQuery") == 0) { query = it; return wrong_cuStreamQuery; }
    if (strcmp(name, "cuModuleGetFunction") == 0) { function = it; return wrong_cuModuleGetFunction; }
    if (strcmp(name, "cuLaunchKernel") == 0) { launch = it; return wrong_cuLaunchKernel; }
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
