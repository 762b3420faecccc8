#!/usr/bin/env bash
# loader.sh FOLDER: makes the files that firmware verifies on the stick besides the UKI: BOOTX64.EFI (systemd-boot) and
# stick.addon.efi, the kernel words that only a boot from the stick uses.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
to=$1
# In a separate file beside the UKI, which is the same on all media. The words say that the data partition exists, so
# init must wait for it, and that a user is probably at the screen. They do not name the partition: then a built-in
# disk with that label would be accepted, too.
words='firstlight.booted_from=stick firstlight.report.required=true'
# shellcheck disable=SC2016  # expanded by the inner shell
"$REPO/image/in-tools.sh" tools --bind "$to:/build/loader" TMPDIR=/build/loader sh -euc '
    ukify build --stub=/usr/lib/systemd/boot/efi/addonx64.efi.stub --cmdline="$1" --output=/build/loader/stick.addon.efi
    cp /usr/lib/systemd/boot/efi/systemd-bootx64.efi /build/loader/BOOTX64.EFI
' sh "$words"
