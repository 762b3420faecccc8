#!/usr/bin/env bash
# whole-line.sh ROOT LIBRARIES [LEVEL]: starts the shipped /init as process 1 of new namespaces in the shipped root
# (made by unpack-image) on a GPU machine that runs its own driver, whose libraries and NCCL are in LIBRARIES (folders
# separated by :; NCCL needs a libstdc++.so.6 there too), and shows that it runs from mounts to hand-over with a
# report. The machine's settings are not changed: the driver is not loaded, ACS and BARs are not touched. Needs root
# and util-linux. Exit status: 0 the workload ran with a report, 1 it did not.
set -euo pipefail
root=${1:?which root?} libraries=${2:?which folders contain the libraries of driver and NCCL?} level=${3:-standard}
[ -x "$root/init" ] || { echo "whole-line: error: $root/init is missing; make it with unpack-image" >&2; exit 1; }
IFS=: read -ra folders <<< "$libraries"
for need in libcuda.so.1 libnccl.so.2; do
    for folder in "${folders[@]}"; do [ ! -e "$folder/$need" ] || continue 2; done
    echo "whole-line: error: no $need in $libraries" >&2
    exit 1
done
paths=
for n in "${!folders[@]}"; do
    mkdir -p "$root/opt/libraries/$n"
    paths+="${paths:+, }\"/opt/libraries/$n\""
done
mkdir -p "$root/etc/firstlight/config.d" "$root/kept"
cat > "$root/etc/firstlight/config.d/50-whole-line.toml" << TOML
[driver]
load = false
[fabric]
iommu = "firmware"
acs = "off"
rebar = "check"
[validate]
level = "$level"
library_path = [$paths]
[policy]
on_fail = "workload-without-p2p"
on_error = "workload-without-p2p"
[workload]
mode = "exec"
exec = ["/bin/sh", "-c", "cp /run/firstlight/* /kept/; env > /kept/environment; echo the workload runs as $\$"]
on_exit = "poweroff"
lock_modules = false
TOML
# init's final action (power off) ends only the namespace.
timeout 180 unshare --pid --mount --uts --net --ipc --fork --kill-child sh -euc '
    root=$1 n=0
    shift
    for folder in "$@"; do
        mount --bind "$folder" "$root/opt/libraries/$n"
        n=$((n + 1))
    done
    exec chroot "$root" /init' sh "$root" "${folders[@]}" < /dev/null || echo "whole-line: init ended with status $?"
[ -s "$root/kept/report.json" ] && [ -s "$root/kept/environment" ] ||
    { echo "whole-line: error: no workload ran, or it found no report" >&2; exit 1; }
grep -o '"verdict": *"[A-Z]*"' "$root/kept/report.json" | head -1
grep -x 'NCCL_NVLS_ENABLE=.*' "$root/kept/environment" || echo 'whole-line: the workload has no NCCL_NVLS_ENABLE'
