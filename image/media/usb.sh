#!/usr/bin/env bash
# usb.sh DEVICE [--yes] [--image FILE]: writes the USB image to a stick and reads it back. Accepts only a whole,
# removable, unused disk that is large enough; asks before it writes, except with --yes. DEVICE may also be an
# existing file that is large enough, for a BMC's virtual medium.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
PATH=$PATH:/usr/sbin:/sbin
image=$REPO/target/image/media/firstlight-usb.img device='' yes=
while [ $# -gt 0 ]; do
    case $1 in
        --yes) yes=1; shift ;;
        --image) image=${2:?--image needs a file}; shift 2 ;;
        -*) die "unknown word $1" "usb DEVICE [--yes]" ;;
        *) [ -z "$device" ] || die "one device at a time" "usb DEVICE [--yes]"; device=$1; shift ;;
    esac
done
[ -n "$device" ] || die "which device?" "usb DEVICE [--yes]; 'lsblk -do NAME,SIZE,RM,TRAN,MODEL' shows them"
[ -e "$image" ] || die "there is no USB image in $image" "just media"
bytes=$(stat -Lc %s "$image")
mib() { echo "$(( ($1 + 1048575) / 1048576 )) MiB"; }

[ -e "$device" ] || die "$device is not there"
device=$(realpath "$device")
direct=
if [ -b "$device" ]; then
    name=$(basename "$device") sys=/sys/class/block/$(basename "$device")
    [ -d "$sys" ] || die "$device: the kernel shows no $sys"
    [ ! -e "$sys/partition" ] || die "$device is a partition" "name the whole disk: /dev/$(basename "$(realpath "$sys/..")")"
    # Some sticks report themselves as fixed disks; anything attached by USB can be unplugged anyway.
    case $(cat "$sys/removable")$(realpath "$sys") in
        1* | *usb*) ;;
        *) die "$device is not a removable disk" "allowed: sticks, cards, disks on USB" ;;
    esac
    [ "$(cat "$sys/ro")" = 0 ] || die "$device is write-protected" "look for a switch on the stick"
    while read -r part type mounted; do
        [ -z "$mounted" ] || die "$part is mounted on $(printf '%b' "$mounted" | head -1)" "umount $part"
        case $type in disk | part | loop) ;; *) die "$device is in use by $part ($type)" ;; esac
    done < <(lsblk --noheadings --raw --paths --output NAME,TYPE,MOUNTPOINTS "$device")
    room=$(( $(cat "$sys/size") * 512 ))
    about="$(cat "$sys/device/vendor" "$sys/device/model" 2> /dev/null | xargs || true)"
    about="${about:-$name}, $(mib "$room")"
    direct=1
elif [ -f "$device" ]; then
    room=$(stat -c %s "$device") about="a file, $(mib "$room")"
else
    die "$device is neither a disk nor a file"
fi
[ "$room" -ge "$bytes" ] || die "$device is too small" "it has $(mib "$room"), the image needs $(mib "$bytes")"
[ -w "$device" ] || die "$device cannot be written by $(id -un)" "run it as root"
# The kernel's own check, which also detects a mount in a container that this script cannot see.
[ ! -b "$device" ] || python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_EXCL)' "$device" 2> /dev/null ||
    die "$device is in use" "unmount it, also in containers"

if [ -z "$yes" ]; then
    printf 'Everything on %s (%s) will be lost. Write firstlight to it? Type yes: ' "$device" "$about" >&2
    answer=; read -r answer || true
    [ "$answer" = yes ] || die "not confirmed, nothing was written"
fi
say "writing $(mib "$bytes") to $device ($about)"
dd if="$image" of="$device" bs=4M conv=notrunc,fsync ${direct:+oflag=direct} status=progress ||
    die "writing $device failed" "its content is incomplete and cannot be used"
# Erases the remains of an earlier partition table at the end of a larger disk.
if [ "$room" -ge $(( bytes + 2097152 )) ]; then
    dd if=/dev/zero of="$device" bs=512 seek=$(( room / 512 - 2048 )) count=2048 conv=notrunc,fsync status=none ||
        die "writing the end of $device failed"
fi
say "reading it back"
# direct: from the stick itself and not from the host's memory
dd if="$device" bs=4M iflag="count_bytes${direct:+,direct}" count="$bytes" status=progress | cmp - "$image" || die "$device does not contain the data that was written" "it is defective, or was pulled out"
[ ! -b "$device" ] || blockdev --rereadpt "$device" 2> /dev/null || true
say "$device is ready; its partition FIRSTLIGHT can hold a config.toml and receives the reports"
