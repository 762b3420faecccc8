#!/usr/bin/env bash
# tools.sh compiler|tools|signing|testing|debian: makes one of the pinned trees in the cache if it is not there, and
# prints where it is. A tree is the locked trixie packages, unpacked; no maintainer script runs, so that it is the
# same on every host. What the scripts would have made is made below, with the reason.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"

# FILE: what a .deb installs, as a tar archive: its third member. A host need not have dpkg.
installs() {
    local control; control=$(head -c 130 "$1" | tail -c 10)
    tail -c +$(( 193 + control + control % 2 )) "$1" | xz -dc
}

use=$1
tree=$CACHE/trees/$( { locked "$use"; cat "$0"; } | hash_of -)
# The Debian folder is a system in use: its commands and enter.sh write to it, so it is not compared.
case $use in debian) is_made() { [ -e "$tree/.complete" ]; }; finish() { touch "$tree/.complete"; } ;;
    *) is_made() { whole "$tree"; }; finish() { seal "$tree"; } ;; esac
if ! is_made; then
    exec 9> "$CACHE/tools.lock"; flock 9
fi
if ! is_made; then
    case $use in debian) "$REPO/image/debian/packages.sh" ;; *) "$REPO/image/fetch.sh" "$use" ;; esac
    say "unpacking the $use tree ($(locked "$use" | wc -l) packages)"
    rm -rf "$tree"; mkdir -p "$tree"
    for dir in bin sbin lib lib64; do mkdir -p "$tree/usr/$dir"; ln -s "usr/$dir" "$tree/$dir"; done
    while read -r name version arch _; do
        installs "$(deb_path "$name" "$version" "$arch")" | tar -x -C "$tree" --keep-directory-symlink --no-same-owner
    done < <(locked "$use")
    # alternatives
    [ ! -e "$tree/usr/bin/gawk" ] || ln -sf gawk "$tree/usr/bin/awk"
    [ ! -e "$tree/usr/bin/gcc" ] || ln -sf gcc "$tree/usr/bin/cc"
    mkdir -p "$tree/etc"
    echo 'root:x:0:0:root:/root:/usr/bin/bash' > "$tree/etc/passwd"
    echo 'root:x:0:' > "$tree/etc/group"
    for file in passwd group; do
        [ ! -e "$tree/usr/share/base-passwd/$file.master" ] || cp "$tree/usr/share/base-passwd/$file.master" "$tree/etc/$file"
    done
    # mkosi looks for these
    : > "$tree/etc/resolv.conf"; : > "$tree/etc/machine-id"
    # where in-tools.sh binds things
    mkdir -p "$tree"/{proc,dev,tmp,build,run,root}
    finish
fi
echo "$tree"
