#!/usr/bin/env bash
# bench-build.sh [RUNS]: how long the image and all boot media take again when nothing changed and when only Rust
# did, in a copy of this checkout. A line of both crates' main function changes each time; kernel and driver are
# cached. Prints the seconds of each run against the limit; status 1 when the median of a kind is above it.
set -euo pipefail
source "$(dirname "$0")/../image/lib/common.sh"
runs=${1:-3}
[[ $runs =~ ^[1-9][0-9]?$ ]] || die "'$runs' is no number of runs" "1 to 99"
[ -e "$REPO/target/image/media/.media-id" ] || die "there is nothing to build again" "just media"
work=$(mktemp -d "$REPO/target/bench-build.XXXXXX"); trap 'rm -rf "$work"' EXIT
( cd "$REPO" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -p -P -t "$work" )
mkdir "$work/target"; cp -a "$REPO/target/image" "$work/target/"

again() { ( cd "$work" && image/build.sh && image/media.sh ) > "$work/log" 2>&1 || { tail -20 "$work/log" >&2; die "the build failed"; }; }
rust() {
    local main
    for main in init/src/main.rs validator/src/main.rs; do printf '\n#[used]\nstatic CHANGED_%s: u64 = %s;\n' "$1" "$1" >> "$work/$main"; done
}
# KIND LIMIT: as many runs of it
measure() {
    local seconds=() began run median id
    for run in $(seq "$runs"); do
        [ "$1" != "Rust changed" ] || rust "$run"
        id=$(cat "$work/target/image/out/.image-id")
        began=$(date +%s.%N); again
        [ "$1" != "Rust changed" ] || [ "$id" != "$(cat "$work/target/image/out/.image-id")" ] || die "the change changed nothing in the image"
        seconds+=("$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')")
        say "$1: ${seconds[-1]} s"
    done
    median=$(printf '%s\n' "${seconds[@]}" | sort -n | sed -n "$(( (runs + 1) / 2 ))p")
    awk -v kind="$1" -v median="$median" -v limit="$2" 'BEGIN {
        printf "%-16s median %6.1f s   limit %3d s   %.2f of it\n", kind, median, limit, median / limit; exit median > limit }'
}
again
status=0
measure "nothing changed" 5 || status=1
measure "Rust changed" 60 || status=1
exit "$status"
