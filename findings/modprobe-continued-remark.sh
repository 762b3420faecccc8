#!/usr/bin/env bash
# A remark in modprobe's configuration that ends in a backslash swallows the next line.
#
# kmod 30 (Debian 12) and 34.2 (Debian 13), alike.
# Expected from memory: a remark ends at the end of its line.
# Seen: lines are joined before remarks are recognized; the options on the next line are never read, and nothing is said.
# Who is hurt: remarks that show a command over several lines, or a path that ends in a backslash.
# Output:
#   bookworm: NVreg_B=1
#   trixie: NVreg_B=1
set -euo pipefail
. "$(dirname "$0")/lib.sh"

modules nvidia
printf '%s\n' '# set after: modprobe -r nvidia \' 'options nvidia NVreg_A=1' 'options nvidia NVreg_B=1' > configuration/a.conf
seen=$(loads nvidia)
echo "$seen"
is "the options" "$seen" "bookworm: NVreg_B=1
trixie: NVreg_B=1"
