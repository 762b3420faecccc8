#!/usr/bin/env bash
# lspci 3.13 puts the last bits of the error registers on a line of their own, so that a search for UESta.*ACSViol finds nothing.
#
# pciutils 3.9.0 (Debian 12) and 3.13.0 (Debian 13).
# Expected from memory: one register is one line, in all versions.
# Seen: in 3.9.0 the line of UESta ends with ACSViol; in 3.13.0 ECRC, UnsupReq, ACSViol and newer bits follow on the next
#   line, which has no name. `Disabled` of LnkCtl is named LnkDisable.
# Who is hurt: monitoring that greps one line for ACS violations, and reports none for ever.
# Output (lines with UESta and ACSViol):
#   bookworm 1
#   trixie 0
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm pciutils=1:3.9.0-4
debian trixie pciutils=1:3.13.0-2
pci_dump "01:00.0 030000 5" > dump
seen=
for suite in bookworm trixie; do
    all=$(of "$suite" lspci -F dump -vv 2> /dev/null)
    has "$all" "ACSViol-"
    seen+="$suite $(grep -c 'UESta:.*ACSViol' <<< "$all" || true)"$'\n'
done
printf '%s' "$seen"
is "the lines" "$seen" $'bookworm 1\ntrixie 0\n'
