#!/usr/bin/env bash
# reproduce.sh [--quick] [--host trixie]: builds everything a second time, under conditions as different as possible,
# and compares every byte with the first build. The second build uses a copy of the sources in another folder, an empty
# cache, one processor, a clock two days ahead, another umask, time zone, locale and host name. --quick takes
# the kernel and the driver from the cache (minutes instead of about 50). --host trixie runs it in the Debian 13
# folder (debian/enter.sh). Every file that differs is reported, with exit status 1.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
here=$REPO/image/reproduce
quick='' host=()
while [ $# -gt 0 ]; do
    case $1 in
        --quick) quick=yes; shift ;;
        --host) [ "${2:-}" = trixie ] || die "--host is '${2:-}'" "allowed: trixie"; host=("$REPO/image/debian/enter.sh"); shift 2 ;;
        *) die "there is no option '$1'" "--quick, --host trixie" ;;
    esac
done
[ -e "$REPO/target/image/media/.media-id" ] || die "there is nothing to compare with" "just media"
work=$(mktemp -d "$CACHE/reproduce.XXXXXX"); trap 'rm -rf --one-file-system "$work"' EXIT
checkout=$work/another/folder/of-another-length
mkdir -p "$checkout" "$work/cache"

say "second build: $checkout"
( cd "$REPO" && git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' path; do [ ! -e "$path" ] && [ ! -L "$path" ] || printf '%s\0' "$path"; done |
    tar -c --null -T - ) | tar -x -C "$checkout"
find "$checkout" -exec touch -h -d 2001-02-03 {} +
# Files that are verified by their hash need not be downloaded twice.
ln -s "$CACHE/debs" "$work/cache/debs"
if [ -n "$quick" ]; then ln -s "$CACHE/kernel" "$CACHE/driver" "$work/cache/"; fi

# The two trees are made first: the library that shifts the clock must be inside them.
FIRSTLIGHT_CACHE=$work/cache "$checkout/image/in-tools.sh" compiler --bind "$here:/build/source" --bind "$work:/build/to" \
    gcc -Wall -Werror -O2 -shared -fPIC -DCLOCK_SECONDS=$(( 2 * 86400 + 3 * 3600 )) -o to/clock.so source/clock.c
# At the same path inside the trees as outside, because in-tools.sh runs programs on both sides of the pivot_root.
for use in compiler tools; do
    tree=$(FIRSTLIGHT_CACHE=$work/cache "$checkout/image/tools.sh" "$use")
    mkdir -p "$tree$work"
    cp "$work/clock.so" "$tree$work/clock.so"
    echo "$work/clock.so" > "$tree/etc/ld.so.preload"
    seal "$tree"
done

user=(); [ "$(id -u)" = 0 ] || user=(--map-root-user)
began=$(date +%s)
"${host[@]}" env FIRSTLIGHT_CACHE="$work/cache" TZ=Pacific/Kiritimati LC_ALL=C.UTF-8 \
    unshare "${user[@]}" --uts taskset -c 0 bash -euc '
        hostname another-host; umask 077
        export LD_PRELOAD=$1
        echo "firstlight: second build: date $(date -u +%F), $(nproc) processor, $(sed -n "s/^PRETTY_NAME=//p" /etc/os-release), $(uname -n)" >&2
        cd "$2"; image/build.sh; image/media.sh' another-build "$work/clock.so" "$checkout" ||
    die "the second build failed"
say "the second build took $(( $(date +%s) - began )) s"

# NAME FIRST SECOND: the folders of the same part in both builds
pairs=()
pair() { pairs+=("$1" "$2" "$3"); }
# Taken from the caches; nothing is built here.
kernel=$("$REPO/kernel-config/build.sh") other_kernel=$(FIRSTLIGHT_CACHE=$work/cache "$checkout/kernel-config/build.sh")
if [ -z "$quick" ]; then
    for part in off pt modules; do pair "kernel/$part" "$kernel/$part" "$other_kernel/$part"; done
    driver=$("$REPO/image/driver/build.sh" "$kernel") other_driver=$(FIRSTLIGHT_CACHE=$work/cache "$checkout/image/driver/build.sh" "$other_kernel")
    pair driver "$driver" "$other_driver"
fi
pair rust "$REPO/target/image/rust/bin" "$checkout/target/image/rust/bin"
pair image "$REPO/target/image/out" "$checkout/target/image/out"
pair media "$REPO/target/image/media" "$checkout/target/image/media"
status=0
python3 -B "$here/compare.py" "${pairs[@]}" || status=$?
[ "$status" = 0 ] || die "the two builds are not the same"
say "two builds, the same bytes${quick:+ (kernel and driver were not built again)}"
