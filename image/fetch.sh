#!/usr/bin/env bash
# fetch.sh USE..: brings the locked packages of these uses into the cache and proves their hashes.
# Downloads only what is missing; prints what it downloads.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
mkdir -p "$CACHE/debs"

proven() { [ "$(sha256sum < "$1" | cut -d' ' -f1)" = "$2" ]; }

missing=() expected=()   # NAME=VERSION ; PATH HASH SIZE
for use in "$@"; do
    while read -r name version arch size hash; do
        path=$(deb_path "$name" "$version" "$arch")
        [ -e "$path" ] && proven "$path" "$hash" && continue
        missing+=("$name=$version"); expected+=("$path $hash $size")
    done < <(locked "$use")
done
# one package may serve two uses
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | awk 'NF' | sort -u)
mapfile -t expected < <(printf '%s\n' "${expected[@]}" | awk 'NF' | sort -u)
[ ${#missing[@]} -gt 0 ] || exit 0

source "$REPO/image/lib/mirror.sh"
mirror_setup
say "downloading ${#missing[@]} packages ($(printf '%s\n' "${expected[@]}" | awk '{ s += $3 } END { printf "%.0f MB", s / 1e6 }'))"
printf '%s\n' "${missing[@]}" | sed 's/^/  /' >&2
work=$(mktemp -d "$CACHE/debs/fetch.XXXXXX"); trap 'rm -rf "$work"' EXIT
( cd "$work" && apt-get "${APT_OPTIONS[@]}" -qq download "${missing[@]}" ) ||
    die "a locked version is no longer in this host's archive" \
        "put that .deb into $CACHE/debs, or use an archive snapshot in the host's apt sources, or renew the lock with 'just relock'"
for line in "${expected[@]}"; do
    read -r path hash _ <<< "$line"
    got=$work/$(basename "$path")
    proven "$got" "$hash" || die "$(basename "$path") is not the locked file" "expected SHA256 $hash"
    mv "$got" "$path"
done
