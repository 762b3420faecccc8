#!/usr/bin/env bash
# source.sh DIR COMPILER: unpacks the pinned kernel source into DIR, without most of what is never read, and the tree of the
# compiler that builds it. Downloads come first, and then both at the same time: each is unpacked by one process.
set -euo pipefail
source "$(dirname "$0")/../image/lib/common.sh"
read -r name version arch _ < <(locked source | grep '^linux-source-')
"$REPO/image/fetch.sh" source "$2"
"$REPO/image/tools.sh" "$2" > /dev/null & tree=$!
trap wait EXIT
say "unpacking $name $version"
rm -rf "$1"; mkdir -p "$1"
# Most files are not for these processors. Of these folders the configuration reads Kconfig files, and nothing is compiled.
unread=()
for folder in samples sound tools/perf drivers/{comedi,iio,media,staging,net/wireless} drivers/gpu/drm/{amd,i915,msm,nouveau,radeon,xe}; do
    unread+=(--exclude="$name/$folder/*.[ch]")
done
for processor in alpha arc arm csky hexagon loongarch m68k microblaze mips nios2 openrisc parisc powerpc riscv s390 sh sparc um xtensa; do
    unread+=(--exclude="$name/arch/$processor/*.[chS]")
done
dpkg-deb --fsys-tarfile "$(deb_path "$name" "$version" "$arch")" |
    tar -xO "./usr/src/$name.tar.xz" |
    tar -x --use-compress-program='xz -T0' -C "$1" --strip-components=1 --no-same-owner \
        --exclude='*/boot/dts' --exclude='*.rst' --exclude="$name/tools/testing" "${unread[@]}"
wait "$tree" || die "the tree '$2' cannot be unpacked"
