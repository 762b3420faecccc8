# What every build script shares. Sourced, after `set -euo pipefail`.

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CACHE=${FIRSTLIGHT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/firstlight}
LOCK=$REPO/image/inputs.lock
# The date of everything that is built: when the pinned kernel was released. Not the build's date,
# so that the same inputs give the same bytes.
export SOURCE_DATE_EPOCH=1788000000
umask 022
mkdir -p "$CACHE"

say() { printf '%s\n' "firstlight: $*" >&2; }
die() { printf '%s\n' "firstlight: error: $1${2:+ ($2)}" >&2; exit 1; }

# Lock lines of one use: NAME VERSION ARCH SIZE SHA256
locked() { awk -v use="$1" '$1 == use { print $2, $3, $4, $5, $6 }' "$LOCK"; }

# Where the cache keeps a locked package: its hash is part of the name, so a stale file is never used.
deb_path() { echo "$CACHE/debs/$1_${2//:/%3a}_$3.deb"; }

# The hash of files and words: the name of everything in the cache.
hash_of() { cat -- "$@" | sha256sum | cut -c1-16; }
