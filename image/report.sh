#!/usr/bin/env bash
# report.sh COMMAND..: runs a build of the image, and prints where its seconds went, and which GPUs the image drives.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
source "$REPO/image/driver/describe.sh"
# What came before, such as finding the driver (driver/sources/with.sh), has noted its seconds in the file already.
FIRSTLIGHT_SECONDS=${FIRSTLIGHT_SECONDS:-$(mktemp)}
export FIRSTLIGHT_SECONDS
trap 'rm -f "$FIRSTLIGHT_SECONDS"' EXIT
: >> "$FIRSTLIGHT_SECONDS"
began=$(( $(date +%s) - $(awk '{ all += $2 } END { print all + 0 }' "$FIRSTLIGHT_SECONDS") ))
"$@"
if [ -s "$FIRSTLIGHT_SECONDS" ]; then
    say "seconds: $(awk '$2 > 0 { printf "%s %s, ", $1, $2 }' "$FIRSTLIGHT_SECONDS")together $(( $(date +%s) - began )) (the programs are built beside the driver)"
fi
if [ -z "$DRIVER_FILE" ]; then with_scripts python3 -B scripts/description/describe.py drives none >&2
else
    DRIVER_FILE=$(realpath "$DRIVER_FILE")
    with_scripts --bind "$DRIVER_FILE:/build/$(basename "$DRIVER_FILE")" python3 -B scripts/description/describe.py drives "$(basename "$DRIVER_FILE")" >&2
fi
