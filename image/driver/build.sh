#!/usr/bin/env bash
# build.sh KERNEL: makes the driver image and prints the cache folder:
#   driver.cpio.zst   what is appended to the initrd: usr/lib/firstlight/driver.squashfs, and the links to it (links.list)
#   driver.files      SHA256, path, origin of every file in the squashfs and in that archive
#   driver.toml       what init and the validator read
# Done once for each set of inputs; the folder's name is their hash. KERNEL is what kernel-config/build.sh printed.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/driver/describe.sh"
here=$REPO/image/driver kernel=$1
describe_driver
[ "$driver_source" != none ] || die "$DRIVER_FILE describes no driver"
modules=$("$here/modules.sh" "$kernel" --where)

# The squashfs is not compressed, and the archive around it is compressed as one stream: NCCL repeats itself
# over megabytes, which separately compressed blocks cannot use (25 MB instead of 55). The blocks are small,
# because a block of zeros takes no space.
key=$( { basename "$modules"; cat "$DRIVER_FILE" "$here"/*.sh "$here"/*.py "$here"/description/* "$here"/dropped.txt "$here"/links.list; for use in driver driver-nccl "driver-nccl-$driver_nccl" tools; do locked "$use"; done; } | hash_of -)
result=$CACHE/driver/image-$key
! whole "$result" || { echo "$result"; exit 0; }
mkdir -p "$CACHE/driver"
exec 9> "$CACHE/driver-image.lock"; flock 9
! whole "$result" || { echo "$result"; exit 0; }
began=$(date +%s)
work=$CACHE/driver/image.work; trap 'rm -rf "$work"' EXIT
rm -rf "$result" "$work"
mkdir -p "$work"/{image/modules,image/doc,userspace,nccl,origins,result,initrd/usr/lib/firstlight}
image=$work/image

# The quick part comes first: parts that do not fit together are refused before minutes of compiling.
"$here/userspace.sh" "$image" "$work/userspace" > "$work/origins/userspace"
"$here/modules.sh" "$kernel" > "$work/log"
say "making the driver image"
cp "$modules"/nvidia.ko "$modules"/nvidia-uvm.ko "$image/modules/"
cp "$modules/COPYING" "$image/doc/nvidia-modules.copyright"
case $driver_source in
    debian) read -r name version _ < <(locked driver-source); built="$name $version${driver_patch:++firstlight.$driver_patch}" ;;
    files) built="$(basename "$driver_files_modules") $driver_version${driver_patch:++firstlight.$driver_patch}" ;;
    parts) built="open-gpu-kernel-modules $driver_version${driver_patch:++firstlight.$driver_patch}" ;;
esac
printf '%s\t%s\n' modules/nvidia.ko "$built" modules/nvidia-uvm.ko "$built" doc/nvidia-modules.copyright "$built" > "$work/origins/modules"
step=$(date +%s)
"$here/nccl.sh" "$image" "$work/nccl" > "$work/origins/nccl"
spent NCCL "$step"; step=$(date +%s)
cat "$here/dropped.txt" "$image/doc/nccl.dropped" > "$image/doc/dropped"; rm "$image/doc/nccl.dropped"

in_tools() {
    with_scripts --bind "$DRIVER_FILE:/build/$(basename "$DRIVER_FILE")" \
        --bind "$modules:/build/modules" --bind "$image:/build/image" --bind "$work/initrd:/build/initrd" --bind "$work/result:/build/result" \
        --bind "$kernel/modules:/build/kernel" "$@"
}
manager=; [ ! -e "$image/bin/nv-fabricmanager" ] || manager=bin/nv-fabricmanager
nccl=$(readlink "$image/lib/libnccl.so.2")
in_tools python3 -B scripts/description/describe.py image "$(basename "$DRIVER_FILE")" modules/nvrm_registry.h "kernel=$(cat "$kernel/release")" \
    "nccl=${nccl#libnccl.so.}" "fabric_manager=$manager" > "$image/driver.toml"
# Prints one line for each mistake; nothing of a wrong image is kept.
"$here/check.sh" "$image" "$kernel" "$driver_resource_manager" || die "the driver's parts do not belong together: no driver image"

find "$image" -type d -exec chmod 0755 {} +
find "$image" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
cat "$work"/origins/* > "$work/origins.all"
( cd "$image" && find . \( -type f -o -type l \) -printf '%P\n' | LC_ALL=C sort | while read -r path; do
    if [ -L "$path" ]; then sum="-> $(readlink "$path")"; else sum=$(sha256sum < "$path"); sum=${sum%% *}; fi
    owner=$(awk -F'\t' -v path="$path" '$1 == path { print $2; exit }' "$work/origins.all")
    printf '%s\t/run/firstlight/driver/%s\t%s\n' "$sum" "$path" "${owner:-built here}"
done ) > "$work/result/driver.files"
in_tools mksquashfs image initrd/usr/lib/firstlight/driver.squashfs -b 32K -noI -noD -noF -no-fragments -no-xattrs -all-root \
    -noappend -no-progress -quiet -processors 1 > "$work/log" 2>&1 || { cat "$work/log" >&2; die "mksquashfs failed"; }
squashfs=$(sha256sum < "$work/initrd/usr/lib/firstlight/driver.squashfs")
printf '%s\t%s\t%s\n' "${squashfs%% *}" /usr/lib/firstlight/driver.squashfs 'built here' >> "$work/result/driver.files"
while read -r path _; do
    case $path in '' | '#'*) continue ;; /usr/bin/*) part=bin ;; /usr/lib/firmware/*) part=firmware ;; *) part=lib ;; esac
    part+=/${path##*/}
    [ -e "$image/$part" ] || continue
    mkdir -p "$work/initrd${path%/*}"
    ln -s "/run/firstlight/driver/$part" "$work/initrd$path"
    printf -- '-> %s\t%s\t%s\n' "/run/firstlight/driver/$part" "$path" 'built here' >> "$work/result/driver.files"
done < "$here/links.list"
find "$work/initrd" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
# Two threads, each with pieces of one size: as fast as two processors are, and the same bytes on any number of them.
say "compressing the driver image ($(du -m --apparent-size "$work/initrd/usr/lib/firstlight/driver.squashfs" | cut -f1) MB, a minute or two)"
in_tools --cwd /build/initrd sh -c 'find usr | LC_ALL=C sort | cpio -o -H newc --reproducible --owner 0:0 --quiet |
    zstd -q --ultra -22 --long=27 -T2 -B128MiB -o /build/result/driver.cpio.zst' || die "the driver image cannot be packed"
spent packing "$step"
cp "$image/driver.toml" "$work/result/"
seal "$work/result"
mv "$work/result" "$result"
say "driver image $(basename "$result") made in $(( $(date +%s) - began )) s: $(stat -c %s "$result/driver.cpio.zst") bytes"
echo "$result"
