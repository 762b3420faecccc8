#!/usr/bin/env bash
# media.sh: makes the boot media in target/image/media, if they are out of date, from the image that build.sh made:
#   firstlight-usb.img   for a stick: the system and a FAT partition FIRSTLIGHT; `just usb` writes it
#   firstlight.iso       the system alone, for machines that accept only a CD
#   pxe/                 a folder ready to serve to nodes that boot over the network
# and, from trust.sh, firstlight.provenance.json and SHA256SUMS of all files.
# Kernel and initrd are the same bytes in all of them, and the same inputs give the same bytes.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
work=$REPO/target/image; out=$work/out; media=$work/media
exec 8> "$work/lock"; flock 8
[ -e "$out/.image-id" ] || die "there is no image in $out" "just image"
media_id=$( {
    cat "$out/.image-id" "$REPO/image/media.sh"; locked media; locked tools
    cd "$REPO/image"; find media -type f -printf '%p %m\n' | LC_ALL=C sort; find media -type f | LC_ALL=C sort | xargs sha256sum
} | hash_of -)
[ "$(cat "$media/.media-id" 2> /dev/null)" != "$media_id" ] || exec "$REPO/image/trust/trust.sh" media

say "making boot media $media_id"
began=$(date +%s)
"$REPO/image/fetch.sh" media
new=$work/media.new
rm -rf "$new"; mkdir -p "$new/pxe"
"$REPO/image/media/pxe.sh" "$out" "$new/pxe"
"$REPO/image/media/stick.sh" "$out" "$new/firstlight-usb.img"
"$REPO/image/media/iso.sh" "$out" "$new/firstlight.iso"
echo "$media_id" > "$new/.media-id"
rm -rf "$media"; mv "$new" "$media"
say "boot media made in $(( $(date +%s) - began )) s: USB image $(du -h "$media/firstlight-usb.img" | cut -f1)  ISO $(du -h "$media/firstlight.iso" | cut -f1)  pxe/ $(du -sh "$media/pxe" | cut -f1)"
exec "$REPO/image/trust/trust.sh" media
