#!/usr/bin/env bash
# resolve-here.sh: resolves the fragments and stores the result as resolved.config; shows what changed.
set -euo pipefail
source "$(dirname "$0")/../image/lib/common.sh"
scratch=$(mktemp -d "$CACHE/resolve.XXXXXX"); trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/out"
"$REPO/kernel-config/source.sh" "$scratch/source" compiler
"$REPO/image/in-tools.sh" compiler --bind "$scratch/source:/build/source" --bind "$scratch/out:/build/out" \
    --bind "$REPO/kernel-config:/build/kernel-config" /build/kernel-config/resolve.sh /build/source /build/out off
diff -u "$REPO/kernel-config/resolved.config" "$scratch/out/.config" || cp "$scratch/out/.config" "$REPO/kernel-config/resolved.config"
