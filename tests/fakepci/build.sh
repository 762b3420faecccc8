#!/bin/sh
# Builds what a boot with fake PCI devices brings along: OUTDIR/t/fakepci.ko for
# the appliance's own kernel, and the static OUTDIR/t/init that loads it.
#
#   tests/fakepci/build.sh OUTDIR
#
# target/image/kernel-tree names the built kernel; the compiler is that of the
# image's pinned tools (image/in-tools.sh), so that it is the kernel's own.
# FAKEPCI_KERNEL and FAKEPCI_RUN put another kernel and another runner in place.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
[ $# -eq 1 ] || { echo "usage: $0 OUTDIR" >&2; exit 64; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
kernel=${FAKEPCI_KERNEL:-$(cat "$top/target/image/kernel-tree")}
run=${FAKEPCI_RUN-$top/image/in-tools.sh}
[ -e "$kernel/.config" ] || { echo "$0: $kernel is no built kernel" >&2; exit 1; }

# kbuild writes beside its sources: give it a copy.
work=$out/build
rm -rf "$work" "$out/t"
mkdir -p "$work" "$out/t"
cp "$here"/Kbuild "$here"/*.[ch] "$work"
$run make -s -C "$kernel" M="$work" modules
$run gcc -static -Os -s -Wall -Wextra -o "$out/t/init" "$work/init.c"
cp "$work/fakepci.ko" "$out/t/"
$run strip --strip-debug "$out/t/fakepci.ko"
