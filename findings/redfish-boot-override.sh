#!/usr/bin/env bash
# The Redfish emulator takes "Once" and shows "Continuous", takes targets that it does not offer, and refuses "Disabled".
#
# sushy-tools 2.2.0, fake driver.
# Expected from memory: what was written is read back; a target outside AllowableValues is refused; Disabled takes it back.
# Seen: BootSourceOverrideEnabled is Continuous after every write. The target Usb, which is not among the allowable values, gets
#   204 and is shown. A PATCH with Disabled alone gets 400.
# Who is hurt: who tests network boot for one start against the emulator, and takes it for a management controller.
# Output:
#   204 Pxe Continuous
#   204 Usb Continuous
#   400 Usb Continuous
set -euo pipefail
. "$(dirname "$0")/lib.sh"

needs curl
wheels sushy-tools==2.2.0
port=$((20000 + $$ % 10000))
cat > emulator.conf << EOF
SUSHY_EMULATOR_LISTEN_IP = "127.0.0.1"
SUSHY_EMULATOR_LISTEN_PORT = $port
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_FAKE_SYSTEMS = [{"uuid": "00000000-0000-0000-0000-000000000001", "name": "node", "power_state": "Off", "nics": []}]
EOF
PYTHONPATH=$PWD/python python3 python/bin/sushy-emulator --config emulator.conf --fake > emulator.log 2>&1 &
emulator=$!
trap 'kill "$emulator" 2> /dev/null || true; rm -rf "$work"' EXIT
node=http://127.0.0.1:$port/redfish/v1/Systems/00000000-0000-0000-0000-000000000001
for _ in $(seq 60); do curl --silent --fail "$node" > /dev/null && break; sleep 0.5; done
curl --silent --fail "$node" > /dev/null || skip "the emulator does not start: $(tail -1 emulator.log)"
seen=
for boot in '"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"' \
    '"BootSourceOverrideTarget":"Usb","BootSourceOverrideEnabled":"Once"' '"BootSourceOverrideEnabled":"Disabled"'; do
    status=$(curl --silent -o said -w '%{http_code}' -X PATCH -H 'Content-Type: application/json' "$node" -d "{\"Boot\":{$boot}}")
    seen+="$status $(curl --silent "$node" | python3 -c 'import json, sys
boot = json.load(sys.stdin)["Boot"]
print(boot["BootSourceOverrideTarget"], boot["BootSourceOverrideEnabled"])')"$'\n'
done
printf '%s' "$seen"
is "what is shown" "$seen" $'204 Pxe Continuous\n204 Usb Continuous\n400 Usb Continuous\n'
