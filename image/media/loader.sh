#!/usr/bin/env bash
# loader.sh FOLDER: what firmware verifies on the stick besides the UKI: BOOTX64.EFI (systemd-boot) and
# stick.addon.efi, what only a boot from the stick is told.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
to=$1
# In a file of its own beside the UKI, which stays the same everywhere: the partition is there, so wait until
# it has shown up, and a person stands before the machine. The partition is not named: then a built-in disk of
# that label would do as well.
words='firstlight.booted_from=stick firstlight.report.required=true'
# shellcheck disable=SC2016  # expanded by the inner shell
"$REPO/image/in-tools.sh" tools --bind "$to:/build/loader" TMPDIR=/build/loader sh -euc '
    ukify build --stub=/usr/lib/systemd/boot/efi/addonx64.efi.stub --cmdline="$1" --output=/build/loader/stick.addon.efi
    cp /usr/lib/systemd/boot/efi/systemd-bootx64.efi /build/loader/BOOTX64.EFI
' sh "$words"
