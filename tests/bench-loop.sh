#!/usr/bin/env bash
# bench-loop.sh [PART..]: the seconds of a developer's loop against their limits, in a fresh clone of what is committed.
# Parts: check (from nothing, then built), simulate (from a clone to the first verdict), test (with kernel and driver of the
# cache), and, only when named, kernel (built again into an empty cache) and nothing (`./run test` with an empty cache).
# Status 1 when a part is above its limit. The limits are for 2 idle cores.
set -euo pipefail
cd "$(dirname "$0")/.."
die() { echo "bench-loop: $1" >&2; exit 64; }
parts=("$@")
[ $# -gt 0 ] || parts=(check simulate test)
for part in "${parts[@]}"; do
    case $part in check | simulate | test | kernel | nothing) ;; *) die "'$part' is no part; allowed: check, simulate, test, kernel, nothing" ;; esac
done
mkdir -p target
work=$(mktemp -d "$PWD/target/bench-loop.XXXXXX")
trap 'rm -rf "$work"' EXIT
unset CARGO_TARGET_DIR
status=0

# fresh: a new clone in $work/clone, and no cache in $work/cache
fresh() { rm -rf "$work/clone" "$work/cache"; git clone -q . "$work/clone"; }

# measure WHAT LIMIT COMMAND..: runs it in the clone, and prints its seconds
measure() {
    local what=$1 limit=$2 from=$SECONDS took
    shift 2
    echo "bench-loop: $what" >&2
    ( cd "$work/clone" && "$@" ) > "$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; echo "bench-loop: '$*' failed" >&2; exit 2; }
    took=$((SECONDS - from))
    printf '%-32s %5d s   limit %5d s   %.2f of it\n' "$what" "$took" "$limit" "$(awk -v a="$took" -v b="$limit" 'BEGIN { print a / b }')"
    [ "$took" -le "$limit" ] || status=1
}

printf '%d cores, load %s\n' "$(nproc)" "$(cut -d ' ' -f 1 /proc/loadavg)"
for part in "${parts[@]}"; do
    fresh
    case $part in
        check)
            measure "check, from nothing" 360 ./run check
            measure "check, built" 120 ./run check ;;
        simulate) measure "simulate, from a clone" 240 ./run simulate ;;
        test) measure "test, kernel and driver built" 1200 ./run test ;;
        kernel) measure "kernel, from nothing" 600 env FIRSTLIGHT_CACHE="$work/cache" kernel-config/build.sh ;;
        nothing) measure "test, from nothing" 3000 env FIRSTLIGHT_CACHE="$work/cache" ./run test ;;
    esac
done
exit "$status"
