#!/usr/bin/env bash
# simulate.sh [SCENARIO [LEVEL] [WORD..]] | list | --help: builds the program and simulated GPUs, and has the program judge a scenario of
# tests/simgpu/scenarios on this host, without a kernel, an image or QEMU: `healthy` at level `standard` unless named.
# Further words go to the program.
# Ends with the program's exit status: 0 PASS, 1 FAIL, 2 ERROR, 3 DEGRADED, 64 wrong use. Needs cargo and a C compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in -h | --help)
    cat << 'END'
./run simulate [SCENARIO [LEVEL] [WORD..]]    judge simulated GPUs on this host; default: healthy standard
./run simulate list                           list the scenarios

LEVEL is quick, standard, full or acceptance. Words behind it go to the program:

  ./run simulate slow-pair --json r.json --html r.html    options of `firstlight validate`
  ./run simulate slow-pair p2p                            another command: p2p, nccl all_reduce, topo, fabric show ..

The exit status is the program's: 0 PASS, 1 FAIL, 2 ERROR, 3 DEGRADED, 64 wrong use.
END
    exit ;;
esac

# The small test brings the features of a build of tests, so that both share what they compile.
tests/check.sh with cargo build --locked --lib --bin firstlight --bin simulate --test driver >&2
exec "${CARGO_TARGET_DIR:-target}/debug/simulate" "$@"
