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
usage="sign KEY CERT [FOLDER]"
case $# in 2 | 3) ;; *) die "expected two or three words, not $#" "$usage" ;; esac
out=$REPO/target/image/out media=$REPO/target/image/media
for file in "$1" "$2"; do
    [ -f "$file" ] || die "$file is not there" "$usage"
    [ -r "$file" ] || die "$file cannot be read by $(id -un)"
    case $file in *:*) die "$file: a name with a colon is not allowed" ;; esac
done
key=$(realpath "$1") cert=$(realpath "$2") folder=$(realpath -m "${3:-$REPO/target/image/signed}")
{ [ -e "$out/.image-id" ] && [ -e "$media/.media-id" ]; } || die "there are no media to sign in $media" "just media"
[ ! -e "$folder" ] || [ -e "$folder/.signed" ] || die "$folder exists and was not made by sign" "name a new folder"

exec 8> "$REPO/target/image/lock"; flock 8
new=$folder.new work=
trap 'rm -rf "$work" "$new"' EXIT
mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.work.XXXXXX")
in_signing() { "$REPO/image/in-tools.sh" signing --bind "$work:/build/work" --bind "$key:/build/key" --bind "$cert:/build/cert" "$@"; }
openssl() { in_signing openssl "$@" 2> /dev/null; }

# Problems with key and certificate are reported before anything is made.
! grep -q ENCRYPTED "$key" || die "$1 is encrypted" "decrypt it to a file on a RAM disk: openssl pkey -in FILE -out PLAIN"
key_public=$(openssl pkey -inform PEM -in /build/key -passin pass: -pubout) || die "$1 is not a private key in PEM"
cert_public=$(openssl x509 -inform PEM -in /build/cert -noout -pubkey) || die "$2 is not a certificate in PEM"
[ "$key_public" = "$cert_public" ] || die "$1 is not the key of the certificate $2"
about=$(openssl x509 -in /build/cert -noout -text)
bits=$(sed -n 's/.*Public-Key: (\([0-9]*\) bit).*/\1/p' <<< "$about" | head -1)
{ grep -q 'Public Key Algorithm: rsaEncryption' <<< "$about" && [ "${bits:-0}" -ge 2048 ]; } ||
    die "$2: firmware cannot verify with this kind of key" "allowed: RSA of 2048 bits or more"
ends=$(openssl x509 -in /build/cert -noout -enddate); starts=$(openssl x509 -in /build/cert -noout -startdate)
openssl x509 -in /build/cert -noout -checkend 0 > /dev/null || die "$2 has expired" "it was valid until ${ends#*=}"
[ "$(date -d "${starts#*=}" +%s)" -le "$(date +%s)" ] || die "$2 is not valid yet" "it will be from ${starts#*=}"

say "signing as $(openssl x509 -in /build/cert -noout -subject -nameopt oneline | sed 's/^subject=//')"
mkdir -p "$work"/unsigned "$work/signed"
cp "$out"/firstlight.efi "$out"/firstlight-pt.efi "$media/pxe"/{vmlinuz,vmlinuz-pt,ipxe.efi} "$work/unsigned/"
"$REPO/image/media/loader.sh" "$work/unsigned" > "$work/log" 2>&1 || { tail -5 "$work/log" >&2; die "the stick's loader cannot be made"; }
# Each signature is verified before it is used, and FILE.sig is verified to be the same signature.
# shellcheck disable=SC2016  # expanded by the inner shell
in_signing --cwd /build/work sh -euc '
    for file in unsigned/*; do
        name=${file#unsigned/}
        sbsign --key /build/key --cert /build/cert --output "signed/$name" "$file"
        sbverify --cert /build/cert "signed/$name"
        cp "signed/$name" again; sbattach --detach "signed/$name.sig" again
        cp "$file" again; sbattach --attach "signed/$name.sig" again
        cmp again "signed/$name"
    done
    openssl x509 -in /build/cert -out certificate.pem
' > "$work/log" 2>&1 || { tail -5 "$work/log" >&2; die "signing failed"; }

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
