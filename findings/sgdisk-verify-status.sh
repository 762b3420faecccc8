#!/usr/bin/env bash
# sgdisk --verify ends with status 0 also where it has found problems.
#
# gdisk 1.0.9 (Debian 12) and 1.0.10 (Debian 13), alike.
# Expected from memory: a status other than 0, as fsck and sfdisk --verify have.
# Seen: an image that was copied to a larger disk has its second table in the middle; sgdisk says "Identified 1 problems!"
#   and succeeds. Only the text tells.
# Who is hurt: tests of boot sticks that use the status.
# Output:
#   bookworm 0 Identified 1 problems!
#   trixie 0 Identified 1 problems!
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm gdisk=1.0.9-2.1
debian trixie gdisk=1.0.10-2
for suite in bookworm trixie; do
    truncate -s 10M "$suite.img"
    of "$suite" sgdisk -n 1:2048:4095 "$suite.img" > /dev/null
    truncate -s 20M "$suite.img"
    status=0
    seen=$(of "$suite" sgdisk --verify "$suite.img" 2>&1) || status=$?
    echo "$suite $status $(grep Identified <<< "$seen")"
    is "status" "$status" 0
    has "$seen" "Identified 1 problems!"
done
