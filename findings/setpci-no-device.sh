#!/usr/bin/env bash
# setpci on a device that is not there warns and ends with status 0.
#
# pciutils 3.9.0 (Debian 12) and 3.13.0 (Debian 13), alike.
# Expected from memory: an error, as nothing could be read or written.
# Seen: "Warning: No devices selected", no value, status 0.
# Who is hurt: scripts with `set -e` that clear ACS at addresses of another machine, or of the boot before, and go on.
# Output:
#   setpci: Warning: No devices selected for operation group 1.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm pciutils=1:3.9.0-4
debian trixie pciutils=1:3.13.0-2
pci_dump "00:01.0 060400 5 1d 0" > dump
for suite in bookworm trixie; do
    status=0
    seen=$(of "$suite" setpci -A dump -O dump.name=dump -s 09:00.0 ECAP_ACS+6.w 2>&1) || status=$?
    echo "$suite $status $seen"
    is "status" "$status" 0
    has "$seen" "Warning: No devices selected"
done
