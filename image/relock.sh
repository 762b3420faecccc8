#!/usr/bin/env bash
# Renews image/inputs.lock from image/packages/*.list: asks the host's own archive for the newest
# trixie version of every package, and for the two tool trees also for what those depend on.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
source "$REPO/image/lib/mirror.sh"
mirror_setup

names() { sed 's/#.*//' "$REPO/image/packages/$1.list" | awk 'NF { print $1 }'; }

# USE APT-VERB NAMES..: what apt would fetch, as lock lines. `--print-uris` gives
# 'URI' FILE SIZE SHA256:HASH, with the version's colon as %3a in FILE.
lines() {
    local use=$1; shift
    apt-get "${APT_OPTIONS[@]}" -o Acquire::ForceHash=SHA256 -qq -y --no-install-recommends --print-uris "$@" |
        awk -v use="$use" '{
            split($2, part, "_"); sub(/\.deb$/, "", part[3]); gsub(/%3a/, ":", part[2])
            sub(/^SHA256:/, "", $4)
            print use, part[1], part[2], part[3], $3, $4 }' | LC_ALL=C sort
}

new=$(mktemp); trap 'rm -f "$new"' EXIT
{
    echo "# Every package that goes into a build. Made by 'just relock'; not edited by hand."
    echo "# USE NAME VERSION ARCHITECTURE BYTES SHA256"
    lines source download $(names source)
    lines image download $(names image)
    lines compiler install $(names compiler)
    lines tools install $(names tools)
} > "$new"
awk '!/^#/ && (NF != 6 || length($6) != 64) { exit 1 }' "$new" || die "the archive gave an incomplete answer" "run it again"
touch "$LOCK"
diff -u "$LOCK" "$new" | grep '^[-+][a-z]' || say "nothing newer"
cp "$new" "$LOCK"
