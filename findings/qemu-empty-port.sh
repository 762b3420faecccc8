#!/usr/bin/env bash
# QEMU's pcie-root-port: an empty port shows its full link as trained, and one with a device the device's 2.5 GT/s x1.
#
# QEMU 10.0.13 (Debian 13).
# Expected from memory: an empty port has a link of width 0 or 2.5 GT/s x1; a port with a device is as the port was configured.
# Seen: the port is 16 GT/s x32 unless told otherwise. Empty, it says so in LnkSta too; an emulated card, which is 2.5 GT/s x1,
#   pulls LnkSta down to that.
# Who is hurt: tests that take a machine in QEMU for one with fast links, or for one whose links all trained down.
# Output (the card, the empty port, the card's port; LnkCap and LnkSta):
#   8086:10d3 no-ACS 1/x1 1/x1
#   1b36:000c ACS 4/x32 4/x32
#   1b36:000c ACS 4/x32 1/x1
set -euo pipefail
. "$(dirname "$0")/lib.sh"

seen=$(qemu_ports pcie-root-port,id=one,chassis=1,addr=1 e1000e,bus=one pcie-root-port,id=two,chassis=2,addr=2 | sort -r)
echo "$seen"
is "the links" "$seen" '8086:10d3 no-ACS 1/x1 1/x1
1b36:000c ACS 4/x32 4/x32
1b36:000c ACS 4/x32 1/x1'
