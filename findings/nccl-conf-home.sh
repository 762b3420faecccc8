#!/usr/bin/env bash
# Which .nccl.conf NCCL reads: up to 2.29 that of the account's home directory, from 2.30 on that of HOME.
#
# NCCL 2.29.7 and 2.30.7 (nvidia-nccl-cu12).
# Expected from memory: that of HOME, in all versions.
# Seen: 2.29.7 asks the password database and ignores HOME; 2.30.7 reads $HOME/.nccl.conf, and none where HOME is unset.
# Who is hurt: services and containers without HOME, which lose their settings with an update; jobs that set HOME, and whose
#   own .nccl.conf is read only since 2.30.
# Needs root, for an /etc of its own.
# Output (HOME set, HOME unset):
#   2.29.7 set 'NCCL_X=account'
#   2.29.7 set 'NCCL_X=account'
#   2.30.7 set 'NCCL_X=HOME'
#   2.30.7
set -euo pipefail
. "$(dirname "$0")/lib.sh"

nccl 2.29.7
nccl 2.30.7
mkdir account home
echo NCCL_X=account > account/.nccl.conf
echo NCCL_X=HOME > home/.nccl.conf
seen=$(alone '
    sed -i "s#^\(root:.*\):/root:#\1:$PWD/account:#" /etc/passwd
    for version in 2.29.7 2.30.7; do
        for home in "HOME=$PWD/home" --unset=HOME; do
            echo "$version" $(unique_id "$version" "$home" | grep "^set" || true)
        done
    done')
echo "$seen"
is "the file that is read" "$seen" "2.29.7 set 'NCCL_X=account'
2.29.7 set 'NCCL_X=account'
2.30.7 set 'NCCL_X=HOME'
2.30.7"
