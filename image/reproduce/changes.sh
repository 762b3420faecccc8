#!/usr/bin/env bash
# changes.sh OLD: prints how image/inputs.lock differs from the lock file OLD, for people: one line for each package of
# each use, `USE PACKAGE OLD -> NEW`, and below it the first point of the new package's changelog. It fetches the new
# packages for that, which the next build needs anyway.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"

# USE NAME OLD NEW ARCH; `-` if there is none.
changes=$(awk '
    /^#/ { next }
    FILENAME == ARGV[1] { version[$1, $2] = $3; hash[$1, $2] = $6; next }
    { seen[$1, $2] = 1 }
    !(($1, $2) in version) { print $1, $2, "-", $3, $4; next }
    hash[$1, $2] != $6 { print $1, $2, version[$1, $2], $3, $4 }
    END { for (key in version) if (!(key in seen)) { split(key, part, SUBSEP); print part[1], part[2], version[key], "-", "-" } }
' "$1" "$LOCK" | LC_ALL=C sort)
[ -n "$changes" ] || { say "nothing newer"; exit 0; }

# DEB NAME: the first point of the newest entry of its changelog, as one line.
newest() {
    local file text
    for file in changelog.Debian.amd64 changelog.Debian changelog; do
        text=$(dpkg-deb --fsys-tarfile "$1" 2> /dev/null | tar -xO "./usr/share/doc/$2/$file.gz" 2> /dev/null | gzip -dc 2> /dev/null | awk '
            /^[^ ]/ && ++entries > 1 { exit }
            /^ +\* Binary-only / { next }   # the next point says why
            /^ +\* / && ++points > 1 { exit }
            points && !/[^ ]/ { exit }
            points { sub(/^ +(\* )?/, ""); printf "%s%s", before, $0; before = " " }' || true)
        [ -z "$text" ] || { echo "$text"; return; }
    done
}

fetchable=$(awk '$4 != "-" { print $1 "/" $2 }' <<< "$changes")
# shellcheck disable=SC2086  # a list
[ -z "$fetchable" ] || "$REPO/image/fetch.sh" $fetchable || say "the new packages could not be fetched: their changelogs are unknown"
while read -r use name old new arch; do
    case $old$new in
        -*) echo "$use $name added $new" ;;
        *-) echo "$use $name $old removed"; continue ;;
        *) echo "$use $name $old -> $new$([ "$old" != "$new" ] || echo ', other bytes')" ;;
    esac
    deb=$(deb_path "$name" "$new" "$arch") text=
    case $arch in source | wheel) ;; *) [ ! -e "$deb" ] || text=$(newest "$deb" "$name") ;; esac
    if [ ${#text} -gt 110 ]; then text="${text:0:108}.."; fi
    echo "    ${text:-unknown: there is no changelog in this package}"
done <<< "$changes"
