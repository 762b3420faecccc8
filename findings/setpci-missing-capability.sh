#!/usr/bin/env bash
# setpci on several devices goes through them in another order than lspci, and ends at the first without the capability.
#
# pciutils 3.9.0 (Debian 12) and 3.13.0 (Debian 13), alike.
# Expected from memory: devices in lspci's order; one without the capability is skipped with a warning.
# Seen: the last device of the list comes first. At the first one that has no ACS, setpci ends with status 1, and all devices
#   behind it keep their value: part of the machine is changed, part is not.
# Who is hurt: who clears ACS on all bridges with one `setpci -d`, and who matches its values to lspci's lines.
# Output (two of three devices have ACS, 1d and 3d; the first and the last):
#   003d
#   setpci: 0000:02:00.0: Instance #0 of Extended capability 000d not found
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm pciutils=1:3.9.0-4
debian trixie pciutils=1:3.13.0-2
pci_dump "00:01.0 060400 5 1d 0" "02:00.0 030000 5" "03:00.0 030000 5 3d 0" > dump
for suite in bookworm trixie; do
    status=0
    seen=$(of "$suite" setpci -A dump -O dump.name=dump -d '*:*' ECAP_ACS+6.w 2> said) || status=$?
    printf '%s\n' "$suite" "$seen" "$(cat said)"
    is "status" "$status" 1
    is "the values" "$seen" 003d
    has "$(cat said)" "0000:02:00.0: Instance #0 of Extended capability 000d not found"
done
