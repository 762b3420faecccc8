#!/usr/bin/env bash
# assemble.sh PARTS OUT [DRIVER]: makes an image's files in the folder OUT from its parts and, where DRIVER is given, from what
# image/driver/build.sh made. PARTS is a folder with
#   off/vmlinuz pt/vmlinuz   the two kernels
#   initrd files             the system's archive, and the list of its files
#   entries os-release release identity
# as image/build.sh makes it, or as image/media/parts.py cuts it out of a UKI: both give the same bytes.
# The driver's archive follows the system's in the initrd, and a third one has the list of all files and the identity of the
# whole image, which take the place of the system's own. The kernel unpacks one archive after the other.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
parts=$1 out=$2 driver=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
in_tools() { "$REPO/image/in-tools.sh" tools --bind "$REPO/image/media:/build/media" --bind "$parts:/build/parts" --bind "$work:/build/made" --bind "$out:/build/out" "$@"; }
# A full disk and other errors of the system: one line, with what the failed command said last.
exec 3>&2 2> "$work/log"
trap 'exec 2>&3; die "the image cannot be made in $out" "$(tail -1 "$work/log")"' ERR

read -r version id < "$parts/identity"
cp "$parts/initrd" "$out/firstlight.initrd"
cp "$parts/files" "$out/firstlight.files"
bytes=0
if [ -n "$driver" ]; then
    sum=$(sha256 "$driver/driver.cpio.zst")
    id=$(echo "$id ${sum%% *}" | hash_of -)
    cat "$driver/driver.files" >> "$out/firstlight.files"
    mkdir -p "$work/root/etc/firstlight" "$work/root/usr/lib/firstlight"
    cp "$out/firstlight.files" "$work/root/usr/lib/firstlight/files"
    manifest=$(sha256 "$out/firstlight.files")
    # As image/recipe/mkosi.finalize writes it for the system alone.
    printf '{ "version": "%s", "image_id": "%s", "manifest_sha256": "%s" }\n' "$version" "$id" "${manifest%% *}" > "$work/root/etc/firstlight/image.json"
    find "$work/root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    in_tools --cwd /build/made/root sh -c 'printf "%s\n" etc/firstlight/image.json usr/lib/firstlight/files |
        cpio -o -H newc --reproducible --owner 0:0 --quiet | zstd -q -19 -T1 -o /build/made/identity.zst'
    cat "$driver/driver.cpio.zst" "$work/identity.zst" >> "$out/firstlight.initrd"
    bytes=$(( $(stat -c %s "$driver/driver.cpio.zst") + $(stat -c %s "$work/identity.zst") ))
fi
cp "$parts/entries" "$out/firstlight.entries"
awk -F'\t' 'NR == 1 { print $4 }' "$parts/entries" > "$out/firstlight.cmdline"
echo "driver $bytes" > "$out/firstlight.sizes"
cp "$parts/off/vmlinuz" "$out/firstlight.vmlinuz"
cp "$parts/pt/vmlinuz" "$out/firstlight-pt.vmlinuz"
in_tools python3 -B media/uki.py parts out parts/os-release "$(cat "$parts/release")" > "$work/log" 2>&1
echo "$id" > "$out/.image-id"
