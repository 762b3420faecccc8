#!/usr/bin/env bash
# unsquashfs of a file that is not in the image extracts nothing and ends with status 0.
#
# squashfs-tools 4.5.1 (Debian 12) and 4.6.1 (Debian 13), alike.
# Expected from memory: as tar and cpio do, an error that the member was not found.
# Seen: "created 0 files", status 0, and the folder for the output exists.
# Who is hurt: scripts that take one library out of a driver image and go on without it.
# Output:
#   bookworm 0 created 0 files
#   trixie 0 created 0 files
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm squashfs-tools=1:4.5.1-1
debian trixie squashfs-tools=1:4.6.1-1
mkdir tree
echo 1 > tree/there
for suite in bookworm trixie; do
    status=0
    of "$suite" mksquashfs tree "$suite.img" -quiet -no-progress > /dev/null
    seen=$(of "$suite" unsquashfs -no-progress -d "$suite.out" "$suite.img" missing 2>&1) || status=$?
    echo "$suite $status $(grep 'created 0 files' <<< "$seen")"
    is "status" "$status" 0
    has "$seen" "created 0 files"
    [ ! -e "$suite.out/missing" ] || changed "it was there"
done
