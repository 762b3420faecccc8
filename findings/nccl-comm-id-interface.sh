#!/usr/bin/env bash
# NCCL_COMM_ID chooses the interface by its subnet, and NCCL_SOCKET_IFNAME, though set, is not asked.
#
# NCCL 2.26.5 and 2.32.3 (nvidia-nccl-cu12), alike.
# Expected from memory: NCCL_SOCKET_IFNAME decides; NCCL_COMM_ID only says where rank 0 is.
# Seen: for starting a job NCCL uses the interface in whose subnet the address is, against NCCL_SOCKET_IFNAME.
# Who is hurt: launchers that give the address by which a node is known, on the management network, and name the data network.
# Needs root, for a network of its own.
# Output (without, with NCCL_COMM_ID):
#   Using data:192.0.2.1<0>
#   Using management:198.51.100.1<0>
set -euo pipefail
. "$(dirname "$0")/lib.sh"

nccl 2.26.5
nccl 2.32.3
seen=$(alone '
    interface data 192.0.2.1/24
    interface management 198.51.100.1/24
    for version in 2.26.5 2.32.3; do
        for id in "" 198.51.100.7:29500; do
            unique_id "$version" NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME==data ${id:+NCCL_COMM_ID=$id} | grep -o "Using .*"
        done
    done')
echo "$seen"
two='Using data:192.0.2.1<0>
Using management:198.51.100.1<0>'
is "the interfaces" "$seen" "$two
$two"
