#!/usr/bin/env bash
# NCCL_SOCKET_IFNAME=one,two is a set: NCCL takes the interfaces in the kernel's order, and a blank in the list is part of a name.
#
# NCCL 2.26.5 and 2.32.3 (nvidia-nccl-cu12), alike.
# Expected from memory: the first name of the list is preferred, and ", " separates names as "," does.
# Seen: whichever the kernel lists first is used. Behind a blank no interface is found; if it was the only one that exists,
#   NCCL cannot start.
# Who is hurt: who puts the fast network first and the slow one second as a reserve: the reserve is used.
# Needs root, for a network of its own.
# Output (=fast,slow; =slow,fast; "none, fast"):
#   Using slow:192.0.2.1<0>
#   Using slow:192.0.2.1<0>
#   no socket interface found
set -euo pipefail
. "$(dirname "$0")/lib.sh"

nccl 2.26.5
nccl 2.32.3
seen=$(alone '
    interface slow 192.0.2.1/24
    interface fast 198.51.100.1/24
    for version in 2.26.5 2.32.3; do
        for value in "=fast,slow" "=slow,fast" "none, fast"; do
            unique_id "$version" NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME="$value" | grep -o "Using .*\|no socket interface found"
        done
    done')
echo "$seen"
three='Using slow:192.0.2.1<0>
Using slow:192.0.2.1<0>
no socket interface found'
is "the interfaces" "$seen" "$three
$three"
