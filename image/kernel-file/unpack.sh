#!/usr/bin/env bash
# unpack.sh FILE PARTS: checks that a kernel's file (pack.sh) belongs to the image whose parts are in the folder PARTS
# (image/media/parts.py), and prints a folder with the kernel's release, source/, build/ and modules/ as kernel-config/build.sh
# makes them for image/driver/build.sh. It is in the cache, named by the hash of its content.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
file=$1 parts=$2 name=$(basename "$1")
work=$(mktemp -d) part=
trap 'rm -rf "$work" ${part:+"$part"}' EXIT
[ -f "$file" ] || die "there is no kernel's file $file" "it is beside the image that it was written with: firstlight-kernel-VERSION.tar"
[ -r "$file" ] || die "$file cannot be read by $(id -un)"
tar -x -C "$work" --no-same-owner --occurrence=1 -f "$file" kernel.toml compiler.lock 2> "$work/log" && [ -f "$work/kernel.toml" ] && [ -f "$work/compiler.lock" ] ||
    die "$name is not a kernel's file, or is cut off: it does not begin with kernel.toml and compiler.lock"
word() { toml_word "$work/kernel.toml" "$1"; }
schema=$(word schema)
[ "$schema" = firstlight.kernel-file/1 ] || die "$name has the schema '$schema'" "allowed: firstlight.kernel-file/1"

release=$(cat "$parts/release")
[ "$(word release)" = "$release" ] || die "the image and $name do not belong together: the image's kernel is $release, the file is for $(word release)"
for pair in off:vmlinuz_sha256 pt:vmlinuz_pt_sha256; do
    found=$(sha256 "$parts/${pair%:*}/vmlinuz") named=$(word "${pair#*:}")
    [ "${found%% *}" = "$named" ] ||
        die "the image and $name do not belong together: SHA256 of the image's kernel '${pair%:*}' is ${found%% *}, the file is for $named"
done
if ! cmp -s "$work/compiler.lock" <(locked compiler); then
    other=$(diff "$work/compiler.lock" <(locked compiler) | awk '/^[<>]/ { print $1, $2, $3 }' || true)
    die "$name was made with another compiler than this checkout has" \
        "$(sed -n 's/^< //p' <<< "$other" | head -1 | grep . || echo none) there, $(sed -n 's/^> //p' <<< "$other" | head -1 | grep . || echo none) here; use the image's own version of firstlight"
fi

tree=$(word tree_sha256)
[[ $tree =~ ^[0-9a-f]{64}$ ]] || die "$name: tree_sha256 is '$tree', not a SHA256"
# The whole file, also where the cache has its content: the documents of the new image name it.
tar -xO --occurrence=1 -f "$file" tree.tar.zst 2> "$work/log" > "$work/tree.tar.zst" || die "$name is cut off, or there is no room in $work" "$(sed -n 1p "$work/log")"
found=$(sha256 "$work/tree.tar.zst")
[ "${found%% *}" = "$tree" ] || die "$name is changed or cut off: SHA256 of its tree is ${found%% *}, expected $tree"
result=$CACHE/kernel-file/$(cut -c1-16 <<< "$tree")
! whole "$result" || { echo "$result"; exit 0; }
mkdir -p "$CACHE/kernel-file"
exec 9> "$CACHE/kernel-file.lock"; flock 9
! whole "$result" || { echo "$result"; exit 0; }
part=$result.part
rm -rf "$part" "$result"; mkdir -p "$part/tree"
mv "$work/tree.tar.zst" "$part/"
# shellcheck disable=SC2016  # expanded by the inner shell
"$REPO/image/in-tools.sh" tools --bind "$part:/build/part" --cwd /build/part sh -euc '
    zstd -dq --long=27 tree.tar.zst -o tree.tar
    tar -x -C tree --no-same-owner -f tree.tar
    cd tree; sha256sum --check --strict --quiet SHA256SUMS' > "$work/log" 2>&1 || die "$name cannot be unpacked in $CACHE" "$(tail -1 "$work/log")"
[ "$(cat "$part/tree/release")" = "$release" ] && [ -d "$part/tree/modules" ] || die "$name has another kernel in it than it says" "expected $release"
seal "$part/tree"
mv "$part/tree" "$result"
echo "$result"
