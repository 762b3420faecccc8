#!/usr/bin/env bash
# build.sh [FOLDER]: rebuilds everything that is out of date and assembles the image in FOLDER (target/image/out):
#   firstlight.efi                  UKI with a profile for each boot entry; without a choice it boots the default one
#   firstlight.vmlinuz .initrd      the same sections as files
#   firstlight-pt.efi -pt.vmlinuz   the `pt` kernel with the same initrd
#   firstlight.entries              the boot entries: id, kernel, title, kernel words (image/media/entries.toml)
#   firstlight.files                SHA256, path, package of every file in the image
#   firstlight.cmdline              the words in the UKI, in addition to the kernel's built-in ones
#   firstlight.sizes                how many bytes of the UKI belong to the driver
#   firstlight-kernel-VERSION.tar   with which a driver can be added to an image without one (image/kernel-file)
# and, from trust.sh, firstlight.spdx.json, firstlight.provenance.json and SHA256SUMS.
# FIRSTLIGHT_ENTRIES=shell adds the boot entry `shell`, and the image's permission for a shell (policy.allow_shell).
# FIRSTLIGHT_DRIVER=none makes an image without a GPU driver, FIRSTLIGHT_DRIVER=FILE one with the driver that FILE describes;
# `./run image --driver WORD` sets it (image/driver/choose.sh).
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
source "$REPO/image/driver/describe.sh"
work=$REPO/target/image; out=$(realpath -m "${1:-$work/out}")
mkdir -p "$work"
exec 8> "$work/lock"; flock 8

step=$(date +%s); kernel=$("$REPO/kernel-config/build.sh"); spent kernel "$step"
# The programs are built beside the driver, because most of their time is spent in one thread. They are a process group of
# their own, so that nothing goes on in the background when the driver is refused.
step=$(date +%s); set -m
{ "$REPO/image/rust.sh" > "$work/programs"; spent programs "$step"; } < /dev/null &
programs=$!; set +m
trap 'kill -- -"$programs" 2> /dev/null || true' EXIT
driver=
if [ -n "$DRIVER_FILE" ]; then
    describe_driver
    [ "$driver_source" = none ] || driver=$("$REPO/image/driver/build.sh" "$kernel")
fi
wait "$programs" || exit 1
trap - EXIT
binaries=$(cat "$work/programs")
# shellcheck disable=SC2086  # a list
entries=$("$REPO/image/in-tools.sh" tools --bind "$REPO/image/media:/build/media" \
    python3 -B media/entries.py media/entries.toml table ${FIRSTLIGHT_ENTRIES:-})
release=$(cat "$kernel/release")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$REPO/Cargo.toml" | head -1)
system_id=$( {
    echo "$version $SOURCE_DATE_EPOCH $(basename "$kernel")"; echo "$entries"; locked image; locked source | grep ^mkosi; locked tools
    sha256sum < "$binaries/init"; sha256sum < "$binaries/firstlight"
    cd "$REPO/image"; find recipe media/uki.py assemble.sh build.sh \( -type f -o -type l \) -printf '%p %m %l\n' | LC_ALL=C sort
    find recipe media/uki.py assemble.sh build.sh -type f | LC_ALL=C sort | xargs sha256sum
} | hash_of -)
echo "$kernel/source $kernel/build" > "$work/kernel-tree"
# What an image is made of besides the driver. It has the system's id, as an image without a driver has.
parts=$work/parts
finish() {
    local made; made="$(cat "$parts/identity") ${driver:+$(basename "$driver")} $(cat "$REPO"/image/kernel-file/* | hash_of -)"
    if [ "$(cat "$out/.made-from" 2> /dev/null)" != "$made" ]; then
        say "making the image$([ -z "$driver" ] && echo ' without a driver')"
        rm -rf "$work/new"; mkdir "$work/new"
        "$REPO/image/assemble.sh" "$parts" "$work/new" "$driver"
        "$REPO/image/kernel-file/pack.sh" "$kernel" "$system_id" "$work/new"
        echo "$made" > "$work/new/.made-from"
        rm -rf "$out"; mkdir -p "$(dirname "$out")"; mv "$work/new" "$out"
        spent image "$began"
        say "image $(cat "$out/.image-id") made in $(( $(date +%s) - began )) s: $(cd "$out" && du -Lh --apparent-size firstlight.efi firstlight.vmlinuz firstlight.initrd | awk '{ printf "%s %s  ", $2, $1 }')"
    fi
    exec "$REPO/image/trust/trust.sh" image "$out"
}
began=$(date +%s)
if [ "$(cat "$parts/identity" 2> /dev/null)" = "$version $system_id" ]; then finish; fi

say "making the system $system_id"
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
# Nothing of the driver is in the tree that mkosi packs: an archive with all of it is appended (assemble.sh).
if grep -q $'^shell\t' <<< "$entries"; then
    printf '\n[policy]\n# This image was built with the boot entry shell.\nallow_shell = true\n' >> "$stage/etc/firstlight/config.toml"
fi
cp "$binaries/init" "$stage/init"; cp "$binaries/firstlight" "$stage/usr/bin/firstlight"
own_copy "$kernel/modules/usr/lib/modules/$release" "$stage/usr/lib/modules/"
cp "$kernel/off/vmlinuz" "$stage/usr/lib/modules/$release/vmlinuz"
# no archive for mkosi's apt, because it installs nothing
mkdir -p "$recipe/mkosi.sandbox/etc/apt/sources.list.d"; : > "$recipe/mkosi.sandbox/etc/apt/sources.list.d/mkosi.sources"
echo "$version $system_id" > "$recipe/identity"

words_of() { awk -F'\t' -v id="$1" '$1 == id { print $4 }' <<< "$entries"; }
in_tools() {
    "$REPO/image/in-tools.sh" tools --bind "$mkosi/usr/lib/python3/dist-packages:/build/mkosi" --bind "$recipe:/build/recipe" \
        --bind "$DEBS:/build/debs" --bind "$stage:/build/stage" --bind "$work/base:/build/base" \
        --bind "$work/new:/build/out" --cwd /build/recipe PYTHONPATH=/build/mkosi "$@"
}
in_tools sh -c 'mkdir /build/work && exec python3 -B -m mkosi --source-date-epoch "$SOURCE_DATE_EPOCH" \
    --kernel-command-line "$1" --force build' sh "$(words_of default)" > "$work/mkosi.log" 2>&1 ||
    { tail -20 "$work/mkosi.log" >&2; die "mkosi failed" "the whole log: $work/mkosi.log"; }
# Compressed like the driver's archive: this costs seconds at build time; level 19 without the long window is 4 % larger.
in_tools zstd -q --ultra -22 --long=27 -T1 --rm -o /build/out/initrd /build/out/firstlight.initrd
rm -rf "$parts" "$parts.new"; mkdir -p "$parts.new"/{off,pt}
mv "$work/new/initrd" "$parts.new/"
mv "$work/new/firstlight.files" "$parts.new/files"
cp "$kernel/off/vmlinuz" "$parts.new/off/"; cp "$kernel/pt/vmlinuz" "$parts.new/pt/"
printf '%s\n' "$entries" > "$parts.new/entries"
cp "$work/base/usr/lib/os-release" "$kernel/release" "$recipe/identity" "$parts.new/"
mv "$parts.new" "$parts"
finish
