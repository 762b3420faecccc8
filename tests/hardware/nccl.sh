#!/usr/bin/env bash
# nccl.sh FIRSTLIGHT LIBRARIES [LEVEL]: on a machine with two or more GPUs, whose driver and NCCL are in LIBRARIES
# (folders separated by :), shows that NCCL's tests leave no process and no file in /dev/shm behind: after a run, and
# after firstlight, its worker or a process of an arm was killed at several moments; and that settings from outside
# (the caller's environment, /etc/nccl.conf) are reported and change no arm. The machine's own /etc is not changed.
# Needs root, python3 and util-linux. Exit status: 0 all as expected, 1 not, 2 nothing could be tested.
set -euo pipefail
source=$(realpath "${1:?which firstlight?}") libraries=${2:?which folders contain the libraries of driver and NCCL?}
level=${3:-standard}
# Seconds after the first process of an arm exists: CUDA starts, NCCL starts, collectives run.
moments=(0 0.3 1 2)
# A kill may take the kernel this long, since it first frees the memory of all GPUs.
grace_s=15
# The maximum duration of a run; firstlight's own deadlines are shorter.
longest_s=400
tests=nccl,nccl-allreduce,nccl-collective,nccl-processes
summary=$(cd "$(dirname "$0")" && pwd)/faults/said.py
work=$(mktemp -d)
# The program is copied, so that its processes can be recognised by their executable, whatever their parent is.
program=$work/firstlight
cp "$source" "$program"
report=$work/report.json bad=0 pid=

die() { echo "nccl.sh: error: $*" >&2; exit 2; }
wrong() { echo "WRONG $*"; bad=1; }
[ "$(id -u)" = 0 ] || die "needs root, for a private mount over /etc"

# [WORD]: process ids of the program, or only those whose first argument is WORD.
ours() {
    local folder words
    find /proc/[0-9]*/exe -maxdepth 0 -lname "$program" -printf '%h\n' 2> /dev/null | while read -r folder; do
        mapfile -t -d '' words 2> /dev/null < "$folder/cmdline" || continue
        [ -n "${1:-}" ] && [ "${words[1]:-}" != "$1" ] || echo "${folder#/proc/}"
    done || true
}

# shellcheck disable=SC2317 # the trap calls it
finish() {
    local left
    for left in $(ours); do kill -KILL "$left" 2> /dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

shared() { find /dev/shm -maxdepth 1 -name 'nccl-*' | sort; }
before=$(shared)

# WHAT: checks that nothing of the program is left, after some time.
nothing_left() {
    local processes files due=$((SECONDS + grace_s))
    while processes=$(ours | tr '\n' ' ') && [ -n "$processes" ] && [ "$SECONDS" -lt "$due" ]; do sleep 0.1; done
    [ -z "$processes" ] || wrong "$1: after $grace_s s these processes are left: $processes"
    files=$(comm -13 <(echo "$before") <(shared) | tr '\n' ' ')
    [ -z "$files" ] || wrong "$1: left in /dev/shm: $files"
    # Leftovers of this run must not be counted again.
    for processes in $processes; do kill -KILL "$processes" 2> /dev/null || true; done
    before=$(shared)
    [ -n "$files" ] || [ -n "$processes" ] || echo "ok    $1: nothing is left"
}

# [COMMAND..]: starts the tests, through COMMAND if given, and sets pid to the process id.
begin() {
    rm -f "$report"
    timeout --foreground --kill-after=10 "$longest_s" "$@" "$program" --set "validate.library_path=[\"${libraries//:/\",\"}\"]" \
        validate --level "$level" --only "$tests" --json "$report" < /dev/null > "$work/out" 2> "$work/err" &
    pid=$!
}

# Waits for the tests to end.
end() { wait "$pid" 2> /dev/null || true; }

# ID: one line of what the report contains about a test.
of() { "$summary" "$report" "$1"; }

# A clean run, with which the others are compared.
begin
end
nothing_left "a run"
clean=$(of nccl-allreduce)
echo "      nccl $(of nccl | cut -c 1-150)"
echo "      nccl-allreduce $(cut -c 1-150 <<< "$clean")"
grep -qE '^(pass|warn): ' <<< "$clean" || { tail -5 "$work/err" >&2; die "nccl-allreduce does not pass here"; }
! grep -q NCCL-SETTINGS <<< "$(of nccl) $clean" || die "this machine has its own NCCL settings: remove them first"

# WHO MOMENT: the process id of WHO, MOMENT seconds after the first process of an arm exists.
victim() {
    local rank='' due=$((SECONDS + 60))
    until read -r rank < <(ours rank); do
        if [ "$SECONDS" -ge "$due" ] || ! kill -0 "$pid" 2> /dev/null; then return; fi
        sleep 0.02
    done
    sleep "$2"
    [ -e "/proc/$rank" ] || read -r rank < <(ours rank) || return 0
    case $1 in
    firstlight) ours --set ;;
    worker) awk '/^PPid:/ { print $2 }' "/proc/$rank/status" 2> /dev/null ;;
    # The youngest: its arm is still in use, so its end must be reported.
    rank) ours rank | sort -n | tail -1 ;;
    esac
}

declare -A killed=([firstlight]=0 [worker]=0 [rank]=0)
for moment in "${moments[@]}"; do
    for who in firstlight worker rank; do
        begin
        it=$(victim "$who" "$moment") || true
        what="$who killed $moment s after an arm began"
        if [ -z "$it" ] || ! kill -KILL "$it" 2> /dev/null; then
            end
            echo "      $what: it was no longer there"
            continue
        fi
        killed[$who]=$((killed[$who] + 1))
        end
        nothing_left "$what"
        [ "$who" != firstlight ] || continue
        # The kill is reported and is no pass, except that a killed firstlight can report nothing.
        outcomes=$(for id in ${tests//,/ }; do of "$id"; done)
        grep -qE '^(error|fail): ' <<< "$outcomes" || wrong "$what: no test reports it: $(cut -c 1-100 <<< "$outcomes")"
    done
done

for who in "${!killed[@]}"; do
    [ "${killed[$who]}" -ge 2 ] || wrong "$who was only killed ${killed[$who]} times of ${#moments[@]}"
done

# WHAT: checks that the tests ended as in the clean run, and NCCL's log went nowhere else.
unchanged() {
    local now
    now=$(of nccl-allreduce)
    grep -qE '^(pass|warn): ' <<< "$now" || wrong "$1: changed an arm: nccl $(of nccl) nccl-allreduce $now"
    [ -z "$(find "$work" -name 'log.*')" ] || wrong "$1: NCCL wrote its log where the caller set it"
}

# Transports between GPUs forbidden, and a setting that changes nothing (it is NCCL's own default) but is foreign.
foreign=(NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_BUFFSIZE=4194304)
begin env "${foreign[@]}" NCCL_P2P_LEVEL=LOC NCCL_DEBUG_FILE="$work/log.%p" NCCL_HOSTID=elsewhere
end
nothing_left "the caller's environment"
unchanged "the caller's environment"

cp -a /etc "$work/etc"
printf '%s\n' "${foreign[@]}" > "$work/etc/nccl.conf"
begin unshare --mount --propagation private sh -euc "mount --bind '$work/etc' /etc; exec \"\$@\"" sh
end
nothing_left "/etc/nccl.conf"
unchanged "/etc/nccl.conf"
findings=$(of nccl; of nccl-allreduce)
if grep -q NCCL-SETTINGS <<< "$findings" && grep -q NCCL_BUFFSIZE <<< "$findings"; then
    echo "ok    /etc/nccl.conf: $(grep -o 'NCCL-SETTINGS [^|]*' <<< "$findings" | head -1 | cut -c 1-150)"
else
    wrong "/etc/nccl.conf: NCCL_BUFFSIZE is not reported by NCCL-SETTINGS: $(cut -c 1-300 <<< "$findings")"
fi
exit "$bad"
