#!/usr/bin/env bash
# simulate.sh [SCENARIO [LEVEL]] | list: builds the program and simulated GPUs, and has the program judge a scenario of
# tests/simgpu/scenarios on this host, without a kernel, an image or QEMU: `healthy` at level `standard` unless named.
# Ends with the program's exit status: 0 PASS, 1 FAIL, 2 ERROR, 3 DEGRADED, 64 wrong use. Needs cargo and a C compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

# The small test brings the features of a build of tests, so that both share what they compile.
tests/check.sh with cargo build --locked --lib --bin firstlight --bin simulate --test driver >&2
exec "${CARGO_TARGET_DIR:-target}/debug/simulate" "$@"
