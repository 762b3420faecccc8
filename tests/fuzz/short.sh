#!/usr/bin/env bash
# Fuzzes every target for a short while: SECONDS each, 3 unless given, one on each core. The corpus of earlier runs in
# tests/fuzz/corpus is used and grows; a crash is kept in tests/fuzz/artifacts and fails the run.
#
#   tests/fuzz/short.sh [SECONDS] [TARGET..]
set -euo pipefail
cd "$(dirname "$0")/../.."
RUSTC_WORKSPACE_WRAPPER=$PWD/tests/fuzz/rustc.sh cargo build --locked --quiet --features firstlight-fuzz/engine --bin fuzz >&2
program=${CARGO_TARGET_DIR:-target}/debug/fuzz
seconds=${1:-3}
shift || true

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk -v to="$work/seeds/" '/^==> / { out = to $2; folder = out; sub("/[^/]*$", "", folder); system("mkdir -p " folder); next }
    out { print > out }' tests/fuzz/seeds.txt
find "$work/seeds" -name '*.hex' -exec sh -c 'basenc --base16 -d -i "$1" > "${1%.hex}" && rm "$1"' hex {} \;
# The configuration spaces of the modelled machines are the best start for their parser. The small test brings the features of
# a build of tests, so that both share what they compile.
tests/check.sh with cargo build --quiet --locked --lib --bin machine --test driver
"${program%/*}/machine" all "$work/machines"
mapfile -t targets < <(if [ $# -gt 0 ]; then printf '%s\n' "$@"; else sed -n 's/^    ("\([a-z_]*\)",.*/\1/p' tests/fuzz/targets/lib.rs; fi)
# One target: its line; status 1 when something was found.
one() {
    local target=$1 seeds=$work/seeds/$1 log
    log=$(mktemp -p "$work")
    mkdir -p "tests/fuzz/corpus/$target"
    [ ! -d "$seeds" ] || cp "$seeds"/* "tests/fuzz/corpus/$target/"
    [ "$target" != config_space ] || find "$work/machines" -name config -type f | while read -r config; do
        cp "$config" "tests/fuzz/corpus/$target/$(sha256sum < "$config" | cut -c1-16)"
    done
    mkdir -p "tests/fuzz/artifacts/$target"
    if FIRSTLIGHT_FUZZ=$target RUST_BACKTRACE=0 "$program" "tests/fuzz/corpus/$target" \
        -artifact_prefix="tests/fuzz/artifacts/$target/" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 > "$log" 2>&1; then
        printf 'fuzz  %-16s %s\n' "$target" "$(grep -a '^Done ' "$log")"
    else
        printf 'fuzz  %-16s FOUND SOMETHING; the input that breaks it lies in tests/fuzz/artifacts\n' "$target" >&2
        grep -a -A 1 -E 'panicked at|^SUMMARY|Test unit written' "$log" >&2 || tail -n 40 "$log" >&2
        return 1
    fi
}
export -f one
export work seconds program
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -euo pipefail -c 'one "$1"' one
