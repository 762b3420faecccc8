#!/usr/bin/env bash
# tree.sh FROM [TO]: unpacks NVIDIA's open-gpu-kernel-modules from a tarball, or copies them from a folder
# or git checkout, and prints their version. Without TO it only prints the version. A tarball may have a prebuilt resource
# manager in place of its source.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
from=$1 to=${2:-}
if [ -z "$to" ]; then to=$(mktemp -d); trap 'rm -rf "$to"' EXIT; to=$to/tree; fi
mkdir -p "$to"
if [ -d "$from" ]; then
    # Built files are not copied: objects of another compiler would be mistaken for ours.
    tar -C "$from" --exclude=./.git --exclude='*.o' --exclude='*.ko' --exclude=_out --exclude=nv-kernel.o_binary -cf - . | tar -C "$to" -xf -
else
    tar -C "$to" --strip-components=1 --no-same-owner -xf "$from" 2> "$to.log" ||
        die "$(basename "$from") cannot be unpacked" "$(tail -1 "$to.log")"
    rm -f "$to.log"
fi
[ -r "$to/version.mk" ] && [ -d "$to/kernel-open" ] && { [ -d "$to/src/nvidia" ] || [ -f "$to/kernel-open/nvidia/nv-kernel.o_binary" ]; } ||
    die "$from is not a tree of NVIDIA's open-gpu-kernel-modules" "it needs version.mk, kernel-open and src/nvidia"
found=$(sed -n 's/^NVIDIA_VERSION *= *\([0-9.]*\) *$/\1/p' "$to/version.mk")
[ -n "$found" ] || die "$from/version.mk does not name NVIDIA_VERSION"
echo "$found"
