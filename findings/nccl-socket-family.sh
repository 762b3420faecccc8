#!/usr/bin/env bash
# NCCL logs "set by environment" for values that it does not understand: NCCL_SOCKET_FAMILY=ipv6 is logged and has no effect.
#
# NCCL 2.26.5 and 2.32.3 (nvidia-nccl-cu12), alike.
# Expected from memory: a wrong word is an error, or at least is not reported as set.
# Seen: only AF_INET and AF_INET6 have an effect. With ipv6 the log says "set by environment to ipv6", and IPv4 is used.
# Who is hurt: who takes the log's line as proof that a setting is in force.
# Needs root, for a network of its own.
# Output:
#   NCCL_SOCKET_FAMILY set by environment to ipv6 / Using net0:192.0.2.1<0>
#   NCCL_SOCKET_FAMILY set by environment to AF_INET6 / Using net0:2001:db8::1<0>
set -euo pipefail
. "$(dirname "$0")/lib.sh"

nccl 2.26.5
nccl 2.32.3
seen=$(alone '
    interface net0 192.0.2.1/24
    ip -6 address add 2001:db8::1/64 dev net0 nodad
    for version in 2.26.5 2.32.3; do
        for word in ipv6 AF_INET6; do
            unique_id "$version" NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=net0 NCCL_SOCKET_FAMILY="$word" |
                grep -o "NCCL_SOCKET_FAMILY set .*\|Using .*"
        done
    done')
echo "$seen"
four='NCCL_SOCKET_FAMILY set by environment to ipv6
Using net0:192.0.2.1<0>
NCCL_SOCKET_FAMILY set by environment to AF_INET6
Using net0:2001:db8::1<0>'
is "the addresses" "$seen" "$four
$four"
