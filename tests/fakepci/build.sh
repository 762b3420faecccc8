#!/usr/bin/env bash
# Builds the files for a boot with fake PCI devices: OUTDIR/t/fakepci.ko for the image's own kernel, and the static
# OUTDIR/t/init that loads it. OUTDIR is target/fakepci by default. target/image/kernel-tree names the kernel's source
# and build folders; the compiler is the one that built that kernel. Does nothing if nothing changed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
out=${1:-$repo/target/fakepci}
read -r source build < "$repo/target/image/kernel-tree"

work=$out/build
key=$(cat "$here"/* <(echo "$build") | sha256sum)
if [ "$(cat "$out/.key" 2> /dev/null)" = "$key" ]; then exit 0; fi
# kbuild writes next to its sources, so it works on a copy
rm -rf "$out"; mkdir -p "$work" "$out/t"
cp "$here"/*.[ch] "$work"
printf '%s\n' 'obj-m := fakepci.o' 'fakepci-y := bridge.o topology.o image.o ops.o faults.o driver.o registers.o' > "$work/Kbuild"
in_tools() {
    "$repo/image/in-tools.sh" compiler --bind "$source:/build/source" --bind "$build:/build/out" \
        --bind "$work:/build/fakepci" --cwd /build/fakepci "$@"
}
in_tools make -s -C /build/source O=/build/out M=/build/fakepci modules
in_tools gcc -static -Os -s -Wall -Wextra -o init init.c
in_tools strip --strip-debug fakepci.ko
mv "$work/init" "$work/fakepci.ko" "$out/t/"
rm -rf "$work"
echo "$key" > "$out/.key"
