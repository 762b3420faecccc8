#!/usr/bin/env python3
"""nccl.py LIBRARY..: runs each NCCL library's collectives on all GPUs of this machine and checks every
element on the host, which shows whether a library whose unused code was removed is complete.

Prints a table: library, collective, bytes, wrong elements, milliseconds and bus bandwidth in GB/s (10^9,
as in nccl-tests). Exit status: 0 nothing wrong, 1 wrong elements, 2 could not be run. Needs only the NVIDIA
driver and python3."""

import ctypes
import os
import sys
import time
from array import array

FLOAT, SUM = 7, 0  # ncclFloat32, ncclSum (nccl.h)
SIZES = [1 << 10, 1 << 20, 128 << 20]


def die(why):
    print(f"nccl.py: {why}", file=sys.stderr)
    sys.exit(2)


def load(name, functions):
    """Loads a library with checked functions: each returns 0 or ends the run."""
    try:
        library = ctypes.CDLL(name)
    except OSError as e:
        die(e)

    def checked(function):
        call = getattr(library, function)

        def run(*args):
            result = call(*args)
            if result != 0:
                die(f"{name}: {function} returned {result}")

        return run

    return type("Library", (), {function: staticmethod(checked(function)) for function in functions})


def pointer(value=0):
    return ctypes.c_void_p(value)


class Gpu:
    """One GPU: context, stream, and two buffers of `size` bytes."""

    def __init__(self, cuda, ordinal, size):
        self.cuda, self.context, self.stream = cuda, pointer(), pointer()
        device = ctypes.c_int()
        cuda.cuDeviceGet(ctypes.byref(device), ordinal)
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device)
        self.use()
        cuda.cuStreamCreate(ctypes.byref(self.stream), 1)
        self.send, self.receive = ctypes.c_uint64(), ctypes.c_uint64()
        for buffer in (self.send, self.receive):
            cuda.cuMemAlloc_v2(ctypes.byref(buffer), ctypes.c_size_t(size))

    def use(self):
        self.cuda.cuCtxSetCurrent(self.context)

    def wait(self):
        self.use()
        self.cuda.cuStreamSynchronize(self.stream)

    def write(self, buffer, values):
        self.use()
        data, count = values.buffer_info()
        self.cuda.cuMemcpyHtoD_v2(buffer, pointer(data), ctypes.c_size_t(count * 4))
        self.cuda.cuCtxSynchronize()  # the copy may still be in progress from the staging buffer

    def read(self, buffer, count):
        self.use()
        values = array("f", bytes(4 * count))
        self.cuda.cuMemcpyDtoH_v2(pointer(values.buffer_info()[0]), buffer, ctypes.c_size_t(count * 4))
        return values


def value(rank):
    """The value that a rank sends: sums are exact in float32, and each value identifies its rank."""
    return float(1 << rank)


def collectives(nccl, ranks):
    """Returns name -> (start(rank, gpu, comm, count), expected(rank, count) -> [(elements, value)], traffic factor)"""
    n, total = ranks, sum(value(r) for r in range(ranks))

    def blocks(count):
        return [(count // n, value(r)) for r in range(n)]

    def plain(function, *tail):
        return lambda rank, g, comm, count: function(g.send, g.receive, ctypes.c_size_t(count), *tail, comm, g.stream)

    def gather(rank, g, comm, count):
        nccl.ncclAllGather(g.send, g.receive, ctypes.c_size_t(count // n), FLOAT, comm, g.stream)

    def scatter(rank, g, comm, count):
        nccl.ncclReduceScatter(g.send, g.receive, ctypes.c_size_t(count // n), FLOAT, SUM, comm, g.stream)

    def exchange(rank, g, comm, count):
        part = count // n
        for peer in range(n):
            offset = peer * part * 4
            nccl.ncclSend(ctypes.c_uint64(g.send.value + offset), ctypes.c_size_t(part), FLOAT, peer, comm, g.stream)
            nccl.ncclRecv(ctypes.c_uint64(g.receive.value + offset), ctypes.c_size_t(part), FLOAT, peer, comm, g.stream)

    def ring(rank, g, comm, count):
        nccl.ncclSend(g.send, ctypes.c_size_t(count), FLOAT, (rank + 1) % n, comm, g.stream)
        nccl.ncclRecv(g.receive, ctypes.c_size_t(count), FLOAT, (rank - 1) % n, comm, g.stream)

    return {
        "all_reduce": (plain(nccl.ncclAllReduce, FLOAT, SUM), lambda r, c: [(c, total)], 2 * (n - 1) / n),
        "all_gather": (gather, lambda r, c: blocks(c), (n - 1) / n),
        "reduce_scatter": (scatter, lambda r, c: [(c // n, total)], (n - 1) / n),
        "broadcast": (plain(nccl.ncclBroadcast, FLOAT, 0), lambda r, c: [(c, value(0))], 1),
        "reduce": (plain(nccl.ncclReduce, FLOAT, SUM, 0), lambda r, c: [(c, total)] if r == 0 else [], 1),
        "alltoall": (exchange, lambda r, c: blocks(c), (n - 1) / n),
        "sendrecv": (ring, lambda r, c: [(c, value((r - 1) % n))], 1),
    }


def wrong_elements(got, expected):
    at = wrong = 0
    for count, want in expected:
        part = got[at : at + count]
        if part.tobytes() != array("f", [want]).tobytes() * count:
            wrong += sum(1 for element in part if element != want)
        at += count
    return wrong


def run(name, cuda, gpus):
    nccl = load(
        name,
        "ncclGetVersion ncclCommInitAll ncclGroupStart ncclGroupEnd ncclAllReduce ncclAllGather ncclReduceScatter "
        "ncclBroadcast ncclReduce ncclSend ncclRecv ncclCommDestroy".split(),
    )
    version = ctypes.c_int()
    nccl.ncclGetVersion(ctypes.byref(version))
    comms = (ctypes.c_void_p * len(gpus))()
    nccl.ncclCommInitAll(comms, len(gpus), None)
    found = 0
    for collective, (start, expected, factor) in collectives(nccl, len(gpus)).items():
        for size in SIZES:
            count, times = size // 4, []
            for rank, gpu in enumerate(gpus):
                gpu.write(gpu.send, array("f", [value(rank)]) * count)
                gpu.write(gpu.receive, array("f", [-1.0]) * count)
            for _ in range(6):
                [gpu.wait() for gpu in gpus]
                began = time.perf_counter()
                nccl.ncclGroupStart()
                for rank, gpu in enumerate(gpus):
                    gpu.use()
                    start(rank, gpu, pointer(comms[rank]), count)
                nccl.ncclGroupEnd()
                [gpu.wait() for gpu in gpus]
                times.append(time.perf_counter() - began)
            wrong = sum(wrong_elements(gpu.read(gpu.receive, count), expected(rank, count)) for rank, gpu in enumerate(gpus))
            found += wrong
            best = min(times)
            label = f"{os.path.basename(name)} {version.value}"
            print(f"{label:<28} {collective:<15} {size:>10} {wrong:>8} {best * 1e3:>9.3f} {size * factor / best / 1e9:>8.1f}", flush=True)
    [nccl.ncclCommDestroy(pointer(comm)) for comm in comms]
    return found


def main(libraries):
    if not libraries:
        die(__doc__)
    cuda = load(
        "libcuda.so.1",
        "cuInit cuDeviceGetCount cuDeviceGet cuDevicePrimaryCtxRetain cuCtxSetCurrent cuStreamCreate cuStreamSynchronize "
        "cuCtxSynchronize cuMemAlloc_v2 cuMemcpyHtoD_v2 cuMemcpyDtoH_v2".split(),
    )
    cuda.cuInit(0)
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    gpus = [Gpu(cuda, ordinal, max(SIZES)) for ordinal in range(count.value)]
    print(f"{len(gpus)} GPUs\n{'library':<28} {'collective':<15} {'bytes':>10} {'wrong':>8} {'ms':>9} {'GB/s':>8}")
    return sum([run(name, cuda, gpus) for name in libraries])


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
