#!/usr/bin/env python3
"""bench.py FIRSTLIGHT LIBRARIES [RUNS]: the time of an NCCL call as measured by `firstlight nccl`, compared
with a plain program that measures like nccl-tests (plain.c), alternately on this machine's GPUs, all in one process;
all_reduce also without peer-to-peer (off). LIBRARIES: the folders of the libraries of driver and NCCL, separated
by :. Prints the median of both and their ratio for the smallest nonzero size and for a large one. Needs gcc, taskset
and two GPUs. Exit status: 0 everything was measured, 1 something was not, 2 nothing could be measured.

Both are pinned to the same processor, a different one in each run: at 8 B the time depends on the processor, and on
4 H200 of a virtual machine it was 1.5 times as long in every fourth run, of either program, that was not pinned."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

SPLIT = ["all_gather", "reduce_scatter", "alltoall", "gather", "scatter"]
WHOLE = ["all_reduce", "broadcast", "reduce", "sendrecv"]
# As in firstlight's own processes.
SETTINGS = {"NCCL_NVLS_ENABLE": "0", "NCCL_MNNVL_ENABLE": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
PEER_TO_PEER = {"on": {"NCCL_P2P_LEVEL": "SYS"}, "off": {"NCCL_P2P_DISABLE": "1"}}
LONGEST_S = 300
PLACEMENTS = ["out of place", "in place"]


def die(why):
    print(f"bench.py: error: {why}", file=sys.stderr)
    sys.exit(2)


def output(what, command, environment):
    """Returns standard output, or nothing if the command failed, with the reason on standard error."""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        print(f"{what}: not done after {LONGEST_S} s", file=sys.stderr)
        return ""
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()[-1]
        print(f"{what}: status {done.returncode}: {last}", file=sys.stderr)
        return ""
    return done.stdout


def plain(program, libraries, cpu, count, collective, p2p, sizes):
    """Returns {size: (out of place, in place)} in microseconds."""
    environment = os.environ | SETTINGS | PEER_TO_PEER[p2p] | {"LD_LIBRARY_PATH": libraries}
    command = ["taskset", "-c", str(cpu), program, str(count), collective, *map(str, sizes)]
    rows = [line.split() for line in output(f"plain {collective}", command, environment).splitlines()]
    return {int(size): (float(out), float(into)) for size, out, into in rows}


def ours(firstlight, libraries, cpu, collective, p2p, sizes):
    """The same from firstlight's table, which has nccl-tests' columns: the sixth and the tenth are times."""
    folders = ",".join(f'"{folder}"' for folder in libraries.split(":"))
    command = ["taskset", "-c", str(cpu), firstlight, "--set", f"validate.library_path=[{folders}]", "nccl", collective]
    command += ["--p2p", p2p, "-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", str(sizes[-1] // sizes[0])]
    text = output(f"firstlight nccl {collective}", command, None)
    rows = [line.split() for line in text.splitlines() if re.match(r" +\d", line)]
    return {int(row[0]): (float(row[5]), float(row[9])) for row in rows}


def gpus(libraries):
    """Returns the number of GPUs according to the driver."""
    word = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(); " \
        "assert c.cuInit(0) == 0 and c.cuDeviceGetCount(ctypes.byref(n)) == 0; print(n.value)"
    text = output("counting GPUs", [sys.executable, "-c", word], os.environ | {"LD_LIBRARY_PATH": libraries}).strip()
    return int(text) if text.isdigit() else die(f"no GPUs by the libraries in {libraries}")


def measure(program, firstlight, libraries, runs):
    """Returns [collective, size, place, plain's times, ours] of all rows."""
    count, cpus, rows = gpus(libraries), sorted(os.sched_getaffinity(0)), []
    if count < 2:
        die(f"{count} GPU: two are needed")
    for collective, p2p in [(name, "on") for name in WHOLE + SPLIT] + [("all_reduce", "off")]:
        small, factor = (8, 1 << 24) if collective in WHOLE else (16 * count, 1 << 21)
        sizes = [small, small * factor]
        taken = []
        for run in range(runs):
            cpu = cpus[(1 + run * 13) % len(cpus)]
            turns = [lambda: plain(program, libraries, cpu, count, collective, p2p, sizes),
                     lambda: ours(firstlight, libraries, cpu, collective, p2p, sizes)]
            pair = [turn() for turn in (turns if run % 2 == 0 else reversed(turns))]
            taken.append(pair if run % 2 == 0 else pair[::-1])
        named = collective if p2p == "on" else f"{collective} off"
        print(f"{named}: {runs} runs", file=sys.stderr)
        for size in sizes:
            for place, name in enumerate(PLACEMENTS):
                times = [[side[size][place] for side in sides if size in side] for sides in zip(*taken)]
                rows.append((named, size, name, *times))
    return rows


def main():
    if len(sys.argv) not in (3, 4):
        die("usage: bench.py FIRSTLIGHT LIBRARIES [RUNS]")
    firstlight, libraries = os.path.realpath(sys.argv[1]), sys.argv[2]
    runs = sys.argv[3] if len(sys.argv) == 4 else "5"
    if not re.fullmatch(r"[1-9]\d?", runs):
        die(f"'{runs}' is no number of runs: 1 to 99")
    for tool in ["gcc", "taskset", firstlight]:
        if not shutil.which(tool):
            die(f"there is no program {tool}")
    with tempfile.TemporaryDirectory() as work:
        program = f"{work}/plain"
        source = Path(__file__).parent / "plain.c"
        if subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-o", program, str(source), "-ldl"]).returncode != 0:
            die(f"{source} could not be compiled")
        rows = measure(program, firstlight, libraries, int(runs))
    print(f"{'collective':<15} {'bytes':>10} {'':<13} {'plain us':>9} {'ours us':>9} {'ratio':>6}")
    missing = 0
    for collective, size, place, theirs, mine in rows:
        if not theirs or not mine:
            missing += 1
            print(f"{collective:<15} {size:>10} {place:<13} not measured: {len(theirs)} and {len(mine)} of {runs} runs")
            continue
        a, b = median(theirs), median(mine)
        print(f"{collective:<15} {size:>10} {place:<13} {a:>9.2f} {b:>9.2f} {b / a:>6.3f}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
