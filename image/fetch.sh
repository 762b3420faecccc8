#!/usr/bin/env bash
# fetch.sh USE[/PACKAGE]..: downloads the locked files of these uses into the cache and verifies their hashes.
# Downloads only missing files; prints what it downloads.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
mkdir -p "$DEBS"

proven() { [ "$(sha256 "$1")" = "$2  $1" ]; }

missing=() sources=() wheels=() expected=()   # NAME=VERSION three times ; PATH HASH SIZE
scope=main foreign=
for wanted in "$@"; do
    use=${wanted%%/*} only=${wanted#"${wanted%%/*}"}
    while read -r name version arch size hash; do
        [ -z "$only" ] || [ "$only" = "/$name" ] || continue
        path=$(deb_path "$name" "$version" "$arch")
        [ -e "$path" ] && proven "$path" "$hash" && continue
        expected+=("$path $hash $size")
        case $arch in
            source) sources+=("$name=$version") ;;
            wheel) wheels+=("$name=$version") ;;
            arm64) missing+=("$name:$arch=$version") foreign=$arch ;;
            *) missing+=("$name=$version") ;;
        esac
        case $use in driver*) scope=driver ;; esac
    done < <(locked "$use")
done
# one package may serve two uses
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | awk 'NF' | sort -u)
mapfile -t expected < <(printf '%s\n' "${expected[@]}" | awk 'NF' | sort -u)
[ ${#expected[@]} -gt 0 ] || exit 0
[ -z "$INPUTS" ] || die "the archive of inputs lacks $(basename "${expected[0]%% *}")"

if [ $(( ${#missing[@]} + ${#sources[@]} )) -gt 0 ]; then
    source "$REPO/image/lib/mirror.sh"
    mirror_setup "$scope" "$foreign"
fi
say "downloading ${#expected[@]} packages ($(printf '%s\n' "${expected[@]}" | awk '{ s += $3 } END { printf "%.0f MB", s / 1e6 }'))"
printf '%s\n' "${missing[@]}" "${sources[@]}" "${wheels[@]}" | awk 'NF { print "  " $0 }' >&2
work=$(mktemp -d "$DEBS/fetch.XXXXXX"); trap 'rm -rf "$work"' EXIT
# Reports why a download failed: the archive no longer has these versions, or it did not answer.
gone() {
    local package names=''
    for package in "${missing[@]}"; do
        [ -n "$(apt-cache "${APT_OPTIONS[@]}" show --quiet "$package" 2> /dev/null)" ] || names+=", ${package/=/ }"
    done
    for package in "${sources[@]}"; do
        apt-cache "${APT_OPTIONS[@]}" showsrc --only-source "${package%%=*}" 2> /dev/null | grep -xF "Version: ${package#*=}" > /dev/null || names+=", ${package/=/ }"
    done
    [ -n "$names" ] || die "the archive did not deliver packages that it has" "check the network and run it again"
    die_gone "${FIRSTLIGHT_ARCHIVE:-}" "${names#, }"
}
if [ ${#missing[@]} -gt 0 ]; then
    ( cd "$work" && apt-get "${APT_OPTIONS[@]}" -qq download "${missing[@]}" ) || gone
fi
# Only the upstream tarball of a source package: Debian's own changes to it are not used.
for source in "${sources[@]}"; do
    read -r uri file < <(apt-get "${APT_OPTIONS[@]}" -qq source --print-uris "$source" | tr -d "'" | awk '$2 ~ /\.orig\.tar\.xz$/') || gone
    /usr/lib/apt/apt-helper "${APT_OPTIONS[@]}" -qq download-file "$uri" "$work/${file%% *}" || gone
done
for wheel in "${wheels[@]}"; do
    fetch_wheel "${wheel%%=*}" "${wheel#*=}" "$work" || die "the Python registry does not deliver ${wheel/=/ }" "check the network; 'just relock' for a newer version"
done
for line in "${expected[@]}"; do
    read -r path hash _ <<< "$line"
    got=$work/$(basename "$path")
    proven "$got" "$hash" || die "$(basename "$path") is not the locked file" "expected SHA256 $hash"
    mv "$got" "$path"
done
