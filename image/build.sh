#!/usr/bin/env bash
# build.sh: rebuilds everything that is out of date and assembles the image in target/image/out:
#   firstlight.efi                  UKI with a profile for each boot entry; without a choice it boots the default one
#   firstlight.vmlinuz .initrd      the same sections as files
#   firstlight-pt.efi -pt.vmlinuz   the `pt` kernel with the same initrd
#   firstlight.entries              the boot entries: id, kernel, title, kernel words (image/media/entries.toml)
#   firstlight.files                SHA256, path, package of every file in the image
#   firstlight.cmdline              the words in the UKI, in addition to the kernel's built-in ones
#   firstlight.sizes                how many bytes of the UKI belong to the driver
# and, from trust.sh, firstlight.spdx.json, firstlight.provenance.json and SHA256SUMS.
# FIRSTLIGHT_ENTRIES=shell adds the boot entry `shell`, and the image's permission for a shell (policy.allow_shell).
# FIRSTLIGHT_DRIVER=none makes an image without a GPU driver, FIRSTLIGHT_DRIVER=FILE one with the driver that FILE describes.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
source "$REPO/image/driver/describe.sh"
work=$REPO/target/image; out=$work/out
mkdir -p "$work"
exec 8> "$work/lock"; flock 8

kernel=$("$REPO/kernel-config/build.sh")
binaries=$("$REPO/image/rust.sh")
driver=
if [ -n "$DRIVER_FILE" ]; then
    describe_driver
    [ "$driver_source" = none ] || driver=$("$REPO/image/driver/build.sh" "$kernel")
fi
# shellcheck disable=SC2086  # a list
entries=$("$REPO/image/in-tools.sh" tools --bind "$REPO/image/media:/build/media" \
    python3 -B media/entries.py media/entries.toml table ${FIRSTLIGHT_ENTRIES:-})
release=$(cat "$kernel/release")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$REPO/Cargo.toml" | head -1)
image_id=$( {
    echo "$version $SOURCE_DATE_EPOCH $(basename "$kernel") ${driver:+$(basename "$driver")}"; echo "$entries"; locked image; locked source | grep ^mkosi; locked tools
    sha256sum < "$binaries/init"; sha256sum < "$binaries/firstlight"
    cd "$REPO/image"; find recipe media/uki.py build.sh \( -type f -o -type l \) -printf '%p %m %l\n' | LC_ALL=C sort
    find recipe media/uki.py build.sh -type f | LC_ALL=C sort | xargs sha256sum
} | hash_of -)
echo "$kernel/source $kernel/build" > "$work/kernel-tree"
if [ "$(cat "$out/.image-id" 2> /dev/null)" = "$image_id" ]; then exec "$REPO/image/trust/trust.sh" image; fi

say "making image $image_id"
began=$(date +%s)
"$REPO/image/fetch.sh" image source
read -r name mkosi_version arch _ < <(locked source | grep '^mkosi ')
mkosi=$CACHE/mkosi-$mkosi_version
[ -e "$mkosi/usr/bin" ] || dpkg-deb -x "$(deb_path "$name" "$mkosi_version" "$arch")" "$mkosi"

stage=$work/stage recipe=$work/recipe
rm -rf "$stage" "$recipe" "$work/base" "$work/new"; mkdir -p "$stage/usr/bin" "$stage/usr/lib/modules" "$recipe" "$work/new"
# copies owned by the building user: mkosi keeps owners, and an ordinary user's tree has only one
own_copy() { cp -r --no-dereference --preserve=mode,timestamps,links "$@"; }
own_copy "$REPO/image/recipe/files/." "$stage/"
own_copy "$REPO/image/recipe/base" "$work/base"
cp "$REPO/image/inputs.lock" "$REPO/image/recipe"/{keep.list,mkosi.*} "$recipe/"
# The driver is not in the tree that mkosi packs, but in an archive appended after it. The tree has the links to the driver.
: > "$recipe/driver.files"
if [ -n "$driver" ]; then
    while read -r path _; do
        case $path in '' | '#'*) continue ;; /usr/bin/*) part=bin ;; /usr/lib/firmware/*) part=firmware ;; *) part=lib ;; esac
        mkdir -p "$stage${path%/*}"
        ln -s "/run/firstlight/driver/$part/${path##*/}" "$stage$path"
    done < "$REPO/image/recipe/driver-keep.list"
    cat "$REPO/image/recipe/driver-keep.list" >> "$recipe/keep.list"
    cp "$driver/driver.files" "$recipe/driver.files"
else
    printf '\n[driver]\n# This image carries no GPU driver.\nload = false\n' >> "$stage/etc/firstlight/config.toml"
fi
if grep -q $'^shell\t' <<< "$entries"; then
    printf '\n[policy]\n# This image was built with the boot entry shell.\nallow_shell = true\n' >> "$stage/etc/firstlight/config.toml"
fi
cp "$binaries/init" "$stage/init"; cp "$binaries/firstlight" "$stage/usr/bin/firstlight"
own_copy "$kernel/modules/usr/lib/modules/$release" "$stage/usr/lib/modules/"
cp "$kernel/off/vmlinuz" "$stage/usr/lib/modules/$release/vmlinuz"
# no archive for mkosi's apt, because it installs nothing
mkdir -p "$recipe/mkosi.sandbox/etc/apt/sources.list.d"; : > "$recipe/mkosi.sandbox/etc/apt/sources.list.d/mkosi.sources"
echo "$version $image_id" > "$recipe/identity"

words_of() { awk -F'\t' -v id="$1" '$1 == id { print $4 }' <<< "$entries"; }
in_tools() {
    "$REPO/image/in-tools.sh" tools --bind "$REPO/image/media:/build/media" --bind "$mkosi/usr/lib/python3/dist-packages:/build/mkosi" --bind "$recipe:/build/recipe" \
        --bind "$DEBS:/build/debs" --bind "$stage:/build/stage" --bind "$work/base:/build/base" \
        --bind "$work/new:/build/out" --bind "$kernel:/build/kernel" --cwd /build/recipe PYTHONPATH=/build/mkosi "$@"
}
in_tools sh -c 'mkdir /build/work && exec python3 -B -m mkosi --source-date-epoch "$SOURCE_DATE_EPOCH" \
    --kernel-command-line "$1" --force build' sh "$(words_of default)" > "$work/mkosi.log" 2>&1 ||
    { tail -20 "$work/mkosi.log" >&2; die "mkosi failed" "the whole log: $work/mkosi.log"; }
# Compressed like the driver's archive: this costs seconds at build time; level 19 without the long window is 4 % larger.
in_tools zstd -q --ultra -22 --long=27 -T1 --rm -o /build/out/initrd.zst /build/out/firstlight.initrd
mv "$work/new/initrd.zst" "$work/new/firstlight.initrd"
# The driver's archive follows mkosi's: the kernel unpacks one after the other. Both flavours have the same initrd.
[ -z "$driver" ] || cat "$driver/driver.cpio.zst" >> "$work/new/firstlight.initrd"
printf '%s\n' "$entries" > "$work/new/firstlight.entries"
words_of default > "$work/new/firstlight.cmdline"
rm -f "$work/new"/firstlight "$work/new"/*.efi
in_tools python3 -B /build/media/uki.py /build/kernel /build/out \
    /build/base/usr/lib/os-release "$release" > "$work/ukify.log" 2>&1 ||
    { tail -20 "$work/ukify.log" >&2; die "ukify failed" "the whole log: $work/ukify.log"; }
echo "driver $([ -z "$driver" ] && echo 0 || stat -c %s "$driver/driver.cpio.zst")" > "$work/new/firstlight.sizes"
cp "$kernel/pt/vmlinuz" "$work/new/firstlight-pt.vmlinuz"
echo "$image_id" > "$work/new/.image-id"
rm -rf "$out"; mv "$work/new" "$out"
say "image made in $(( $(date +%s) - began )) s: $(cd "$out" && du -Lh --apparent-size firstlight.efi firstlight.vmlinuz firstlight.initrd | awk '{ printf "%s %s  ", $2, $1 }')"
exec "$REPO/image/trust/trust.sh" image
