#!/usr/bin/env bash
# In QEMU only pcie-root-port has ACS: the ports of its switch have none, and the downstream ones show a link of width 0.
#
# QEMU 10.0.13 (Debian 13).
# Expected from memory: the switch's downstream ports have ACS, as real ones do.
# Seen: neither x3130-upstream nor xio3130-downstream nor the root port ioh3420 has the capability; LnkCap of a downstream port
#   is 0 and x0.
# Who is hurt: who wants to test ACS redirection between two cards behind one switch: it cannot be switched on there.
# Output (root port, upstream, downstream, ioh3420):
#   1b36:000c ACS 4/x32 1/x1
#   104c:8232 no-ACS 1/x1 1/x1
#   104c:8233 no-ACS 0/x0 1/x1
#   8086:3420 no-ACS 1/x1 1/x1
set -euo pipefail
. "$(dirname "$0")/lib.sh"

seen=$(qemu_ports pcie-root-port,id=root,chassis=1,addr=1 x3130-upstream,id=up,bus=root xio3130-downstream,bus=up,chassis=2 \
    ioh3420,chassis=3,addr=2)
echo "$seen"
is "the ports" "$seen" '1b36:000c ACS 4/x32 1/x1
104c:8232 no-ACS 1/x1 1/x1
104c:8233 no-ACS 0/x0 1/x1
8086:3420 no-ACS 1/x1 1/x1'
