#!/usr/bin/env bash
# run-all.sh [NAME..]: runs every finding, or the named ones, and prints a line for each; status 1 if a behaviour has changed.
# What a script needs is fetched into temporary folders; the archive's lists are fetched once for all.
set -euo pipefail
cd "$(dirname "$0")"
FINDINGS_LISTS=$(mktemp -d)
export FINDINGS_LISTS
trap 'rm -rf "$FINDINGS_LISTS"' EXIT
[ $# -gt 0 ] || set -- *.sh
as=0 changed=0 skipped=0
for name in "$@"; do
    name=${name%.sh}
    case $name in lib | run-all) continue ;; esac
    from=$SECONDS status=0
    timeout 900 "./$name.sh" > "$FINDINGS_LISTS/output" 2>&1 < /dev/null || status=$?
    case $status in
        0) as=$((as + 1)) word=as-described ;;
        77) skipped=$((skipped + 1)) word=cannot-run ;;
        *) changed=$((changed + 1)) word=CHANGED ;;
    esac
    printf '%-12s  %-30s %4d s\n' "$word" "$name" $((SECONDS - from))
    [ "$status" = 0 ] || sed 's/^/    /' "$FINDINGS_LISTS/output" | tail -20
done
echo "$as as described, $changed changed, $skipped cannot run here"
[ "$changed" = 0 ]
