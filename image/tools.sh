#!/usr/bin/env bash
# tools.sh: makes the pinned tools tree in the cache if it is not there, and prints where it is.
# The tree is the locked trixie packages, unpacked; no maintainer script runs, so that it is the
# same on every host. What the scripts would have made is made below, with the reason.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"

tree=$CACHE/tools/$( { locked tools; cat "$0"; } | hash_of -)
if [ ! -e "$tree/.complete" ]; then
    "$REPO/image/fetch.sh" tools
    say "unpacking the tools tree ($(locked tools | wc -l) packages)"
    rm -rf "$tree"; mkdir -p "$tree"
    for dir in bin sbin lib lib64; do mkdir -p "$tree/usr/$dir"; ln -s "usr/$dir" "$tree/$dir"; done
    while read -r name version arch _; do
        dpkg-deb --fsys-tarfile "$(deb_path "$name" "$version" "$arch")" |
            tar -x -C "$tree" --keep-directory-symlink --no-same-owner
    done < <(locked tools)
    # alternatives
    ln -sf gawk "$tree/usr/bin/awk"
    ln -sf bison.yacc "$tree/usr/bin/yacc"
    # users and groups, as base-passwd ships them
    cp "$tree/usr/share/base-passwd/passwd.master" "$tree/etc/passwd"
    cp "$tree/usr/share/base-passwd/group.master" "$tree/etc/group"
    # mkosi looks for these
    : > "$tree/etc/resolv.conf"; : > "$tree/etc/machine-id"
    # where in-tools.sh binds things
    mkdir -p "$tree"/{proc,dev,tmp,build,run,root}
    touch "$tree/.complete"
fi
echo "$tree"
