#!/usr/bin/env bash
# files.sh VERSION DIR [FAMILY..]: writes DIR/driver.toml, the description of a driver whose two files are in DIR: NVIDIA's
# open modules and its installer. Reports what is missing and where to get it, checks that both have that version and that
# the modules have the families' registry keys, and prints the command that builds the image. Without FAMILY: all families
# that the version supports, but not those that are chosen only by name.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/driver/describe.sh"
here=$REPO/image/driver
version=${1:-} dir=${2:-}
shift $(( $# < 2 ? $# : 2 ))
[[ $version =~ ^[0-9]+(\.[0-9]+)+$ ]] || die "driver-files: '$version' is not a version" "for example: ./run driver-files 590.48.01 DIR"
[ -d "$dir" ] || die "driver-files: there is no folder '$dir'" "./run driver-files $version DIR"
dir=$(realpath "$dir")
[ ! -e "$dir/driver.toml" ] || die "$dir/driver.toml already exists" "remove it, or build from it"

run=$dir/NVIDIA-Linux-x86_64-$version.run modules=
for name in "open-gpu-kernel-modules-$version" "open-gpu-kernel-modules-$version.tar.gz" "$version.tar.gz"; do
    [ -n "$modules" ] || [ ! -e "$dir/$name" ] || modules=$dir/$name
done
missing=
[ -n "$modules" ] || missing="open-gpu-kernel-modules-$version.tar.gz, tag $version of github.com/NVIDIA/open-gpu-kernel-modules"
[ -f "$run" ] || missing="${missing:+$missing; and }$(basename "$run"), NVIDIA's driver for Linux 64-bit of that version (nvidia.com/drivers)"
[ -z "$missing" ] || die "$dir lacks $missing"

work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
found=$("$here/tree.sh" "$modules" "$work/tree")
[ "$found" = "$version" ] || die "$(basename "$modules") is version $found, not $version"
found=$("$here/run-file.sh" "$run" "$work/run")
[ "$found" = "$version" ] || die "$(basename "$run") is version $found, not $version"
case $(od -An -tx1 -j4 -N16 "$work/run/libcuda.so.$version" | tr -d ' \n') in
    0201*3e00) ;;   # 64 bits, x86-64
    *) die "$(basename "$run") is not for x86-64 processors" ;;
esac
sum() { [ -d "$1" ] || { local hash; hash=$(sha256sum < "$1"); echo "${hash%% *}"; }; }

families=${*:-$(common_families)}
# Our changes to it: the patches for exactly that version, or else the edits by name if they fit.
patches='' edits='' level=''
if [ -d "$here/patches/$version" ]; then
    patches=$here/patches/$version level=$(toml_word "$here/source.toml" patch)
else
    cp -r "$work/tree" "$work/edited"
    if edit_tree "$work/edited" "$here/edits/bar1" 3 $families > "$work/said" 2>&1
    then edits=$here/edits/bar1 level=3; else say "no edits: $(sed 's/^firstlight: error: //' "$work/said" | tail -1)"; fi
fi
describe() {
    local families
    families=$(printf ', "%s"' "$@")
    sed -e "s|^version = .*|version = \"$version\"|" -e 's|^source = .*|source = "files"|' -e "s|^families = .*|families = [${families#, }]|" -e 's|^nccl = .*|nccl = "wheel"|' \
        -e "s|^patches = .*|patches = \"$patches\"|" -e "s|^edits = .*|edits = \"$edits\"|" -e "s|^patch = .*|patch = \"$level\"|" \
        -e "s|^modules = .*|modules = \"$(basename "$modules")\"|" -e "s|^modules_sha256 = .*|modules_sha256 = \"$(sum "$modules")\"|" \
        -e "s|^run = .*|run = \"$(basename "$run")\"|" -e "s|^run_sha256 = .*|run_sha256 = \"$(sum "$run")\"|" \
        "$here/source.toml" > "$work/driver.toml"
}
keys() { registry_keys "$work/driver.toml" "$work/tree"; }
if [ $# -gt 0 ]; then
    describe "$@"
    keys > "$work/keys" 2> "$work/said" || die "$(sed 's/^firstlight: error: driver.toml: //' "$work/said" | tail -1)"
else
    served=()
    for family in $families; do
        describe "$family"
        if keys > "$work/keys" 2> "$work/said"; then served+=("$family"); else
            say "without $family: $(sed 's/^firstlight: error: driver.toml: //' "$work/said" | tail -1)"
        fi
    done
    describe "${served[@]}"
    keys > "$work/keys"
fi
mv "$work/driver.toml" "$dir/driver.toml"
say "wrote $dir/driver.toml: driver $version, $([ -n "$level" ] && echo "patch level $level" || echo "modules as they are")"
sed 's/^/  /' "$work/keys" >&2
echo "FIRSTLIGHT_DRIVER=$dir/driver.toml ./run image"
