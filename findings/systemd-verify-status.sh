#!/usr/bin/env bash
# systemd-analyze verify ends with status 0 for a unit with unknown sections, unknown keys and values that it cannot parse.
#
# systemd 257.13 (Debian 13).
# Expected from memory: verify fails for what systemd will ignore.
# Seen: a warning for each ("Unknown key .., ignoring"), and status 0.
# Who is hurt: packages whose unit is tested by the status: RequiredBy in a misspelt [Instal] starts nothing before the workload.
# Output:
#   0 Unknown section 'Instal'. Ignoring.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian trixie systemd=257.13-1~deb13u1
printf '%s\n' '[Unit]' Descripton=x '[Service]' ExecStart=/bin/true TimeoutStartSec=soon '[Instal]' RequiredBy=x.service > test.service
status=0
seen=$(of trixie systemd-analyze verify "$PWD/test.service" 2>&1) || status=$?
echo "$status $seen"
is "status" "$status" 0
has "$seen" "Unknown key 'Descripton'"
has "$seen" "Failed to parse TimeoutStartSec="
has "$seen" "Unknown section 'Instal'"
