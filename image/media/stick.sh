#!/usr/bin/env bash
# stick.sh OUT IMAGE [SIGNED]: puts the USB image together: a GPT with an EFI system partition (system.sh) and a FAT
# partition FIRSTLIGHT, which Windows and macOS mount too, for config.toml and reports. SIGNED is a folder with
# firstlight.efi and what loader.sh makes, to be taken instead; the layout stays.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/media/system.sh"
out=$1 image=$2 signed=${3:-} medium="the USB image"
work=$(mktemp -d "$(dirname "$image")/stick.XXXXXX"); trap 'rm -rf "$work"' EXIT
: > "$image.log"
system_partition "$out" "$work" "$signed" stick.addon.efi
mkdir -p "$work/tree/data/reports"
cp "$REPO/image/media/stick/README.TXT" "$REPO/image/media/stick/example.toml" "$work/tree/data/"
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
partitioned "$work"
mv "$work/image" "$image"
rm "$image.log"
