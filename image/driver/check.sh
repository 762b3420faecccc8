#!/usr/bin/env bash
# check.sh IMAGE KERNEL [source|prebuilt]: refuses a driver image whose parts do not belong together (check.py), in the
# tools tree. KERNEL is what kernel-config/build.sh printed.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/driver/describe.sh"
reference=$(cd "$2/modules" && find . -name '*.ko' | LC_ALL=C sort | sed -n 1p)
[ -n "$reference" ] || die "the kernel in $2 has no module to compare with"
with_scripts --bind "$1:/build/image" --bind "$2/modules:/build/kernel" python3 -B scripts/check.py image "kernel/$reference" "${3:-source}"
