#!/usr/bin/env bash
# NCCL_DEBUG=ABORT prints as much as INFO, and a level that NCCL does not know prints nothing, not even errors.
#
# NCCL 2.26.5 and 2.32.3 (nvidia-nccl-cu12), alike but for a blank behind the word, which 2.32 drops.
# Expected from memory: ABORT is the quietest level that still says why a program ends; an unknown word falls back to WARN.
# Seen: the levels are ordered NONE, VERSION, WARN, INFO, ABORT, TRACE. DEBUG, 3 and "INFO,WARN" are taken for no level.
# Who is hurt: who sets NCCL_DEBUG=DEBUG to find a fault, and sees nothing where WARN would have named the cause.
# Output (lines of the log for each word; the interface asked for does not exist):
#   WARN 1, INFO 2 or more, ABORT as INFO, DEBUG 0, 3 0, INFO,WARN 0
set -euo pipefail
. "$(dirname "$0")/lib.sh"

for version in 2.26.5 2.32.3; do
    nccl "$version"
    declare -A lines=()
    for word in WARN INFO ABORT DEBUG 3 INFO,WARN; do
        lines[$word]=$(unique_id "$version" NCCL_DEBUG="$word" NCCL_SOCKET_IFNAME==none | grep -c 'NCCL WARN\|NCCL INFO' || true)
        echo "$version $word ${lines[$word]}"
    done
    is "lines with ABORT in $version" "${lines[ABORT]}" "${lines[INFO]}"
    [ "${lines[INFO]}" -gt "${lines[WARN]}" ] && [ "${lines[WARN]}" -gt 0 ] || changed "$version: INFO is not more than WARN"
    is "lines with unknown words in $version" "${lines[DEBUG]} ${lines[3]} ${lines[INFO,WARN]}" "0 0 0"
    rm -r "nccl-$version"
done
