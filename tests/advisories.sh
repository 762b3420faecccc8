#!/usr/bin/env bash
# advisories.sh [--offline]: holds the locked crates against RustSec's database of advisories,
# at the commit below. The database and cargo-audit lie in target/tools; what is missing is fetched and built, with --offline
# it is an error with status 3. FIRSTLIGHT_ADVISORIES=URL or folder names another copy of the database's repository.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=bf5c0d245a92671908518d7e765914d437954ed6 day=2026-08-21
audit="0.22.2 700c2b240f7fd330c24b675fe429f73a5b676531fcc6300400b2b67f155ba12a"
# Days after which the age is a warning; it fails nothing, because the same commit must give the same result.
old=30
from=${FIRSTLIGHT_ADVISORIES:-https://github.com/RustSec/advisory-db}
tools=target/tools database=target/tools/advisory-db

# missing WHAT: with --offline the end
missing() {
    echo "advisories: $1 is missing" >&2
    [ "$offline" = no ] || exit 3
}
offline=no
case ${1:-} in '') ;; --offline) offline=yes ;; *) echo "advisories: read '$1'; allowed: --offline" >&2; exit 64 ;; esac

if [ "$("$tools/bin/cargo-audit" --version 2> /dev/null)" != "cargo-audit ${audit% *}" ]; then
    missing "cargo-audit ${audit% *}"
fi
# shellcheck disable=SC2086  # version and hash
[ "$offline" = yes ] || image/lib/cargo-tool.sh cargo-audit $audit --no-default-features
if [ "$(cat "$database/.commit" 2> /dev/null)" != "$commit" ]; then
    missing "the database of advisories of $day"
    echo "advisories: fetching the database of $day" >&2
    work=$(mktemp -d -p "$tools")
    trap 'rm -rf "$work"' EXIT
    git -C "$work" init -q
    git -C "$work" fetch -q --depth 1 "$from" "$commit"
    git -C "$work" checkout -q FETCH_HEAD
    echo "$commit" > "$work/.commit"
    rm -rf "$database"
    mv "$work" "$database"
fi
"$tools/bin/cargo-audit" audit --quiet --no-fetch --stale --db "$database" --file Cargo.lock --deny warnings
age=$(( ($(date +%s) - $(date -d "$day" +%s)) / 86400 ))
echo "advisories: none against the crates of Cargo.lock, as of $day, $age days ago"
[ "$age" -le "$old" ] ||
    echo "advisories: warning: the database is older than $old days: what was found since is not in it; pin a newer commit in tests/advisories.sh" >&2
