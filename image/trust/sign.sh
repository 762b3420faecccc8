#!/usr/bin/env bash
# sign.sh KEY CERT [FOLDER]: signs the files that Secure Boot verifies, as a last step on the unsigned image and media,
# which stay unchanged. KEY and CERT are PEM files: a key of your firmware's `db`, and its certificate.
# It writes to FOLDER (by default target/image/signed):
#   efi/                 every signed file, and FILE.sig, which attached to the unsigned FILE gives the signed one
#   firstlight-usb.img   the stick with the signed files; likewise firstlight.iso, and pxe/ for the network
#   certificate.pem      to verify the signatures with; SHA256SUMS of everything
# Unsigned files have the same bytes wherever they are built; signed files do not, because a signature contains the time.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/trust/key.sh"
usage="sign KEY CERT [FOLDER]"
case $# in 2 | 3) ;; *) die "expected two or three words, not $#" "$usage" ;; esac
out=$REPO/target/image/out media=$REPO/target/image/media
folder=$(realpath -m "${3:-$REPO/target/image/signed}")
{ [ -e "$out/.image-id" ] && [ -e "$media/.media-id" ]; } || die "there are no media to sign in $media" "just media"
[ ! -e "$folder" ] || [ -e "$folder/.signed" ] || die "$folder exists and was not made by sign" "name a new folder"

exec 8> "$REPO/target/image/lock"; flock 8
new=$folder.new work=
trap 'rm -rf "$work" "$new"' EXIT
mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.work.XXXXXX")
# Problems with key and certificate are reported before anything is made.
signing_key "$1" "$2" "$usage"
mkdir -p "$work/unsigned"
cp "$out"/firstlight.efi "$out"/firstlight-pt.efi "$media/pxe"/{vmlinuz,vmlinuz-pt,ipxe.efi} "$work/unsigned/"
"$REPO/image/media/loader.sh" "$work/unsigned" > "$work/log" 2>&1 || { tail -5 "$work/log" >&2; die "the stick's loader cannot be made"; }
sign_for_firmware

rm -rf "$new"; mkdir -p "$new/pxe" "$work/network"
mv "$work/signed" "$new/efi"
mv "$work/certificate.pem" "$new/"
for name in firstlight.efi firstlight-pt.efi vmlinuz vmlinuz-pt ipxe.efi; do ln "$new/efi/$name" "$work/network/"; done
"$REPO/image/media/pxe.sh" "$out" "$new/pxe" "$work/network"
"$REPO/image/media/stick.sh" "$out" "$new/firstlight-usb.img" "$new/efi"
"$REPO/image/media/iso.sh" "$out" "$new/firstlight.iso" "$new/efi"
chmod -R u=rwX,go=rX "$new"
sums=$(cd "$new" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum)
printf '%s\n' "$sums" > "$new/SHA256SUMS"
cp "$out/.image-id" "$new/.signed"
rm -rf "$folder"; mv "$new" "$folder"
say "signed: $folder"
