#!/usr/bin/env bash
# In dnsmasq's proxy mode dhcp-boot alone answers no PXE client: without a pxe-service line there is silence.
#
# dnsmasq 2.90 (Debian 12) and 2.91 (Debian 13), alike.
# Expected from memory: the proxy offers what dhcp-boot says, beside the addresses of the other server.
# Seen: with dhcp-range=..,proxy and dhcp-boot no client gets an answer, and nothing is logged as an error. With one pxe-service
#   line, clients with a dhcp-boot line that matches are answered.
# Who is hurt: who adds network boot to a network whose addresses another server gives.
# Needs root, for a network of its own.
# Output (dhcp-boot alone; with pxe-service lines for UEFI):
#   BIOS: no answer  UEFI: no answer  iPXE: no answer
#   iPXE: http://192.0.2.1/boot.ipxe
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm dnsmasq-base=2.90-4~deb12u2
debian trixie dnsmasq-base=2.91-1+deb13u2
seen=$(alone '
    interface server 192.0.2.1/24
    boot=(dhcp-range=192.0.2.0,proxy dhcp-match=set:ipxe,175 dhcp-boot=tag:ipxe,http://192.0.2.1/boot.ipxe)
    for suite in bookworm trixie; do
        boot_offers $suite dhcp-range=192.0.2.0,proxy dhcp-boot=ipxe.efi | paste -sd " "
        boot_offers $suite "${boot[@]}" "pxe-service=tag:!ipxe,x86-64_EFI,boot,ipxe.efi" | grep iPXE
    done')
echo "$seen"
two='BIOS: no answer UEFI: no answer iPXE: no answer
iPXE: http://192.0.2.1/boot.ipxe'
is "the offers" "$seen" "$two
$two"
