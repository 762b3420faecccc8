#!/usr/bin/env bash
# Without an RDMA card each tool ends in its own way: ibv_devices 1, ibv_devinfo 255, ibstat 0 without a word.
#
# rdma-core 44.0 (Debian 12) and 56.1 (Debian 13), alike, on a machine without the module ib_uverbs.
# Expected from memory: "No IB devices found" and the same status from all.
# Seen: without ib_uverbs, ibv_devices says "Function not implemented", as if the kernel could not do it, and ibstat prints
#   nothing and succeeds.
# Who is hurt: node checks that use ibstat's status, and people who look for another kernel.
# Output:
#   ibv_devices 1 Failed to get IB devices list: Function not implemented
#   ibv_devinfo 255 Failed to get IB devices list: Function not implemented
#   ibstat 0
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ ! -e /sys/class/infiniband_verbs ] && [ ! -e /sys/class/infiniband ] || skip "this machine has RDMA"
debian bookworm ibverbs-utils=44.0-2 infiniband-diags=44.0-2
debian trixie ibverbs-utils=56.1-1 infiniband-diags=56.1-1
for suite in bookworm trixie; do
    all=
    for tool in ibv_devices ibv_devinfo ibstat; do
        status=0
        seen=$(of "$suite" "$tool" 2>&1) || status=$?
        all+="$tool $status $seen"$'\n'
    done
    printf '%s\n%s' "$suite" "$all"
    is "how they end" "$all" 'ibv_devices 1 Failed to get IB devices list: Function not implemented
ibv_devinfo 255 Failed to get IB devices list: Function not implemented
ibstat 0 
'
done
