#!/usr/bin/env bash
# NCCL reads /etc/nccl.conf also where NCCL_CONF_FILE names another file, and a missing file there is no error.
#
# NCCL 2.26.5 and 2.32.3 (nvidia-nccl-cu12), alike.
# Expected from memory: NCCL_CONF_FILE replaces both other files, so /dev/null there means: no file at all.
# Seen: it replaces only the one in the home directory. /etc/nccl.conf is read after it, for names that are still unset. If
#   the named file does not exist, nothing is said, and the home directory's file is not read either.
# Who is hurt: who measures with NCCL_CONF_FILE=/dev/null and believes the site's settings gone; who misspells the path.
# Needs root, for an /etc of its own.
# Output (named file, /dev/null, missing file):
#   set 'NCCL_X=named' set 'NCCL_ETC=1'
#   set 'NCCL_X=etc' set 'NCCL_ETC=1'
#   set 'NCCL_X=etc' set 'NCCL_ETC=1'
set -euo pipefail
. "$(dirname "$0")/lib.sh"

nccl 2.26.5
nccl 2.32.3
printf 'NCCL_X=named\n' > named.conf
seen=$(alone '
    printf "NCCL_X=etc\nNCCL_ETC=1\n" > /etc/nccl.conf
    for version in 2.26.5 2.32.3; do
        for file in "$PWD/named.conf" /dev/null "$PWD/missing.conf"; do
            unique_id "$version" NCCL_DEBUG=WARN NCCL_CONF_FILE="$file" | grep -v "NCCL_DEBUG\|NCCL_CONF_FILE" | paste -sd " "
        done
    done')
echo "$seen"
three="status no error set 'NCCL_X=named' set 'NCCL_ETC=1'
status no error set 'NCCL_X=etc' set 'NCCL_ETC=1'
status no error set 'NCCL_X=etc' set 'NCCL_ETC=1'"
is "what both versions set" "$seen" "$three
$three"
