#!/usr/bin/env bash
# Slurm 22.05 refuses host lists with text behind the brackets, as n[1-2]-ib; 24.11 takes them.
#
# slurm-client 22.05.8 (Debian 12) and 24.11.5 (Debian 13).
# Expected from memory: brackets may be anywhere in a name, in all versions.
# Seen: 22.05.8 prints "Invalid hostlist"; with several brackets (n[1-2]x[1-2]) both agree.
# Who is hurt: sites whose names for the data network end in a suffix, and scripts that move between versions.
# Output:
#   bookworm Invalid hostlist: n[1-2]-ib
#   trixie n1-ib n2-ib
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3
debian trixie slurm-client=24.11.5-4+deb13u1 slurm-wlm-basic-plugins=24.11.5-4+deb13u1
seen=
for suite in bookworm trixie; do
    plugins=$(find "$PWD/$suite" -type d -path '*lib/x86_64*' -name 'slurm-wlm*' | head -1)
    printf '%s\n' ClusterName=x SlurmctldHost=localhost NodeName=n AuthType=auth/none "PluginDir=$plugins" > "$suite.conf"
    seen+="$suite $(SLURM_CONF=$PWD/$suite.conf of "$suite" scontrol show hostnames 'n[1-2]-ib' 2>&1 | paste -sd ' ')"$'\n'
done
printf '%s' "$seen"
is "the names" "$seen" 'bookworm Invalid hostlist: n[1-2]-ib
trixie n1-ib n2-ib
'
