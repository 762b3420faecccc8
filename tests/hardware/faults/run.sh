#!/usr/bin/env bash
# run.sh FIRSTLIGHT LIBRARIES: on a machine with GPUs, puts faults between the validator and the real
# driver, whose libraries lie in LIBRARIES, and checks that each gets its verdict and is named. Needs gcc and
# two GPUs that have peer access. Exit status: 0 all as expected, 1 not.
set -euo pipefail
firstlight=$(realpath "${1:?which firstlight?}") libraries=${2:?which folder holds the driver libraries?}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
grep -o '"cu[A-Z][A-Za-z0-9_]*"' "$here/../../../validator/src/gpu/cuda/api.rs" | tr -d '"' | sort -u | sed 's/.*/CALL(&)/' > "$work/calls.h"
gcc -O1 -shared -fPIC -o "$work/libcuda.so.1" -I"$work" -DREAL="\"$libraries/libcuda.so.1\"" "$here/shim.c" -ldl
ln -s "$libraries/libnvidia-ml.so.1" "$work/libnvidia-ml.so.1"

bad=0
# FAULT OUTCOME CODE WORDS: what p2p-integrity must come to, by which finding, and what it must say.
expect() {
    echo "$1" > "$work/fault"
    local said
    said=$("$firstlight" --set "validate.library_path=[\"$work\"]" p2p --level quick 2> "$work/err" || true)
    if grep -q "  $2 *p2p-integrity" <<< "$said" && grep -q "$3" <<< "$said" && grep -qE "$4" <<< "$said"; then
        echo "ok    $1: $(grep -A2 "p2p-integrity" <<< "$said" | head -2 | tr -s ' ' | tr '\n' ' ')"
    else
        echo "WRONG $1: expected $2 $3 '$4'"; echo "$said"; tail -5 "$work/err"; bad=1
    fi
}
expect none PASS PASS 'arrive, and nothing else'
expect zeros FAIL P2P-WRONG-DATA 'zeros'
expect dropped FAIL P2P-WRONG-DATA 'copy engine'
expect short FAIL P2P-WRONG-DATA 'copy engine'
expect shifted FAIL P2P-WRONG-DATA 'copy engine'
expect kernel-dropped FAIL P2P-WRONG-DATA 'SM'
expect hang FAIL P2P-HANG 'GPU . -> .'
expect unknown-code ERROR CUDA-ERROR '12345'
expect crash ERROR TEST-CRASHED 'GPU . -> .'
expect block ERROR TEST-TIMEOUT 'GPU . -> .'
exit $bad
