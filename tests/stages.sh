#!/usr/bin/env bash
# stages.sh: everything that must hold, cheap stages first. Stops at the first stage that fails, and prints the seconds of
# each. Needs `just` and all that the recipes need; `./run test` installs it.
set -euo pipefail
cd "$(dirname "$0")/.."

# stage NAME COMMAND..
stage() {
    local name=$1 from=$SECONDS
    shift
    echo "stage  $name"
    "$@" || { echo "stage  $name FAILED after $((SECONDS - from)) s; the stages after it were not run" >&2; exit 1; }
    printf 'stage  %-10s %5d s\n' "$name" $((SECONDS - from))
}

stage check tests/check.sh
stage simulate just simulate-tests
stage kernels just kernels --check
stage fuzz just fuzz
stage image just image-tests
stage boots just boots
printf 'stage  all held   %5d s\n' "$SECONDS"
