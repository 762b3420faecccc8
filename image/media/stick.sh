#!/usr/bin/env bash
# stick.sh OUT IMAGE: puts the USB image together: a GPT with an EFI system partition (systemd-boot, which shows
# the boot entries, and the UKI that has them as profiles) and a FAT partition FIRSTLIGHT, which Windows and
# macOS mount too, for config.toml and reports.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
out=$1 image=$2
work=$(mktemp -d "$(dirname "$image")/stick.XXXXXX"); trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{tree/esp/EFI/{BOOT,Linux/firstlight.efi.extra.d},tree/esp/loader,tree/data/reports,repart.d}
cp "$out/firstlight.efi" "$work/tree/esp/EFI/Linux/"
cp "$REPO/image/media/stick/loader.conf" "$work/tree/esp/loader/"
cp "$REPO/image/media/stick/README.TXT" "$REPO/image/media/stick/example.toml" "$work/tree/data/"

# As large as what is on it and a twentieth more, for the file system itself and a next version.
size=$(stat -c %s "$out/firstlight.efi")
mib=$(( size * 21 / 20 / 1048576 + 4 ))
cat > "$work/repart.d/10-esp.conf" <<END
[Partition]
Type=esp
Format=vfat
Label=FL-SYSTEM
CopyFiles=/esp:/
SizeMinBytes=${mib}M
SizeMaxBytes=${mib}M
END
# Microsoft's basic data: mounted by any workstation.
cat > "$work/repart.d/20-data.conf" <<END
[Partition]
Type=ebd0a0a2-b9e5-4433-87c0-68b6b72699c7
Format=vfat
Label=FIRSTLIGHT
CopyFiles=/data:/
SizeMinBytes=64M
SizeMaxBytes=64M
END
# What only a boot from the stick is told, in a file of its own beside the UKI, which stays the same everywhere:
# the partition is there, so wait until it has shown up, and a person stands before the machine.
words='firstlight.booted_from=stick firstlight.report.partition=LABEL=FIRSTLIGHT'
# 512: with systemd-repart's own choice of 4096 firmware cannot read the ESP. The seed gives GPT and FAT their ids.
# shellcheck disable=SC2016  # expanded by the inner shell
"$REPO/image/in-tools.sh" tools --bind "$work:/build/stick" TMPDIR=/build/stick sh -euc '
    ukify build --stub=/usr/lib/systemd/boot/efi/addonx64.efi.stub --cmdline="$1" \
        --output=/build/stick/tree/esp/EFI/Linux/firstlight.efi.extra.d/stick.addon.efi
    cp /usr/lib/systemd/boot/efi/systemd-bootx64.efi /build/stick/tree/esp/EFI/BOOT/BOOTX64.EFI
    chmod -R u=rwX,go=rX /build/stick/tree
    find /build/stick/tree -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    systemd-repart --empty=create --size=auto --offline=yes --dry-run=no --no-pager --sector-size=512 \
        --seed=7c2f0d7e-6a52-4d1c-9c0a-2f3f1ad3a5b1 --definitions=/build/stick/repart.d \
        --copy-source=/build/stick/tree /build/stick/image
' sh "$words" > "$image.log" 2>&1 || { tail -20 "$image.log" >&2; die "the USB image could not be made" "the whole log: $image.log"; }
mv "$work/image" "$image"
