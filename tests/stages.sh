#!/usr/bin/env bash
# stages.sh: everything that must hold, cheap stages first. Stops at the first stage that fails, and prints the seconds of
# each, its seconds of processor, and the ten slowest tests: a busy host makes the first number larger, a slow stage both. Needs `just` and all that
# the recipes need; `./run test` installs it.
set -euo pipefail
cd "$(dirname "$0")/.."
# Nothing is compiled twice in one run, so the compiler need not save what would make the second time shorter.
export CARGO_INCREMENTAL=0
work=$(mktemp -d)
export FIRSTLIGHT_TEST_TIMES=$work/test-times
beside=
trap '[ -z "$beside" ] || kill -- "-$beside" 2> /dev/null || true; rm -rf "$work"' EXIT

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

# beside COMMAND..: starts it beside the stages, in a session of its own, so that all of it can be stopped. It has the lower
# priority: deadlines of tests pass meanwhile. Where the kernel shares processors out by session, nice counts within one alone.
beside() {
    setsid nice -n 5 bash -c '{ echo 5 > /proc/self/autogroup; } 2> /dev/null || true; exec "$@"' beside "$@" \
        > "$work/beside.log" 2>&1 < /dev/null &
    beside=$!
}
# settle: waits for that; if it failed, prints its last lines.
settle() {
    local status=0
    wait "$beside" || status=$?
    beside=
    [ $status = 0 ] || tail -n 60 "$work/beside.log" >&2
    return $status
}

# What the later stages need is built beside the first ones.
beside just media
stage check tests/check.sh
stage simulate just simulate-tests
stage kernels just kernels --check
stage media settle
# The longest of the image's tests, a build without network, is one thread at its end.
offline=without_network
beside just image-tests "$offline"
stage image just image-tests --skip "$offline"
stage boots just boots
stage offline settle
echo "stage  the ten slowest tests, in seconds:"
sort -rn "$work/test-times" | sed -n '1,10s/^/stage  /p'
processor > "$work/after"
printf 'stage  %-10s %5d s   %5d s of processor, on %d\n' 'all held' "$SECONDS" "$(cat "$work/after")" "$(nproc)"
