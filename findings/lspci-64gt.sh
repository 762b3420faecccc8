#!/usr/bin/env bash
# lspci 3.9 shows the supported speeds of a 64 GT/s link as "RsvdP".
#
# pciutils 3.9.0 (Debian 12); 3.13.0 (Debian 13) shows 2.5-64GT/s.
# Expected from memory: LnkCap2 lists 64GT/s wherever LnkCap and LnkSta know it.
# Seen: 3.9.0 has 64GT/s in LnkCap, LnkSta and LnkCtl2, and in LnkCap2 the word for bits without a meaning.
# Who is hurt: who reads the highest speed of a PCIe 6 slot from LnkCap2.
# Output:
#   bookworm LnkCap2: Supported Link Speeds: RsvdP, ..
#   trixie LnkCap2: Supported Link Speeds: 2.5-64GT/s, ..
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm pciutils=1:3.9.0-4
debian trixie pciutils=1:3.13.0-2
pci_dump "01:00.0 030000 6" > dump
seen=
for suite in bookworm trixie; do
    all=$(of "$suite" lspci -F dump -vv 2> /dev/null)
    has "$all" "LnkSta:	Speed 64GT/s"
    seen+="$suite $(grep -o 'LnkCap2: [^,]*' <<< "$all")"$'\n'
done
printf '%s' "$seen"
is "the speeds" "$seen" 'bookworm LnkCap2: Supported Link Speeds: RsvdP
trixie LnkCap2: Supported Link Speeds: 2.5-64GT/s
'
