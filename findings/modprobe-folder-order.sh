#!/usr/bin/env bash
# modprobe sorts the files of all folders by name: a later folder's z.conf beats the first folder's a.conf.
#
# kmod 30 (Debian 12) and 34.2 (Debian 13), alike.
# Expected from memory: what /etc says is in force against /usr/lib.
# Seen: the first folder hides only files of the same name. Options of all other files are joined in the order of their names,
#   and the kernel takes the last, whatever the folder.
# Who is hurt: who overrides a package's zz-gpu.conf with /etc/modprobe.d/nvidia.conf.
# Output:
#   bookworm: NVreg_A=of-the-administrator NVreg_A=of-the-package
#   trixie: NVreg_A=of-the-administrator NVreg_A=of-the-package
set -euo pipefail
. "$(dirname "$0")/lib.sh"

modules nvidia
mkdir administrator package
echo 'options nvidia NVreg_A=of-the-administrator' > administrator/nvidia.conf
echo 'options nvidia NVreg_A=of-the-package' > package/zz-gpu.conf
seen=$(loads nvidia --config administrator --config package)
echo "$seen"
is "the options" "$seen" "bookworm: NVreg_A=of-the-administrator NVreg_A=of-the-package
trixie: NVreg_A=of-the-administrator NVreg_A=of-the-package"
