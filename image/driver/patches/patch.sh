#!/usr/bin/env bash
# patch.sh TREE PATCHES: applies the patches that PATCHES/series names, in its order. They must fit
# exactly (no fuzz): a patch that lands a few lines off may change another function. Runs in the compiler tree.
set -euo pipefail
tree=$1 patches=$2
die() { echo "firstlight: error: $1" >&2; exit 1; }
[ -r "$patches/series" ] || die "the patch series has no file 'series'"
while read -r name _; do
    case $name in ''|'#'*) continue ;; esac
    [ -r "$patches/$name" ] || die "series names the patch $name, which is not there"
    said=$(patch -d "$tree" -p1 -F0 --batch --forward --no-backup-if-mismatch < "$patches/$name" 2>&1) ||
        die "patch $name does not apply: $(grep -m1 -E 'FAILED|previously applied|find file|Only garbage|malformed' <<< "$said" || tail -1 <<< "$said")"
done < "$patches/series"
