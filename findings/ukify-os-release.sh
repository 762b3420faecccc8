#!/usr/bin/env bash
# ukify puts the build machine's /etc/os-release into an image for which none was named.
#
# ukify 257.13 (Debian 13).
# Expected from memory: without --os-release there is no section .osrel, or ukify asks for one.
# Seen: the section has the file of the machine that ran ukify. The boot menu shows that system's name, and the same inputs
#   give another image on another machine. With --cmdline= the section .cmdline is left out, not empty.
# Who is hurt: reproducible builds, and menus with images for several systems.
# Output (sections, and the name in .osrel):
#   .sbat .osrel .uname .linux
#   the same as in /etc/os-release
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ -e /etc/os-release ] || skip "this machine has no /etc/os-release"
debian trixie systemd-ukify=257.13-1~deb13u1 systemd-boot-efi=257.13-1~deb13u1
wheels pefile==2024.8.26
boot=trixie/usr/lib/systemd/boot/efi
ukify() { python trixie/usr/bin/ukify "$@"; }
ukify build --linux=$boot/systemd-bootx64.efi --stub=$boot/linuxx64.efi.stub --uname=6.1 --cmdline= --output=image.efi > said 2>&1
seen=$(ukify inspect image.efi --json=short)
python3 -c '
import json, sys
sections = json.loads(sys.argv[1])
print(*sections)
same = sections[".osrel"]["text"].strip() == open("/etc/os-release").read().strip()
print("the same as in /etc/os-release" if same else "another text")' "$seen" > told
cat told
is "the image" "$(cat told)" '.sbat .osrel .uname .linux
the same as in /etc/os-release'
