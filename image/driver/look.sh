#!/usr/bin/env bash
# look.sh TREE: examines a tree of NVIDIA's open modules (folder, git checkout or tarball) without building it. Prints its
# version, which registry keys each GPU family would get or why the family is refused, whether the edits by name fit, and
# which patches of the described driver fit.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/driver/describe.sh"
[ $# = 1 ] || die "driver-look takes one tree" "a folder, git checkout or tarball of NVIDIA's open-gpu-kernel-modules"
[ -e "$1" ] || die "there is no $1"
describe_driver
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
version=$("$REPO/image/driver/tree.sh" "$(realpath "$1")" "$work/tree")
echo "version $version"
with_scripts --bind "$work/tree:/build/tree" python3 -B scripts/description/describe.py look "$version" "tree/$REGISTRY_HEADER"
for edits in "$REPO"/image/driver/edits/*/; do
    cp -r "$work/tree" "$work/edited"
    if edit_tree "$work/edited" "$edits" look > "$work/said" 2>&1
    then echo "edits  $(basename "$edits"): fit"; else echo "edits  $(basename "$edits"): refused: $(sed 's/^firstlight: error: //' "$work/said" | tail -1)"; fi
    rm -rf "$work/edited"
done
patches=$(beside "$driver_patches")
[ -n "$patches" ] || { echo "patches  none described"; exit 0; }
grep -vE '^(#|$)' "$patches/series" | while read -r patch _; do
    echo "$patch" > "$work/series"
    cp "$patches/$patch" "$work/"
    if "$REPO/image/in-tools.sh" compiler --bind "$work/tree:/build/tree" --bind "$work:/build/patches" \
        --bind "$REPO/image/driver:/build/scripts" /build/scripts/patches/patch.sh /build/tree /build/patches < /dev/null > "$work/said" 2>&1
    then echo "patch  $patch: fits"; else echo "patch  $patch: refused: $(sed 's/^firstlight: error: //' "$work/said" | tail -1)"; fi
done
