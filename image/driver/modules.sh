#!/usr/bin/env bash
# modules.sh KERNEL [--where]: builds nvidia.ko and nvidia-uvm.ko of the described driver with the kernel's own
# compiler, and prints the cache folder that holds them, stripped, with the source's licence.
# With --where it only prints that folder. FIRSTLIGHT_DRIVER_AT is the folder in the compiler tree in which
# they are built, for the test that another folder gives the same bytes.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/driver/describe.sh"
kernel=$1 at=${FIRSTLIGHT_DRIVER_AT:-/build/driver}
describe_driver

case $driver_source in
    debian)
        read -r name version arch _ hash < <(locked driver-source) || die "inputs.lock has no driver-source" "just relock driver-source"
        from=$(deb_path "$name" "$version" "$arch") ;;
    files | parts)
        from=$(beside "$driver_files_modules")
        if [ -d "$from" ]; then
            hash=$(cd "$from" && find . -path ./.git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | hash_of -)
        else hash=$driver_files_modules_sha256; proven_file modules "$from" "$hash"; fi
esac
patches=$(beside "$driver_patches")
edits=$(beside "$driver_edits")
[ -z "$patches" ] || [ -d "$patches" ] || die "there is no folder of patches $patches"
[ -z "$edits" ] || [ -r "$edits/edits.toml" ] || die "there are no edits $edits/edits.toml"
key=$( { echo "$hash $driver_version $driver_patch $at $(basename "$kernel")"; cat "$REPO"/image/driver/{modules,tree,patches/patch}.sh
         [ "$driver_resource_manager" = source ] || cat "$REPO"/image/driver/description/seen.{h,toml}
         [ -z "$patches" ] || cat "$patches"/*; [ -z "$edits" ] || { echo "$driver_families"; cat "$edits"/* "$REPO"/image/driver/description/{edit,halspec,version}.py; }; } | hash_of -)
result=$CACHE/driver/modules-$key
[ "${2:-}" != --where ] && ! whole "$result" || { echo "$result"; exit 0; }

mkdir -p "$CACHE/driver"
exec 9> "$CACHE/driver.lock"; flock 9
! whole "$result" || { echo "$result"; exit 0; }
began=$(date +%s)
work=$CACHE/driver/modules.work; trap 'rm -rf "$work"' EXIT
rm -rf "$result" "$work"; mkdir "$work"
[ "$driver_source" != debian ] || "$REPO/image/fetch.sh" driver-source
found=$("$REPO/image/driver/tree.sh" "$from" "$work/tree")
[ "$found" = "$driver_version" ] || die "the modules' source is $found, the driver is $driver_version" "$from"

log=$work/build.log
in_tools() {
    "$REPO/image/in-tools.sh" compiler --bind "$work/tree:$at" --bind "$kernel/source:/build/source" --bind "$kernel/build:/build/out" \
        --bind "$REPO/image/driver:/build/scripts" ${patches:+--bind "$patches:/build/patches"} --cwd "$at" "$@"
}
# User, host and date go into a string of the module; paths go into its warnings and asserts.
build() {
    in_tools make -j"$(nproc)" WHOAMI='echo firstlight' HOSTNAME=firstlight NV_BUILD_USER=firstlight NV_BUILD_HOST=firstlight DATE="date -u -d @$SOURCE_DATE_EPOCH" "$@" 2>&1 | progress driver 1090 "$log" || {
        grep -m 20 -E 'error:|Error [0-9]|undefined!' "$log" >&2 || tail -20 "$log" >&2
        cp "$log" "$CACHE/driver/failed.log"
        die "the driver's modules do not build" "the whole log: $CACHE/driver/failed.log"
    }
}

if [ "$driver_resource_manager" = prebuilt ]; then
    [ ! -d "$work/tree/src/nvidia" ] || die "$(basename "$from") has the resource manager's source" "resource_manager = \"source\""
    lend_header "$work/tree" "$driver_version"
elif [ ! -d "$work/tree/src/nvidia" ]; then die "$(basename "$from") has no source of the resource manager" "resource_manager = \"prebuilt\""; fi
# Its registry keys must have the values that families.toml and the description name.
registry_keys "$DRIVER_FILE" "$work/tree" > "$log"
[ -z "$edits" ] || edit_tree "$work/tree" "$edits" "${driver_patch:-none}" $driver_families >&2
[ -z "$patches" ] || in_tools /build/scripts/patches/patch.sh "$at" /build/patches
say "building the driver's modules $driver_version${driver_patch:+, patch level $driver_patch} (once, about 4 minutes on 2 cores)"
if [ "$driver_resource_manager" = source ]; then
    build -C "$at/src/nvidia"
    ln -s ../../src/nvidia/_out/Linux_x86_64/nv-kernel.o "$work/tree/kernel-open/nvidia/nv-kernel.o_binary"
fi
# No display (drm, modeset); peermem serves an InfiniBand stack that is not in the kernel.
build -C "$at/kernel-open" SYSSRC=/build/source SYSOUT=/build/out KCFLAGS="-ffile-prefix-map=$at/=" \
    NV_EXCLUDE_KERNEL_MODULES="nvidia-drm nvidia-modeset nvidia-peermem" modules
mkdir "$work/result"
for module in nvidia nvidia-uvm; do
    in_tools strip --strip-debug -o "$at/$module.ko" "$at/kernel-open/$module.ko"
    mv "$work/tree/$module.ko" "$work/result/$module.ko"
done
cp "$work/tree/COPYING" "$work/tree/$REGISTRY_HEADER" "$work/result/"
mv "$log" "$work/result/build.log"
seal "$work/result"
mv "$work/result" "$result"
say "the driver's modules are built in $(( $(date +%s) - began )) s"
spent modules "$began"
echo "$result"
