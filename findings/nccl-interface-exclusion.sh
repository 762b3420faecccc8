#!/usr/bin/env bash
# NCCL_SOCKET_IFNAME=^NAME takes away NCCL's own exclusions too, so that NCCL chooses the loopback.
#
# NCCL 2.26.5 and 2.32.3 (nvidia-nccl-cu12), alike.
# Expected from memory: NCCL leaves out lo and docker by itself, and what follows ^ is left out besides.
# Seen: the list replaces NCCL's own. With ^docker0, lo is the first interface left, and a job on several nodes tells the
#   others to call 127.0.0.1. It works as long as all ranks are on one node.
# Who is hurt: everyone who excludes one interface by name and does not add lo.
# Needs root, for a network of its own.
# Output (unset, ^docker0, ^docker0,lo):
#   Using net0:192.0.2.1<0>
#   Using lo:127.0.0.1<0>
#   Using net0:192.0.2.1<0>
set -euo pipefail
. "$(dirname "$0")/lib.sh"

nccl 2.26.5
nccl 2.32.3
seen=$(alone '
    interface net0 192.0.2.1/24
    interface docker0 198.51.100.1/24
    for version in 2.26.5 2.32.3; do
        for value in "" "^docker0" "^docker0,lo"; do
            unique_id "$version" NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME="$value" | grep -o "Using .*"
        done
    done')
echo "$seen"
three='Using net0:192.0.2.1<0>
Using lo:127.0.0.1<0>
Using net0:192.0.2.1<0>'
is "the interfaces" "$seen" "$three
$three"
