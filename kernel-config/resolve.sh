#!/usr/bin/env bash
# resolve.sh SOURCE OUT FLAVOUR: inside the tools tree, merges all fragments and one flavour on top
# of allnoconfig into OUT/.config and checks that every requested option survived.
set -euo pipefail
here=$(dirname "$0"); source_dir=$1 out=$2 flavour=$3
fragments=("$here"/fragments/*.config "$here/flavours/$flavour.config")
mkdir -p "$out"
# Two fragments may request the same symbol; kconfig accepts it only once.
awk '!seen[$0]++' "${fragments[@]}" > "$out/requested.config"
make -s -C "$source_dir" O="$out" KCONFIG_ALLCONFIG="$out/requested.config" allnoconfig
"$here/check.sh" "$out/.config" "${fragments[@]}"
