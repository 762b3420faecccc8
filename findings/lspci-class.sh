#!/usr/bin/env bash
# `lspci -d ::03` finds no display controller: a short class is a number, not a prefix.
#
# pciutils 3.9.0 (Debian 12) and 3.13.0 (Debian 13), alike.
# Expected from memory: 03 stands for all of class 03, VGA (0300) and 3D controllers (0302) alike.
# Seen: it means class 0003, which nothing has; nothing is printed, and the status is 0. ::03xx is the form for a prefix.
# Who is hurt: scripts that count GPUs by class and get 0.
# Output (::03, ::0300, ::03xx):
#   0 1 2
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm pciutils=1:3.9.0-4
debian trixie pciutils=1:3.13.0-2
pci_dump "01:00.0 030000 5" "02:00.0 030200 5" > dump
for suite in bookworm trixie; do
    seen=
    for class in 03 0300 03xx; do seen+=" $(of "$suite" lspci -F dump -d "::$class" | wc -l)"; done
    echo "$suite$seen"
    is "the numbers of functions" "$seen" " 0 1 2"
done
