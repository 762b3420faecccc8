#!/usr/bin/env bash
# lspci shows that ACS egress control is on, and never to which ports.
#
# pciutils 3.9.0 (Debian 12) and 3.13.0 (Debian 13), alike.
# Expected from memory: -vvv shows every register of a capability that it decodes.
# Seen: EgressCtrl+ in ACSCtl; a port whose vector blocks everything looks like one whose vector blocks nothing.
# Who is hurt: who looks for the port that blocks traffic between two GPUs.
# Output (vectors 00 and ff, the same):
#   ACSCtl:	SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl+ DirectTrans-
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm pciutils=1:3.9.0-4
debian trixie pciutils=1:3.13.0-2
for suite in bookworm trixie; do
    for vector in 00 ff; do
        pci_dump "00:01.0 060400 5 21 $vector" > dump
        of "$suite" lspci -F dump -vvv > "seen-$vector" 2> /dev/null
    done
    grep ACSCtl seen-ff
    has "$(cat seen-ff)" "EgressCtrl+ DirectTrans-"
    cmp -s seen-00 seen-ff || changed "lspci of $suite tells the two vectors apart"
done
