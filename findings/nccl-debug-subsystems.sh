#!/usr/bin/env bash
# NCCL_DEBUG_SUBSYS: ^ counts only as the first character, and an empty value switches all INFO lines off.
#
# NCCL 2.26.5 and 2.32.3 (nvidia-nccl-cu12), alike.
# Expected from memory: ALL,^BOOTSTRAP is everything but BOOTSTRAP; an empty value is the default, as for other variables.
# Seen: in ALL,^BOOTSTRAP the second word is unknown and is ignored, so BOOTSTRAP is printed. An empty value selects nothing.
# Who is hurt: scripts that pass a variable on that may be empty, and then find no line about the transport.
# Output (lines of the subsystem BOOTSTRAP):
#   unset 1, ^BOOTSTRAP 0, ALL,^BOOTSTRAP 1, empty 0
set -euo pipefail
. "$(dirname "$0")/lib.sh"

for version in 2.26.5 2.32.3; do
    nccl "$version"
    seen=
    for words in NCCL_UNUSED=1 NCCL_DEBUG_SUBSYS=^BOOTSTRAP NCCL_DEBUG_SUBSYS=ALL,^BOOTSTRAP NCCL_DEBUG_SUBSYS=; do
        seen+=" $(unique_id "$version" NCCL_DEBUG=INFO "$words" | grep -c 'Bootstrap: Using' || true)"
    done
    echo "$version$seen"
    is "lines in $version" "$seen" " 1 0 1 0"
    rm -r "nccl-$version"
done
