#!/usr/bin/env bash
# A carriage return at the end of a line of nccl.conf belongs to the value up to NCCL 2.29, and is dropped from 2.30 on.
#
# NCCL 2.29.7 and 2.30.7 (nvidia-nccl-cu12).
# Expected from memory: it is dropped, or is harmless, in all versions.
# Seen: 2.29.7 looks for the interface "lo\r", finds none, and the program cannot start. The log line looks right.
# Who is hurt: files written on other systems or by a management tool; the file works on one node and not on another.
# Output:
#   2.29.7 status invalid usage (run with NCCL_DEBUG=WARN for details)
#   2.30.7 status no error
set -euo pipefail
. "$(dirname "$0")/lib.sh"

printf 'NCCL_SOCKET_IFNAME=lo\r\n' > nccl.conf
seen=
for version in 2.29.7 2.30.7; do
    nccl "$version"
    seen+="$version $(unique_id "$version" NCCL_CONF_FILE="$PWD/nccl.conf" | grep '^status')"$'\n'
    rm -r "nccl-$version"
done
printf '%s' "$seen"
is "how both start" "$seen" "2.29.7 status invalid usage (run with NCCL_DEBUG=WARN for details)
2.30.7 status no error
"
