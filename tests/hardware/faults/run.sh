#!/usr/bin/env bash
# run.sh FIRSTLIGHT LIBRARIES [NCCL [FAULT..]]: on a machine with GPUs, puts faults between the validator and the real
# driver, whose libraries are in LIBRARIES, and the real NCCL (the file libnccl.so.2; `none` omits its faults;
# searched for by default), and checks that each fault causes its verdict and is named. With FAULTs only those. Needs
# gcc, python3 and two GPUs with peer access. With FAULTS_ROOT=DIR the machine is the recorded one in DIR, so that
# simulated libraries can replace the real ones. Exit status: 0 all as expected, 1 not.
set -euo pipefail
firstlight=$(realpath "${1:?which firstlight?}") libraries=$(realpath "${2:?which folder contains the driver libraries?}")
nccl=${3:-} wanted=("${@:4}")
here=$(cd "$(dirname "$0")" && pwd)
# A separate folder, so that a killed program leaves nothing in a shared place.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/cuda" "$work/nccl"
bad=0 done=0
root=()
[ -z "${FAULTS_ROOT:-}" ] || root=(--root "$FAULTS_ROOT")

# FAULT: whether it is requested.
asked() {
    local one
    [ ${#wanted[@]} -gt 0 ] || return 0
    for one in "${wanted[@]}"; do [ "$one" != "$1" ] || return 0; done
    return 1
}

# FAULT OUTCOME CODE WORDS: the expected outcome of p2p-integrity, its finding's code, and words in its output.
expect() {
    asked "$1" || return 0
    done=$((done + 1))
    echo "$1" > "$work/cuda/fault"
    local output
    # Two GPUs are enough, and each pair that blocks takes a minute.
    output=$("$firstlight" "${root[@]}" --set "validate.library_path=[\"$work/cuda\"]" \
        p2p --level quick --gpus 0,1 2> "$work/err" || true)
    if grep -q "  $2 *p2p-integrity" <<< "$output" && grep -q "$3" <<< "$output" && grep -qE "$4" <<< "$output"; then
        echo "ok    $1: $(grep -A2 "p2p-integrity" <<< "$output" | head -2 | tr -s ' ' | tr '\n' ' ')"
    else
        echo "WRONG $1: expected $2 $3 '$4'"; echo "$output"; tail -5 "$work/err"; bad=1
    fi
}

# LIBRARIES FAULT LEVEL IDS OUTCOME CODE WORDS: the expected outcome of a test in `validate`, with the folders
# LIBRARIES (TOML) before all others. OUTCOME, CODE and WORDS are extended regular expressions; one of several IDs
# must match.
judged() {
    local libraries=$1 fault=$2 level=$3 ids=${4//|/,} outcome=$5 code=$6 words=$7
    local line report=$work/report.json start=$SECONDS id
    done=$((done + 1))
    rm -f "$report"
    # Normally its own deadlines end it; this timeout only prevents a broken validator from stopping the run.
    timeout --kill-after=10 400 "$firstlight" "${root[@]}" --set "validate.library_path=$libraries" \
        validate --level "$level" --only "$ids" --json "$report" > "$work/out" 2> "$work/err" < /dev/null || true
    for id in ${ids//,/ }; do
        line=$("$here/said.py" "$report" "$id")
        if grep -qE "^($outcome): " <<< "$line" && grep -qE "$code" <<< "$line" && grep -qE "$words" <<< "$line"; then
            echo "ok    $fault: $id $(cut -c 1-200 <<< "$line") ($((SECONDS - start)) s)"
            return 0
        fi
    done
    echo "WRONG $fault: expected of ${4}: $outcome $code '$words' ($((SECONDS - start)) s)"
    for id in ${ids//,/ }; do echo "      $id $("$here/said.py" "$report" "$id" | cut -c 1-1000)"; done
    tail -5 "$work/err"
    bad=1
}

# FAULT LEVEL IDS OUTCOME CODE WORDS: a fault between the validator and the driver.
expect_cuda() {
    asked "$1" || return 0
    echo "$1" > "$work/cuda/fault"
    judged "[\"$work/cuda\"]" "$@"
}

# FAULT LEVEL IDS OUTCOME CODE WORDS: a fault between the validator and NCCL; `nccl` runs before the others, as in the
# suite.
expect_nccl() {
    asked "$1" || return 0
    echo "$1" > "$work/nccl/fault"
    judged "[\"$work/nccl\",\"$libraries\"]" "$1" "$2" "nccl|${3#nccl|}" "${@:4}"
}

# DEFINES..: builds the library between the validator and NCCL.
between() {
    gcc -O1 -Wall -shared -fPIC -o "$work/nccl/libnccl.so.2" -DREAL="\"$nccl\"" "$@" "$here/nccl.c" -ldl
}

# The real NCCL: next to the driver, or where the loader finds it.
find_nccl() {
    local found
    found=$(ldconfig -p 2> /dev/null | awk '/libnccl\.so\.2 / { print $NF; exit }') || true
    for found in "$libraries/libnccl.so.2" "$found"; do
        [ ! -e "$found" ] || { realpath "$found"; return; }
    done
}

grep -o '"cu[A-Z][A-Za-z0-9_]*"' "$here/../../../validator/gpu/src/cuda/api.rs" | tr -d '"' | sort -u | sed 's/.*/CALL(&)/' > "$work/calls.h"
# The functions that simulated libraries call in each other, if they replace the real ones.
if grep -q simgpu_now "$libraries/libcuda.so.1"; then
    printf 'CALL(simgpu_%s)\n' now gpu join leave collective >> "$work/calls.h"
fi
gcc -O1 -shared -fPIC -o "$work/cuda/libcuda.so.1" -I"$work" -DREAL="\"$libraries/libcuda.so.1\"" "$here/shim.c" -ldl
ln -s "$libraries/libnvidia-ml.so.1" "$work/cuda/libnvidia-ml.so.1"

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
# Faults that only large amounts of data meet: all of memory, any size and place, many transfers, memory of another
# process.
expect_cuda hole standard p2p-reach fail 'P2P-' 'GPU 1'
expect_cuda stray standard 'p2p-integrity|p2p-reach' fail 'P2P-STRAY|P2P-WRONG-DATA' 'GPU'
expect_cuda rare standard 'p2p-integrity|p2p-reach' fail P2P-WRONG-DATA 'GPU 0'
expect_cuda odd-size standard 'p2p-integrity|p2p-reach' fail P2P-WRONG-DATA ''
expect_cuda between-sizes standard 'p2p-integrity|p2p-reach' fail P2P-WRONG-DATA ''
expect_cuda unaligned standard 'p2p-integrity|p2p-reach' fail P2P-WRONG-DATA ''
expect_cuda over-128m standard 'p2p-integrity|p2p-reach' fail P2P-WRONG-DATA ''
expect_cuda foreign standard p2p-processes fail P2P-WRONG-DATA ''

if [ "$nccl" != none ]; then
    nccl=${nccl:-$(find_nccl)}
    [ -e "${nccl:-/nonexistent}" ] ||
        { echo "run.sh: error: no libnccl.so.2 at '$nccl'; name it as the third argument, or give none" >&2; exit 1; }
    nccl=$(realpath "$nccl")
    between
    expect_nccl nccl-none standard nccl-allreduce 'pass|warn' '' ''
    # A value is wrong: in a large reduction, in another collective, in another type, only between processes.
    expect_nccl wrong-element standard 'nccl|nccl-allreduce' fail NCCL-WRONG-DATA 'of [0-9]+ values of 5 calls are wrong.*element 131072 of rank 1'
    expect_nccl wrong-broadcast standard nccl-collective fail NCCL-WRONG-DATA 'broadcast'
    expect_nccl wrong-bfloat16 full nccl-types fail NCCL-WRONG-DATA 'bfloat16'
    expect_nccl wrong-joined full nccl-processes fail NCCL-WRONG-DATA 'rank 1'
    # Only in calls that are timed, in place, odd, unaligned, large or one of many; or the call does nothing.
    expect_nccl timed-wrong standard nccl-allreduce fail NCCL-WRONG-DATA 'rank 1'
    expect_nccl timed-gather standard nccl-collective fail NCCL-WRONG-DATA 'all_gather'
    expect_nccl timed-skipped standard nccl-allreduce 'fail|error' 'NCCL-' ''
    expect_nccl in-place standard 'nccl|nccl-allreduce' fail NCCL-WRONG-DATA 'rank 1'
    expect_nccl odd-count standard 'nccl|nccl-allreduce|nccl-types' fail NCCL-WRONG-DATA 'rank 1'
    expect_nccl unaligned-call standard 'nccl|nccl-allreduce|nccl-types' fail NCCL-WRONG-DATA 'rank 1'
    expect_nccl large-call standard 'nccl|nccl-allreduce' fail NCCL-WRONG-DATA 'rank 1'
    expect_nccl rare-call standard 'nccl|nccl-allreduce|nccl-types' fail NCCL-WRONG-DATA 'rank 1'
    expect_nccl scatter-max standard 'nccl-types|nccl-collective' fail NCCL-WRONG-DATA 'reduce_scatter'
    # A rank never responds: at the start, at the start of one process of several, in a collective, or when it is
    # aborted.
    expect_nccl hang-init standard nccl fail NCCL-HANG ''
    expect_nccl hang-join full nccl-processes fail NCCL-HANG ''
    expect_nccl hang-collective standard 'nccl|nccl-allreduce' fail NCCL-HANG 'all_reduce'
    expect_nccl hang-abort standard 'nccl|nccl-allreduce' fail NCCL-HANG 'all_reduce'
    # Another transport than the one that is claimed: if nothing else is allowed, even then, and only otherwise.
    expect_nccl no-p2p standard nccl fail NCCL-NO-TRANSPORT ''
    expect_nccl shm standard nccl fail NCCL-TRANSPORT 'SHM'
    expect_nccl shm-if-allowed standard nccl-allreduce fail NCCL-TRANSPORT 'SHM'
    # Faults that say nothing about the GPUs are errors.
    expect_nccl nccl-unknown-code standard 'nccl|nccl-allreduce' 'fail|error' NCCL-ERROR '12345'
    expect_nccl nccl-crash standard 'nccl|nccl-allreduce' error TEST-CRASHED 'SIGABRT|signal: 6'
    between -DOLD
    expect_nccl old standard nccl error NCCL-MISSING 'ncclGetLastError'
    : > "$work/nccl/libnccl.so.2"
    expect_nccl no-library standard nccl error NCCL-MISSING 'libnccl.so.2'
fi
[ "$done" -ge "$((${#wanted[@]} > 0 ? ${#wanted[@]} : 1))" ] ||
    { echo "run.sh: error: of ${wanted[*]} only $done are known" >&2; exit 1; }
exit "$bad"
