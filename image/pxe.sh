#!/usr/bin/env bash
# pxe.sh [--folder FOLDER] [--serve INTERFACE [--proxy]]: prints where the folder for network boot is, or serves it to the
# nodes on one interface until Ctrl-C: DHCP, TFTP and HTTP. FOLDER is another folder than that of `media`, for example the
# signed one. --proxy is for a network that already has a DHCP server and adds only the
# answers that PXE needs. Without it this machine assigns addresses, so the network must be a separate one.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
PATH=$PATH:/usr/sbin:/sbin
folder=$REPO/target/image/media/pxe interface='' proxy=''
port=8080
usage='pxe [--folder FOLDER] [--serve INTERFACE [--proxy]]'
while [ $# -gt 0 ]; do
    case $1 in
        --folder) [ -d "${2:-}" ] || die "--folder needs a folder; '${2:-}' is not one" "$usage; ${folder%/*/*}/signed/pxe is the signed one"; folder=$(cd "$2" && pwd); shift 2 ;;
        --serve) [ -n "${2:-}" ] || die "--serve needs an interface" "$usage; 'ip -brief address' shows them"; interface=$2; shift 2 ;;
        --proxy) proxy=1; shift ;;
        *) die "unknown word $1" "$usage" ;;
    esac
done
[ -e "$folder/SHA256SUMS" ] || die "there is nothing to serve in $folder" "just media"
if [ -z "$interface" ]; then
    [ -z "$proxy" ] || die "--proxy needs --serve" "$usage"
    say "ready to serve: ${folder#"$REPO"/} ($(du -shL "$folder" | cut -f1)); its README describes what to do with it"
    say "or serve it from here: just pxe --serve INTERFACE"
    exit 0
fi

ip link show dev "$interface" > /dev/null 2>&1 ||
    die "there is no interface $interface" "allowed: $(ip -oneline link show | awk -F': ' '{ sub(/@.*/, "", $2); print $2 }' | xargs)"
[ "$(id -u)" = 0 ] || die "DHCP and TFTP need root" "sudo image/pxe.sh --serve $interface"
command -v dnsmasq > /dev/null || die "dnsmasq is missing" "apt-get install dnsmasq-base"
own=$(ip -4 -oneline address show dev "$interface" scope global | awk 'NR == 1 { print $4 }')
[ -n "$own" ] || die "$interface has no IPv4 address" "for a separate network: ip address add 192.168.77.1/24 dev $interface; ip link set $interface up"
if [ -z "$proxy" ] && ip -4 route show default | grep -qw "dev $interface"; then
    die "$interface leads to the rest of the world, and this machine would give away addresses there" "use --proxy, or a separate interface"
fi
# SERVER FIRST LAST: our address, and the range of addresses to assign
read -r server first last < <(python3 - "$own" <<'END'
import ipaddress, sys
own = ipaddress.ip_interface(sys.argv[1])
net, me = own.network, int(own.ip)
low, high = int(net.network_address) + 1, int(net.broadcast_address) - 1
# the larger part of the network, below or above our own address
first, last = (me + 1, high) if high - me >= me - low else (low, me - 1)
print(own.ip, *((ipaddress.ip_address(n) for n in (first, last)) if first <= last else ("none", "none")))
END
)
[ -n "$proxy" ] || [ "$first" != none ] || die "$own has no room for nodes" "give $interface a larger network, such as /24"

work=$(mktemp -d /run/firstlight-pxe.XXXXXX)
servers=()
# shellcheck disable=SC2317  # called by the trap
stop() { trap - EXIT; kill "${servers[@]}" 2> /dev/null || true; wait; rm -rf "$work"; }
trap stop EXIT; trap 'exit 0' INT TERM
# dnsmasq drops its privileges, and the files that it serves may be in a folder that only the user can read
chmod 755 "$work"; install -m 0644 "$folder"/{undionly.kpxe,ipxe.efi} "$work/"
sed "s|@INTERFACE@|$interface|; s|@SERVER@|$server:$port|; s|@ADDRESS@|$server|; s|@FIRST@|$first|; s|@LAST@|$last|; s|@FOLDER@|$work|" "$folder/dnsmasq.conf" > "$work/dnsmasq.conf"
if [ -n "$proxy" ]; then
    # the last part of the example is for this case
    sed -i '/^dhcp-range\|^dhcp-boot\|^dhcp-option/d; s/^#: //' "$work/dnsmasq.conf"
fi
dnsmasq --test --conf-file="$work/dnsmasq.conf" 2> "$work/test" || die "dnsmasq refuses its configuration" "$(cat "$work/test")"
as=(); [ -z "${SUDO_UID:-}" ] || as=(setpriv "--reuid=$SUDO_UID" "--regid=${SUDO_GID:-$SUDO_UID}" --clear-groups)
"${as[@]}" python3 -u -m http.server "$port" --bind "$server" --directory "$folder" & servers+=($!)
dnsmasq --keep-in-foreground --log-facility=- --conf-file="$work/dnsmasq.conf" --pid-file= --dhcp-leasefile="$work/leases" & servers+=($!)
say "serving ${folder#"$REPO"/} on $interface ($own)${proxy:+ beside its DHCP server}; Ctrl-C ends it"
wait -n "${servers[@]}" || true
die "a server ended" "its last messages are above"
