#!/usr/bin/env bash
# source.sh DIR: unpacks the pinned kernel source into DIR, without what x86 never reads.
set -euo pipefail
source "$(dirname "$0")/../image/lib/common.sh"
read -r name version arch _ < <(locked source | grep '^linux-source-')
"$REPO/image/fetch.sh" source
say "unpacking $name $version"
rm -rf "$1"; mkdir -p "$1"
dpkg-deb --fsys-tarfile "$(deb_path "$name" "$version" "$arch")" |
    tar -xO "./usr/src/$name.tar.xz" |
    tar -xJ -C "$1" --strip-components=1 --no-same-owner \
        --exclude='*/boot/dts' --exclude="$name/Documentation/devicetree" --exclude="$name/tools/testing" \
        --exclude="$name/drivers/gpu/drm/amd/include"
