#!/usr/bin/env bash
# packages.sh: puts the locked packages of the Debian folder into the cache, also on hosts without apt: from the archive of
# inputs FIRSTLIGHT_FROM (made by vendor.sh), or else with curl or wget from the Debian archive that FIRSTLIGHT_ARCHIVE
# names, or else apt's own, or else an installed debootstrap's default. Only the hashes of image/inputs.lock are trusted, so no key is needed.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/lib/mirror.sh"
from=${FIRSTLIGHT_FROM:-}
room=1200   # MB: the packages and the tree that tools.sh unpacks them into

mkdir -p "$DEBS"
work=$(mktemp -d "$DEBS/debian.XXXXXX"); trap 'rm -rf "$work"' EXIT
proven() { [ "$(sha256sum < "$1" | cut -d' ' -f1)" = "$2" ]; }
# HASH PATH NAME VERSION
while read -r name version arch _ hash; do
    path=$(deb_path "$name" "$version" "$arch")
    [ -e "$path" ] && proven "$path" "$hash" || echo "$hash $path $name $version"
done < <(locked debian) > "$work/missing"
free=$(df -Pk "$CACHE" | awk 'NR == 2 { print int($4 / 1000) }')
[ "$free" -ge "$room" ] || die "there is no room for the Debian folder" "it needs $room MB in $CACHE, and $free are free; FIRSTLIGHT_CACHE=FOLDER names another place"
total=$(wc -l < "$work/missing")
[ "$total" != 0 ] || exit 0

# keep FILE HASH PATH
keep() { proven "$1" "$2" || die "$(basename "$3") is not the locked file" "expected SHA256 $2"; mv "$1" "$3"; }

if [ -n "$from" ]; then
    [ -f "$from" ] || die "there is no archive $from" "'just vendor' makes it, where there is a network"
    say "making a Debian 13 folder: taking $total packages from $from"
    awk '{ sub(/.*\//, "", $2); print "firstlight-inputs/debs/" $2 }' "$work/missing" > "$work/names"
    tar --extract --file="$from" --directory="$work" --no-same-owner --files-from="$work/names" 2> "$work/log" ||
        die "$from does not have the packages of the Debian folder" "it is damaged, or was made with another image/inputs.lock: $(head -1 "$work/log")"
    while read -r hash path _; do keep "$work/firstlight-inputs/debs/$(basename "$path")" "$hash" "$path"; done < "$work/missing"
    exit 0
fi

get() {
    if command -v curl > /dev/null; then curl -fsSL --retry 3 --connect-timeout 20 -o "$2" "$1"
    else wget -nv --tries=3 --timeout=20 -O "$2" "$1"; fi 2> "$work/log" < /dev/null
}
archive=$(mirror_archive)
[ -n "$archive" ] || die "this system builds in a Debian 13 folder, and no Debian archive is named" \
    "three ways on: install debootstrap (dnf, apt-get, pacman and zypper know it by this name), whose default archive is used; FIRSTLIGHT_ARCHIVE=URL, a mirror of Debian near you; './run image --offline FILE' with an archive of inputs that 'just vendor' made"
url=${archive##*] } url=${url%/}
say "making a Debian 13 folder: $total packages from $url"
get "$url/dists/trixie/main/binary-amd64/Packages.xz" "$work/Packages.xz" ||
    die "$url has no list of Debian 13's packages" "is it the URL of a Debian archive, and is there a network? $(tail -1 "$work/log")"
xz -dc "$work/Packages.xz" 2> "$work/log" | awk '$1 == "Filename:" { file = $2 } $1 == "SHA256:" { print $2, file }' > "$work/index" ||
    die "$url does not give a list of Debian 13's packages" "$(tail -1 "$work/log")"
gone=$(awk 'FILENAME == ARGV[1] { there[$1]; next } !($1 in there) { printf ", %s %s", $3, $4 }' "$work/index" "$work/missing")
[ -z "$gone" ] || die_gone "$url" "${gone#, }"
count=0
while read -r hash path _; do
    count=$(( count + 1 ))
    (( count % 25 )) || say "$count of $total packages"
    file=$(awk -v hash="$hash" '$1 == hash { print $2; exit }' "$work/index")
    get "$url/$file" "$work/deb" || die "cannot download $url/$file" "run it again to continue from here: $(tail -1 "$work/log")"
    keep "$work/deb" "$hash" "$path"
done < "$work/missing"
