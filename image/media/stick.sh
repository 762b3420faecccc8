#!/usr/bin/env bash
# stick.sh OUT IMAGE [SIGNED]: puts the USB image together: a GPT with an EFI system partition (systemd-boot, which
# shows the boot entries, and the UKI that has them as profiles) and a FAT partition FIRSTLIGHT, which Windows and
# macOS mount too, for config.toml and reports. SIGNED is a folder with firstlight.efi and what loader.sh makes,
# to be taken instead; the layout stays.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
out=$1 image=$2 signed=${3:-}
work=$(mktemp -d "$(dirname "$image")/stick.XXXXXX"); trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{tree/esp/EFI/{BOOT,Linux/firstlight.efi.extra.d},tree/esp/loader,tree/data/reports,repart.d}
log() { "$@" >> "$image.log" 2>&1 || { tail -20 "$image.log" >&2; die "the USB image could not be made" "the whole log: $image.log"; }; }
: > "$image.log"
loader=$signed
[ -n "$signed" ] || { loader=$work/loader; mkdir "$loader"; log "$REPO/image/media/loader.sh" "$loader"; }
cp "${signed:-$out}/firstlight.efi" "$work/tree/esp/EFI/Linux/"
cp "$loader/stick.addon.efi" "$work/tree/esp/EFI/Linux/firstlight.efi.extra.d/"
cp "$loader/BOOTX64.EFI" "$work/tree/esp/EFI/BOOT/"
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
# 512: with systemd-repart's own choice of 4096 firmware cannot read the ESP. The seed gives GPT and FAT their ids.
# shellcheck disable=SC2016  # expanded by the inner shell
log "$REPO/image/in-tools.sh" tools --bind "$work:/build/stick" TMPDIR=/build/stick sh -euc '
    chmod -R u=rwX,go=rX /build/stick/tree
    find /build/stick/tree -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    systemd-repart --empty=create --size=auto --offline=yes --dry-run=no --no-pager --sector-size=512 \
        --seed=7c2f0d7e-6a52-4d1c-9c0a-2f3f1ad3a5b1 --definitions=/build/stick/repart.d \
        --copy-source=/build/stick/tree /build/stick/image
'
mv "$work/image" "$image"
rm "$image.log"
