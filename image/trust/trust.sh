#!/usr/bin/env bash
# trust.sh image FOLDER|media|added FOLDER BASE NAME=VALUE..: writes, if they are out of date, the documents with which others
# can check the build, beside it:
#   firstlight.spdx.json         (image) what it is made of: packages, crates, files, licences, as SPDX 2.3
#   firstlight.provenance.json   from what, with which tools and with which choices it was built: in-toto, SLSA v1
#   SHA256SUMS                   of everything in the folder
# The same inputs give the same bytes; the documents contain nothing about the building machine.
# `added` is for an image to which a driver was added (image/add-driver.sh): its list continues BASE, the list of the image
# without a driver, and nothing of Rust is asked.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/driver/describe.sh"
what=$1 out=${2:-$REPO/target/image/out} media=$REPO/target/image/media
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
in_tools() { "$REPO/image/in-tools.sh" tools --bind "$REPO/image/trust:/build/trust" --bind "$REPO/image/media:/build/media" --bind "$out:/build/out" --bind "$work:/build/work" "$@"; }

if [ "$what" = media ]; then
    id=$(cat "$out/.trust-id" "$media/.media-id" | hash_of -)
    [ "$(cat "$media/.trust-id" 2> /dev/null)" != "$id" ] || exit 0
    in_tools --bind "$media:/build/made" python3 -B trust/provenance.py media out made
    echo "$id" > "$media/.trust-id"
    exit 0
fi

began=$(date +%s)
( cd "$REPO" && find image kernel-config init validator Cargo.toml Cargo.lock rust-toolchain.toml Justfile run \
    -name __pycache__ -prune -o -type f -print | LC_ALL=C sort | xargs sha256sum ) > "$work/recipe"
rustc=; [ "$what" = added ] || rustc=$(cd "$REPO" && rustc --version)
description=${DRIVER_FILE:+$(sha256sum < "$DRIVER_FILE" | cut -d' ' -f1)}
# What `--driver` took, and what it was unpacked from, by the description
if [ -n "$DRIVER_FILE" ]; then
    describe_driver
    [ "$driver_source" != parts ] || for entry in $driver_parts "$driver_files_modules_sha256:$driver_files_modules" $driver_from; do
        echo "${entry%%:*}  driver: ${entry#*:}"
    done >> "$work/recipe"
fi
id=$( { cat "$out/.image-id" "$work/recipe"; echo "$rustc $description"; } | hash_of -)
[ "$what" = added ] || [ "$(cat "$out/.trust-id" 2> /dev/null)" != "$id" ] || exit 0

# The driver's files are hashed once for each driver: unpacking them takes seconds.
squashfs=$(awk -F'\t' '$2 == "/usr/lib/firstlight/driver.squashfs" { print $1 }' "$out/firstlight.files")
sums=$CACHE/driver/sums-$squashfs
[ -n "$squashfs" ] || { sums=$work/none; : > "$sums"; }
if [ ! -e "$sums" ]; then
    mkdir -p "$CACHE/driver"
    # shellcheck disable=SC2016  # expanded by the inner shell
    in_tools sh -euc '
        mkdir /build/driver; cd /build/driver
        tail -c "$1" /build/out/firstlight.initrd | zstd -dcq --long=27 | { cpio -i --quiet; cat > /dev/null; }
        unsquashfs -quiet -no-progress -d root usr/lib/firstlight/driver.squashfs > /dev/null
        sum() { sha1=$(sha1sum < "$1"); sha256=$(sha256sum < "$1"); echo "${sha1%% *} ${sha256%% *} $2"; }
        sum usr/lib/firstlight/driver.squashfs usr/lib/firstlight/driver.squashfs
        cd root; find . -type f -printf "%P\n" | LC_ALL=C sort |
            while read -r path; do sum "$path" "run/firstlight/driver/$path"; done
    ' sh "$(sed -n 's/^driver //p' "$out/firstlight.sizes")" > "$work/sums" || die "the driver's files cannot be hashed"
    mv "$work/sums" "$sums"
fi
cp "$sums" "$work/driver"
bound=(--bind "$LOCK:/build/inputs.lock" PYTHONPATH=/build/media)
if [ "$what" = added ]; then
    words=("${@:4}")
    # Without BASE the crates are unknown: no list is written.
    [ -z "$3" ] || cp "$3" "$work/base"
    [ -z "$3" ] || in_tools "${bound[@]}" python3 -B trust/sbom.py added out inputs.lock work/base work/driver "$(cat "$out/.image-id")-$id" > "$work/sbom" ||
        die "the list of what the image is made of cannot be made"
else
    "$REPO/image/rust.sh" --crates > "$work/crates"
    in_tools --bind "$REPO/Cargo.lock:/build/Cargo.lock" "${bound[@]}" python3 -B trust/sbom.py \
        image out inputs.lock Cargo.lock work/crates work/driver "$(cat "$out/.image-id")-$id" "$rustc" > "$work/sbom" ||
        die "the list of what the image is made of cannot be made"
    words=("rustc=$rustc")
fi
[ ! -e "$work/sbom" ] || { install -m 0644 "$work/sbom" "$out/.new-sbom"; mv "$out/.new-sbom" "$out/firstlight.spdx.json"; }
in_tools --bind "$LOCK:/build/inputs.lock" python3 -B trust/provenance.py image out inputs.lock work/recipe \
    "entries=$(cut -f1 "$out/firstlight.entries" | paste -sd' ')" \
    "driver=$(basename "${DRIVER_FILE:-none}")" "driver_sha256=$description" \
    "image_id=$(cat "$out/.image-id")" "${words[@]}"
echo "$id" > "$out/.trust-id"
spent documents "$began"
