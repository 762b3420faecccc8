#!/usr/bin/env bash
# Of several dhcp-boot lines whose tags match, dnsmasq takes the last: iPXE gets the boot loader that has just started it.
#
# dnsmasq 2.90 (Debian 12) and 2.91 (Debian 13), alike.
# Expected from memory: the first line that matches, so the special case goes first.
# Seen: a line without a tag is the last resort wherever it is; of lines with matching tags the last one counts. With the
#   line for iPXE first and the one for UEFI behind it, iPXE under UEFI is offered ipxe.efi again, without end.
# Who is hurt: network boot over iPXE, where the client matches both tags.
# Needs root, for a network of its own.
# Output (the line for iPXE first; last):
#   BIOS: undionly.kpxe  UEFI: ipxe.efi  iPXE: ipxe.efi
#   BIOS: undionly.kpxe  UEFI: ipxe.efi  iPXE: http://192.0.2.1/boot.ipxe
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm dnsmasq-base=2.90-4~deb12u2
debian trixie dnsmasq-base=2.91-1+deb13u2
seen=$(alone '
    interface server 192.0.2.1/24
    common=(dhcp-range=192.0.2.10,192.0.2.50 dhcp-match=set:ipxe,175 dhcp-match=set:efi,option:client-arch,7 dhcp-boot=undionly.kpxe)
    ipxe=dhcp-boot=tag:ipxe,http://192.0.2.1/boot.ipxe efi=dhcp-boot=tag:efi,ipxe.efi
    for suite in bookworm trixie; do
        boot_offers $suite "${common[@]}" $ipxe $efi | paste -sd " "
        boot_offers $suite "${common[@]}" $efi $ipxe | paste -sd " "
    done')
echo "$seen"
two='BIOS: undionly.kpxe UEFI: ipxe.efi iPXE: ipxe.efi
BIOS: undionly.kpxe UEFI: ipxe.efi iPXE: http://192.0.2.1/boot.ipxe'
is "the offers" "$seen" "$two
$two"
