#!/usr/bin/env bash
# repeat.sh: builds the driver's modules a second time, in another folder, and compares: the same bytes.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
kernel=$("$REPO/kernel-config/build.sh")
first=$("$REPO/image/driver/modules.sh" "$kernel")
second=$(FIRSTLIGHT_DRIVER_AT=/build/another/folder "$REPO/image/driver/modules.sh" "$kernel")
for module in nvidia.ko nvidia-uvm.ko; do
    cmp "$first/$module" "$second/$module" || die "$module differs between two folders" "$first $second"
done
rm -rf "$second"
say "the driver's modules are the same from two folders: $(sha256sum < "$first/nvidia.ko" | cut -c1-16)"
