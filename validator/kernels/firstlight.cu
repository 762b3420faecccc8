// All kernels as one module: what compile.py compiles.

#include "atomics.cu"
#include "copy.cu"
#include "nccl.cu"
#include "pattern.cu"
#include "pingpong.cu"
#include "time.cu"
