#!/usr/bin/env bash
# check.sh RESOLVED FRAGMENT..: fails if a requested option did not survive into RESOLVED, and names each: kconfig
# silently drops an option that depends on one that is off. Also fails if a mitigation of a processor fault is off, whether a
# fragment names it or not: a new kernel brings new ones.
set -euo pipefail
resolved=$1; shift
awk -v resolved="$resolved" '
    BEGIN {
        while ((getline line < resolved) > 0) {
            if (match(line, /^CONFIG_[A-Za-z0-9_]+=/)) have[substr(line, 1, RLENGTH - 1)] = substr(line, RLENGTH + 1)
            if (line ~ /^# CONFIG_MITIGATION_[A-Z0-9_]+ is not set$/) {
                split(line, word, " ")
                printf "%s: %s is off: this mitigation of a processor fault must be on\n", resolved, word[2] > "/dev/stderr"; bad = 1
            }
        }
        if (!length(have)) { print resolved ": not a kernel configuration" > "/dev/stderr"; bad = 1; exit 1 }
    }
    /^CONFIG_[A-Za-z0-9_]+=/ {
        name = substr($0, 1, index($0, "=") - 1); want = substr($0, index($0, "=") + 1)
        got = (name in have) ? have[name] : "not set"
        if (got != want) { printf "%s:%d: %s: requested %s, resolved to %s\n", FILENAME, FNR, name, want, got > "/dev/stderr"; bad = 1 }
    }
    /^# CONFIG_[A-Za-z0-9_]+ is not set$/ && ($2 in have) {
        printf "%s:%d: %s: requested not set, resolved to %s\n", FILENAME, FNR, $2, have[$2] > "/dev/stderr"; bad = 1
    }
    END { exit bad }
' "$@"
