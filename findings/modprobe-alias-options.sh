#!/usr/bin/env bash
# Options of an alias reach the module only where it is loaded by that alias, and options of NAME.ko never do.
#
# kmod 30 (Debian 12) and 34.2 (Debian 13), alike.
# Expected from memory: an alias is resolved first, so its options count however the module is loaded.
# Seen: `options gpu` counts for `modprobe gpu` alone. Another module that depends on nvidia loads it without them.
# Who is hurt: settings that are in force after a load by hand and missing after a boot.
# Output (modprobe nvidia, modprobe gpu):
#   bookworm: NVreg_B=1 / NVreg_A=1 NVreg_B=1
#   trixie: NVreg_B=1 / NVreg_A=1 NVreg_B=1
set -euo pipefail
. "$(dirname "$0")/lib.sh"

modules nvidia
printf '%s\n' 'alias gpu nvidia' 'options gpu NVreg_A=1' 'options nvidia NVreg_B=1' 'options nvidia.ko NVreg_C=1' > configuration/a.conf
seen=$(loads nvidia; loads gpu | sed 's#insmod .*/nvidia.ko *##')
echo "$seen"
is "the options" "$seen" "bookworm: NVreg_B=1
trixie: NVreg_B=1
bookworm: NVreg_A=1 NVreg_B=1
trixie: NVreg_A=1 NVreg_B=1"
