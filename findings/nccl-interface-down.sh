#!/usr/bin/env bash
# Up to NCCL 2.27 an interface that is down is chosen if it has an address; from 2.28 on it is not.
#
# NCCL 2.27.7 and 2.28.9 (nvidia-nccl-cu12).
# Expected from memory: interfaces that are down are never chosen.
# Seen: 2.27.7 takes the first interface with an address, whether it is up or not, and its ranks wait for each other in vain.
# Who is hurt: nodes with an unplugged second port that keeps a static address.
# Needs root, for a network of its own.
# Output:
#   2.27.7 Using unplugged:192.0.2.1<0>
#   2.28.9 Using plugged:198.51.100.1<0>
set -euo pipefail
. "$(dirname "$0")/lib.sh"

nccl 2.27.7
nccl 2.28.9
seen=$(alone '
    interface unplugged 192.0.2.1/24 down
    interface plugged 198.51.100.1/24
    for version in 2.27.7 2.28.9; do
        echo "$version $(unique_id "$version" NCCL_DEBUG=INFO | grep -o "Using .*")"
    done')
echo "$seen"
is "the interfaces" "$seen" '2.27.7 Using unplugged:192.0.2.1<0>
2.28.9 Using plugged:198.51.100.1<0>'
