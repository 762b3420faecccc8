#!/usr/bin/env bash
# `scontrol show hostnames` only splits a text, and still needs the cluster's configuration.
#
# slurm-client 22.05.8 (Debian 12) and 24.11.5 (Debian 13), alike.
# Expected from memory: it works on any machine that has the program.
# Seen: without slurm.conf it asks the DNS for a server, and ends with a fatal error.
# Who is hurt: job scripts that split SLURM_JOB_NODELIST in a container, where slurm.conf is not mounted.
# Output:
#   scontrol: fatal: Could not establish a configuration source
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ ! -e /etc/slurm/slurm.conf ] || skip "this machine has a slurm.conf"
debian bookworm slurm-client=22.05.8-4+deb12u3
debian trixie slurm-client=24.11.5-4+deb13u1
for suite in bookworm trixie; do
    status=0
    seen=$(unset SLURM_CONF; of "$suite" scontrol show hostnames 'n[1-2]' 2>&1) || status=$?
    echo "$suite $status $(tail -1 <<< "$seen")"
    [ "$status" != 0 ] || changed "it needs no configuration"
    has "$seen" "Could not establish a configuration source"
done
