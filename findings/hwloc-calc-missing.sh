#!/usr/bin/env bash
# hwloc-calc of an object that does not exist prints an empty mask and ends with status 0.
#
# hwloc 2.9.0 (Debian 12) and 2.12.0 (Debian 13); the differences are below.
# Expected from memory: an error and a status that scripts see.
# Seen: a warning on standard error, 0x0 on standard output, status 0. For a PCI device that does not exist 2.9.0 does the
#   same; 2.12.0 behaves as if no location had been given: it reads locations from standard input, and says so on standard
#   output, where the mask should be.
# Who is hurt: launchers that bind a rank to the processors near a GPU whose address has changed.
# Output (core:99; pci=0000:01:00.0 with an empty standard input):
#   bookworm 0 0x0, 0 0x0
#   trixie 0 0x0, 0 Waiting for locations to process on stdin...
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm hwloc-nox=2.9.0-1
debian trixie hwloc-nox=2.12.0-4
seen=
for suite in bookworm trixie; do
    seen+=$suite
    for location in core:99 pci=0000:01:00.0; do
        status=0
        mask=$(of "$suite" hwloc-calc --input "pack:2 core:4 pu:2" "$location" 2> said < /dev/null) || status=$?
        seen+=" $status $mask,"
    done
    has "$(cat said)" "0000:01:00.0"
    seen+=$'\n'
done
printf '%s' "$seen"
is "masks" "$seen" $'bookworm 0 0x0, 0 0x0,\ntrixie 0 0x0, 0 Waiting for locations to process on stdin...,\n'
