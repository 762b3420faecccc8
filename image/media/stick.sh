#!/usr/bin/env bash
# stick.sh OUT IMAGE [SIGNED]: assembles the USB image: a GPT with an EFI system partition (system.sh) and a FAT
# partition FIRSTLIGHT, which Windows and macOS can also mount, for config.toml and reports. SIGNED is a folder with
# signed versions of firstlight.efi and of loader.sh's files, which are used instead; the layout stays the same.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/media/system.sh"
out=$1 image=$2 signed=${3:-} medium="the USB image"
work=$(mktemp -d "$(dirname "$image")/stick.XXXXXX"); trap 'rm -rf "$work"' EXIT
: > "$image.log"
system_partition "$out" "$work" "$signed" stick.addon.efi
mkdir -p "$work/tree/data/reports"
cat > "$work/tree/data/README.TXT" <<'END'
This partition belongs to firstlight: it reads config.toml from here and keeps its reports here.

config.toml   your settings; a key that is unknown stops the boot with a line that names it
reports\      the newest 20 reports; the number at the start of each name counts up

The other partition of this stick holds the system. Nothing is ever written to it.
END
cat > "$work/tree/data/example.toml" <<'END'
# Settings for the machine that this stick boots. They override the image's own settings, and a server's
# settings override them. Copy this file to config.toml beside it and remove the # from the settings that
# you want. docs/settings.md describes all keys.
#
# [expect]
# gpus = 8
# [console]
# screen = "release"
# [policy]
# on_pass = "hold"
END
# Microsoft's type for basic data: every workstation mounts it.
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
