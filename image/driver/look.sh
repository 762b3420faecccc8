#!/usr/bin/env bash
# look.sh TREE: examines a tree of NVIDIA's open modules (folder, git checkout or tarball) without building it. Prints its
# version, which registry keys each GPU family would get or why the family is refused, whether the edits by name fit, and
# which patches of the described driver fit.
# look.sh installed|FOLDER [--libraries DIR] [--sizes]: prints which parts of a driver this machine has, or a folder with .deb
# files or NVIDIA's installer, and which are missing or do not fit (sources/parts.py, which also runs alone).
# look.sh --all GIT [DIR]: examines every version of a git repository of these modules, from 550 on, and writes what each
# gives: the table of docs/driver-versions.md, and image/driver/description/seen.toml, below DIR (the repository).
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/driver/describe.sh"
all() {
    local git=$1 to=${2:-$REPO} count=0 files version patched='' at page seen
    page=$to/docs/driver-versions.md seen=$to/image/driver/description/seen.toml
    [ -f "$page" ] || die "there is no $page"
    work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
    mkdir "$work/trees"
    files=$(with_scripts python3 -B scripts/description/versions.py files scripts/edits/bar1)
    at() { git --git-dir="$git" "$@"; }
    at rev-parse --git-dir > "$work/said" 2>&1 || die "$git is not a git directory" "the .git folder of a clone of NVIDIA's open-gpu-kernel-modules, or a bare one"
    for version in $(at tag --list | grep -xE '[0-9]+(\.[0-9]+)+' | sort -V); do
        [ "${version%%.*}" -ge 550 ] || continue
        mkdir "$work/trees/$version"
        # Word splitting is meant: a list of files without spaces
        at archive "$version" -- $files > "$work/archive" 2> "$work/said" || die "$version: $(tail -1 "$work/said")"
        tar -xf "$work/archive" -C "$work/trees/$version"
        count=$((count + 1))
    done
    [ "$count" -gt 0 ] || die "$git has no tag of a version from 550 on"
    for version in $(cd "$REPO/image/driver/patches" && ls -d [0-9]*/ | tr -d /); do
        [ -d "$work/trees/$version" ] || continue
        mkdir "$work/whole"
        at archive "$version" | tar -xf - -C "$work/whole"
        "$REPO/image/in-tools.sh" compiler --bind "$work/whole:/build/tree" --bind "$REPO/image/driver/patches/$version:/build/patches" \
            --bind "$REPO/image/driver:/build/scripts" /build/scripts/patches/patch.sh /build/tree /build/patches > "$work/said" 2>&1 ||
            die "the patches for $version: $(tail -1 "$work/said")"
        rm -rf "$work/whole"
        patched="$patched $version"
    done
    cp "$page" "$work/page.md"
    with_scripts --bind "$work:/build/work" python3 -B scripts/description/versions.py table \
        work/trees scripts/edits/bar1 "$(date -u +%F)" "$patched" work/page.md work/seen.toml
    mv "$work/page.md" "$page"; mv "$work/seen.toml" "$seen"
    say "$count versions: $page and $seen"
}
shopt -s nullglob
packed=("${1:-.}"/*.deb "${1:-.}"/*.run)
case ${1:-}:${#packed[@]} in installed:* | ?*:[1-9]*) exec "$REPO/image/driver/choose.sh" --look "$@" ;; esac
if [ "${1:-}" = --all ]; then
    [ $# = 2 ] || [ $# = 3 ] || die "driver-look --all takes a git directory" "that of a clone of NVIDIA's open-gpu-kernel-modules"
    all "${@:2}"
    exit
fi
[ $# = 1 ] || die "driver-look takes one tree, or --all and a git directory" "a folder, git checkout or tarball of NVIDIA's open-gpu-kernel-modules"
[ -e "$1" ] || die "there is no $1"
# what is no tree is a folder for a driver that lacks everything
[ ! -d "$1" ] || [ -e "$1/version.mk" ] || [ -e "$1/kernel-open" ] || exec "$REPO/image/driver/choose.sh" --look "$1"
describe_driver
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
version=$("$REPO/image/driver/tree.sh" "$(realpath "$1")" "$work/tree")
echo "version $version"
with_scripts --bind "$work/tree:/build/tree" python3 -B scripts/description/describe.py look "$version" "tree/$REGISTRY_HEADER"
families=$(all_families)
for edits in "$REPO"/image/driver/edits/*/; do
    cp -r "$work/tree" "$work/edited"
    if edit_tree "$work/edited" "$edits" look $families > "$work/said" 2>&1
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
