#!/usr/bin/env bash
# stages.sh: everything that must hold, cheap stages first. Stops at the first stage that fails, and prints the seconds of
# each, and its seconds of processor: a busy host makes the first number larger, a slow stage both. Needs `just` and all that
# the recipes need; `./run test` installs it.
set -euo pipefail
cd "$(dirname "$0")/.."
# Nothing is compiled twice in one run, so the compiler need not save what would make the second time shorter.
export CARGO_INCREMENTAL=0
work=$(mktemp -d)
ahead=
trap '[ -z "$ahead" ] || kill -- "-$ahead" 2> /dev/null || true; rm -rf "$work"' EXIT

# processor: the seconds of processor of everything that has ended so far.
processor() {
    times > "$work/times"
    awk 'NR == 2 { split($1, own, /[ms]/); split($2, kernel, /[ms]/); printf "%d", 60 * (own[1] + kernel[1]) + own[2] + kernel[2] }' "$work/times"
}

# stage NAME COMMAND..
stage() {
    local name=$1 from=$SECONDS worked
    shift
    processor > "$work/before"
    echo "stage  $name"
    "$@" || { echo "stage  $name FAILED after $((SECONDS - from)) s; the stages after it were not run" >&2; exit 1; }
    processor > "$work/after"
    worked=$(($(cat "$work/after") - $(cat "$work/before")))
    printf 'stage  %-10s %5d s   %5d s of processor\n' "$name" $((SECONDS - from)) "$worked"
}

# The image and media are built beside the first stages, and then once more, in a folder without network: their longest part
# is one thread. The stage that needs them does again what failed here, and says why.
offline=without_network
ahead() {
    # It has the lower priority: deadlines of tests pass meanwhile. Where the kernel shares processors out by session, nice
    # counts within one alone, and this one has its own.
    setsid nice -n 5 bash -c '{ echo 5 > /proc/self/autogroup; } 2> /dev/null || true; just media && just image-tests "$1"' \
        ahead "$offline" > "$work/ahead.log" 2>&1 < /dev/null &
    ahead=$!
}
# settle: waits for that.
settle() {
    local from=$SECONDS
    wait "$ahead" || offline=
    ahead=
    printf 'stage  %-10s %5d s waited\n' ahead $((SECONDS - from))
}

ahead
stage check tests/check.sh
stage simulate just simulate-tests
stage fuzz just fuzz
stage kernels just kernels --check
settle
stage image just image-tests ${offline:+--skip "$offline"}
stage boots just boots
processor > "$work/after"
printf 'stage  %-10s %5d s   %5d s of processor, on %d\n' 'all held' "$SECONDS" "$(cat "$work/after")" "$(nproc)"
