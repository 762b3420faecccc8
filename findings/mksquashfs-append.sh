#!/usr/bin/env bash
# mksquashfs adds to an image that exists, and renames what has the same name: two folders `lib` become `lib` and `lib_1`.
#
# squashfs-tools 4.5.1 (Debian 12) and 4.6.1 (Debian 13), alike.
# Expected from memory: the image is replaced, and two sources with a folder of the same name are merged, as layers are.
# Seen: a second run with the same command puts the tree into the image twice, the second under NAME_1; two sources in one
#   run are renamed likewise. Status 0.
# Who is hurt: builds without -noappend, and who lays a site's files over a base.
# Output (second run; two sources):
#   lib lib_1
#   lib lib_1
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm squashfs-tools=1:4.5.1-1
debian trixie squashfs-tools=1:4.6.1-1
mkdir -p base/lib site/lib
echo 1 > base/lib/one
echo 2 > site/lib/two
names() { of "$1" unsquashfs -l "$2" | sed -n 's#^squashfs-root/\([^/]*\)$#\1#p' | paste -sd ' '; }
for suite in bookworm trixie; do
    for _ in 1 2; do of "$suite" mksquashfs base "$suite-twice" -quiet -no-progress > said 2>&1; done
    of "$suite" mksquashfs base/lib site/lib "$suite-both" -quiet -no-progress > said 2>&1
    seen="$(names "$suite" "$suite-twice"), $(names "$suite" "$suite-both")"
    echo "$suite $seen"
    is "the folders" "$seen" "lib lib_1, lib lib_1"
done
