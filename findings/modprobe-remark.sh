#!/usr/bin/env bash
# modprobe passes a remark behind options to the module, and NAME=VALUE in the remark sets a parameter.
#
# kmod 30 (Debian 12) and 34.2 (Debian 13), alike.
# Expected from memory: what follows # is a remark, anywhere on a line.
# Seen: # begins a remark only at the start of a line. The kernel ignores words that it does not know, and takes the last of
#   two equal names, so `NVreg_A=1 # was NVreg_A=0` sets 0.
# Who is hurt: who notes the earlier value beside the new one.
# Output:
#   bookworm: NVreg_A=1 # was NVreg_A=0
#   trixie: NVreg_A=1 # was NVreg_A=0
set -euo pipefail
. "$(dirname "$0")/lib.sh"

modules nvidia
echo 'options nvidia NVreg_A=1 # was NVreg_A=0' > configuration/a.conf
seen=$(loads nvidia)
echo "$seen"
is "the options" "$seen" "bookworm: NVreg_A=1 # was NVreg_A=0
trixie: NVreg_A=1 # was NVreg_A=0"
