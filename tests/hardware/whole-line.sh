#!/usr/bin/env bash
# whole-line.sh ROOT LIBRARIES [LEVEL]: starts the shipped /init as process 1 of fresh namespaces over the
# shipped root (unpack-image made it) on a GPU machine that runs a driver of its own, whose libraries lie in
# LIBRARIES, and shows that it goes from mounts to hand-over with a report. The machine's settings stay as
# they are: the driver is not loaded, ACS and BARs are not touched. Needs root and util-linux.
# Exit status: 0 the workload ran with a report, 1 it did not.
set -euo pipefail
root=${1:?which root?} libraries=${2:?which folder holds the driver libraries?} level=${3:-standard}
[ -x "$root/init" ] || { echo "whole-line: error: $root/init is not there; make it with unpack-image" >&2; exit 1; }
[ -e "$libraries/libcuda.so.1" ] || { echo "whole-line: error: no libcuda.so.1 in $libraries" >&2; exit 1; }
mkdir -p "$root/opt/driver" "$root/etc/firstlight/config.d" "$root/kept"
cat > "$root/etc/firstlight/config.d/50-whole-line.toml" << TOML
[driver]
load = false
[fabric]
iommu = "firmware"
acs = "off"
rebar = "check"
[validate]
level = "$level"
library_path = ["/opt/driver"]
[policy]
on_fail = "workload-without-p2p"
on_error = "workload-without-p2p"
[workload]
mode = "exec"
exec = ["/bin/sh", "-c", "cp /run/firstlight/* /kept/; env > /kept/environment; echo the workload runs as $\$"]
on_exit = "poweroff"
lock_modules = false
TOML
# What init does at its end (power off) ends the namespace and nothing else.
timeout 180 unshare --pid --mount --uts --net --ipc --fork --kill-child sh -euc '
    mount --bind "$1" "$2/opt/driver"
    exec chroot "$2" /init' sh "$libraries" "$root" < /dev/null || echo "whole-line: init ended with status $?"
[ -s "$root/kept/report.json" ] && [ -s "$root/kept/environment" ] ||
    { echo "whole-line: error: no workload ran, or it found no report" >&2; exit 1; }
grep -o '"verdict": *"[A-Z]*"' "$root/kept/report.json" | head -1
