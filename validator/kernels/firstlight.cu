// All kernels as one module: what compile.py compiles.

#include "allreduce.cu"
#include "atomics.cu"
#include "batch.cu"
#include "copy.cu"
#include "nccl.cu"
#include "pattern.cu"
#include "pingpong.cu"
#include "stress.cu"
#include "tag.cu"
#include "time.cu"
