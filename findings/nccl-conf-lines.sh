#!/usr/bin/env bash
# nccl.conf: blanks, quotation marks and remarks belong to the name or the value, and the first of two equal lines wins.
#
# NCCL 2.26.5 and 2.32.3 (nvidia-nccl-cu12), alike.
# Expected from memory: as in most such files, blanks around `=` do not count, ` # ..` ends a value, and the last line wins.
# Seen: each line is taken as it stands. `NCCL_A = 1` sets a variable whose name ends in a blank, so NCCL_A stays unset;
#   `eth0 # fast` is looked for as an interface; `export` becomes part of the name. NCCL says nothing about it.
# Who is hurt: sites that switch peer-to-peer off, or name an interface, in /etc/nccl.conf with a neat or explained line.
# Output:
#   set 'NCCL_A = 1'
#   set 'NCCL_B=1 # why'
#   set 'NCCL_C="quoted"'
#   set 'NCCL_D=first'
#   set 'export NCCL_E=1'
set -euo pipefail
. "$(dirname "$0")/lib.sh"

cat > nccl.conf << 'EOF'
# NCCL_REMARK=1
NCCL_A = 1
NCCL_B=1 # why
NCCL_C="quoted"
NCCL_D=first
NCCL_D=second
export NCCL_E=1
EOF
for version in 2.26.5 2.32.3; do
    nccl "$version"
    seen=$(unique_id "$version" NCCL_CONF_FILE="$PWD/nccl.conf" | grep '^set' | grep -v NCCL_CONF_FILE)
    printf 'NCCL %s\n%s\n' "$version" "$seen"
    is "what $version sets" "$seen" "set 'NCCL_A = 1'
set 'NCCL_B=1 # why'
set 'NCCL_C=\"quoted\"'
set 'NCCL_D=first'
set 'export NCCL_E=1'"
    rm -r "nccl-$version"
done
