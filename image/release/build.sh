#!/usr/bin/env bash
# build.sh [FOLDER] [--since TAG] [--key KEY --cert CERT]: makes the files that can be handed out, in FOLDER
# (target/image/release), of the commit that is checked out:
#   firstlight-VERSION-x86_64.efi         the image without a GPU driver, as a UKI
#   firstlight-kernel-VERSION.tar         with which `./run driver --for` adds a driver to it
#   firstlight_VERSION_amd64.deb, firstlight-VERSION-1.x86_64.rpm, firstlight-VERSION-x86_64.tar.xz     the package for installed
#   firstlight_VERSION_arm64.deb, firstlight-VERSION-1.aarch64.rpm, firstlight-VERSION-aarch64.tar.xz   systems, x86-64 and arm64
#   firstlight.spdx.json, firstlight.provenance.json, SHA256SUMS       the documents
#   NOTES.txt                             what changed since TAG, by default the last tag before this commit
# and with a key, which is only read:
#   signed/                               the UKI signed for Secure Boot, its signature alone, and the certificate
#   SHA256SUMS.sig                        a signature of SHA256SUMS, which `openssl dgst -sha256 -verify` checks
# The same commit gives the same bytes, except those in signed/: a signature for Secure Boot contains the time.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/trust/key.sh"
usage="release [FOLDER] [--since TAG] [--key KEY --cert CERT]"
wrong() { say "error: $1 ($usage)"; exit 64; }
folder='' since='' key_file='' cert_file=''
while [ $# -gt 0 ]; do
    case $1 in
        --since | --key | --cert)
            [ -n "${2:-}" ] || wrong "$1 needs a value"
            case $1 in --since) since=$2 ;; --key) key_file=$2 ;; --cert) cert_file=$2 ;; esac
            shift 2 ;;
        -*) wrong "unknown word '$1'" ;;
        *) [ -z "$folder" ] || wrong "unknown word '$1'"; folder=$1; shift ;;
    esac
done
[ -n "$key_file" ] && [ -z "$cert_file" ] && wrong "--key needs --cert"
[ -z "$key_file" ] && [ -n "$cert_file" ] && wrong "--cert needs --key"
folder=$(realpath -m "${folder:-$REPO/target/image/release}")
[ ! -e "$folder" ] || [ -e "$folder/.release" ] || die "$folder exists and was not made by release" "name a new folder"
new=$folder.new.$$ work=$(mktemp -d)
trap 'rm -rf "$work" "$new"' EXIT
# Before anything is built: what can be refused is refused.
[ -z "$key_file" ] || signing_key "$key_file" "$cert_file" "$usage"
"$REPO/image/release/notes.sh" "$since" > "$work/notes"

(cd "$REPO" && just package --arch all >&2)
FIRSTLIGHT_DRIVER=none FIRSTLIGHT_ENTRIES='' "$REPO/image/build.sh" "$REPO/target/image/driverless"
image=$REPO/target/image/driverless package=$REPO/target/package/out
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$REPO/Cargo.toml" | head -1)
packages=("firstlight_${version}_"{amd64,arm64}.deb "firstlight-$version-1."{x86_64,aarch64}.rpm "firstlight-$version-"{x86_64,aarch64}.tar.xz)
for file in "${packages[@]}"; do
    [ -f "$package/$file" ] || die "there is no $file in $package" "./run package makes it"
done

mkdir -p "$new"
cp "$image/firstlight.efi" "$new/firstlight-$version-x86_64.efi"
cp "$image"/firstlight-kernel-*.tar "$image/firstlight.spdx.json" "$new/"
(cd "$package" && cp -- "${packages[@]}" "$new/")
cp "$work/notes" "$new/NOTES.txt"
chmod 0644 "$new"/*
# The image's statement with these files as its subjects, and SHA256SUMS.
"$REPO/image/in-tools.sh" tools --bind "$REPO/image/trust:/build/trust" --bind "$image:/build/out" --bind "$new:/build/new" \
    python3 -B trust/provenance.py media out new
if [ -n "$key_file" ]; then
    mkdir "$work/unsigned"
    cp "$new/firstlight-$version-x86_64.efi" "$work/unsigned/"
    cp "$new/SHA256SUMS" "$work/sums"
    openssl_signing dgst -sha256 -sign /build/key -out /build/made/SHA256SUMS.sig /build/made/sums || die "SHA256SUMS cannot be signed"
    sign_for_firmware
    mkdir "$new/signed"
    cp "$work/signed"/* "$work/certificate.pem" "$new/signed/"
    cp "$work/SHA256SUMS.sig" "$new/"
    chmod -R u=rwX,go=rX "$new"
fi
git -C "$REPO" rev-parse HEAD > "$new/.release"
rm -rf "$folder"; mv "$new" "$folder"
say "firstlight $version, commit $(cut -c1-12 "$folder/.release"): $(cd "$folder" && du -h --apparent-size -- * | awk '{ printf "%s%s (%s)", sep, $2, $1; sep = ", " }') in $folder"
