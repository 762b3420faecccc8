#!/usr/bin/env bash
# pxe.sh OUT FOLDER [SIGNED]: fills a folder that a web server and a TFTP server can serve as it is: kernel, initrd
# and UKIs, iPXE and its script (all names relative), checksums, an example for dnsmasq, and a README with instructions.
# SIGNED is a folder whose files replace those of the same name.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
out=$1 to=$2 signed=${3:-}
# linked if possible: 260 MB that need not be on the disk twice
share() { ln -f "$out/$1" "$to/$2" 2> /dev/null || cp "$out/$1" "$to/$2"; }
share firstlight.vmlinuz vmlinuz
share firstlight-pt.vmlinuz vmlinuz-pt
share firstlight.initrd initrd
share firstlight.efi firstlight.efi
share firstlight-pt.efi firstlight-pt.efi

read -r name version arch _ < <(locked media | grep '^ipxe ')
from_ipxe() { dpkg-deb --fsys-tarfile "$(deb_path "$name" "$version" "$arch")" | tar -xO "./usr/$1" > "$to/$2"; }
from_ipxe lib/ipxe/undionly.kpxe undionly.kpxe
from_ipxe lib/ipxe/ipxe-amd64.efi ipxe.efi
from_ipxe share/doc/ipxe/copyright ipxe.copyright

"$REPO/image/in-tools.sh" tools --bind "$REPO/image/media:/build/media" --bind "$out:/build/out" \
    python3 -B media/ipxe.py out/firstlight.entries > "$to/boot.ipxe"
cp "$REPO/image/media/pxe"/* "$to/"
mkdir "$to/node"
cat > "$to/node/example.ipxe" <<'END'
#!ipxe
# Settings for one node. Copy to MAC.ipxe, where MAC is that of the node's first network card in iPXE's order
# (${net0/mac}), with dashes and in lower case: 52-54-00-12-34-56.ipxe
set entry quick
set wait 1
set words firstlight.expect.gpus=8 firstlight.network.hostname=node-${net0/mac:hexhyp}
END
chmod -R u=rwX,go=rX "$to/node" "$to"/{*.ipxe,*.conf,README,undionly.kpxe,ipxe.efi,ipxe.copyright}
for file in ${signed:+"$signed"/*}; do ln -f "$file" "$to/" 2> /dev/null || cp --remove-destination "$file" "$to/"; done
sums=$(cd "$to" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum)
printf '%s\n' "$sums" > "$to/SHA256SUMS"
