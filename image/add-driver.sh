#!/usr/bin/env bash
# add-driver.sh --for IMAGE [--driver WORD ..] [--kernel FILE] [--to FOLDER]: adds a GPU driver to a finished image that has none.
# Neither the kernel nor a program of firstlight is built. IMAGE is a UKI (firstlight.efi) or the folder that has it; FILE is the
# kernel's file that was written with it (image/kernel-file), by default the one beside it. WORD and the words for it choose the
# driver as in `image --driver WORD ..` (driver/choose.sh); without them it is that of FIRSTLIGHT_DRIVER, or the project's own.
# FOLDER (target/image/added) gets the same files as image/build.sh makes, and the same bytes: UKI, kernels, initrd, lists,
# documents, SHA256SUMS.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
usage="driver --for IMAGE [--driver installed|FOLDER|FILE] [--kernel FILE] [--to FOLDER]"
wrong() { say "error: $1 ($usage)"; exit 64; }
image='' word='' choice=() file='' folder=$REPO/target/image/added
while [ $# -gt 0 ]; do
    case $1 in
        --without-p2p) choice+=("$1"); shift; continue ;;
        --for | --driver | --kernel | --to | --modules | --families | --libraries) [ -n "${2:-}" ] || wrong "$1 needs a value" ;;
        *) wrong "unknown word '$1'" ;;
    esac
    case $1 in --for) image=$2 ;; --driver) word=$2 ;; --kernel) file=$2 ;; --to) folder=$2 ;; *) choice+=("$1" "$2") ;; esac
    shift 2
done
[ -n "$image" ] || wrong "--for is missing"
[ -n "$word" ] || [ ${#choice[@]} = 0 ] || wrong "${choice[0]} needs --driver"
[ -z "$word" ] || [ -z "${FIRSTLIGHT_DRIVER:-}" ] || wrong "--driver and FIRSTLIGHT_DRIVER both name a driver"
began=$SECONDS
shopt -s nullglob
[ ! -d "$image" ] || image=$image/firstlight.efi
[ -f "$image" ] || die "there is no image $image" "$usage"
[ -r "$image" ] || die "$image cannot be read by $(id -un)"
image=$(realpath "$image") folder=$(realpath -m "$folder") beside=$(dirname "$(realpath "$image")")
case $image in *:*) die "$image: a name with a colon is not allowed" ;; esac
[ ! -e "$folder" ] || [ -e "$folder/.added" ] || die "$folder exists and was not made by driver --for" "name a new folder: --to FOLDER"
work=$(mktemp -d) new=$folder.new.$$
trap 'rm -rf "$work" "$new"' EXIT
mkdir "$work/parts"
"$REPO/image/in-tools.sh" tools --bind "$REPO/image/media:/build/media" --bind "$image:/build/uki/$(basename "$image")" --bind "$work/parts:/build/parts" \
    python3 -B media/parts.py "uki/$(basename "$image")" parts || exit 1
if [ -z "$file" ]; then
    found=("$beside"/firstlight-kernel-*.tar)
    [ ${#found[@]} = 1 ] || die "$beside has ${#found[@]} files firstlight-kernel-VERSION.tar" "name the image's: --kernel FILE"
    file=${found[0]}
fi
kernel=$("$REPO/image/kernel-file/unpack.sh" "$file" "$work/parts")
read -r version id < "$work/parts/identity"
say "adding a driver to the image $id of firstlight $version, kernel $(cat "$kernel/release")"
read_s=$(( SECONDS - began ))

[ -z "$word" ] || { FIRSTLIGHT_DRIVER=$("$REPO/image/driver/choose.sh" "$word" "${choice[@]}"); export FIRSTLIGHT_DRIVER; }
source "$REPO/image/driver/describe.sh"
[ -n "$DRIVER_FILE" ] || wrong "there is no driver to add: it is 'none'"
driver=$("$REPO/image/driver/build.sh" "$kernel")
driver_s=$(( SECONDS - began - read_s ))

mkdir -p "$(dirname "$folder")" && mkdir "$new" || die "$new cannot be made"
"$REPO/image/assemble.sh" "$work/parts" "$new" "$driver"
image_s=$(( SECONDS - began - read_s - driver_s ))
base=$beside/firstlight.spdx.json
grep -qsF "\"comment\": \"image $id\"" "$base" || { base=; say "beside the image there is no firstlight.spdx.json of $id: the new image gets none"; }
sum() { local hash; hash=$(sha256 "$1"); echo "${hash%% *}"; }
"$REPO/image/trust/trust.sh" added "$new" "$base" "image_sha256=$(sum "$image")" "kernel_file_sha256=$(sum "$file")"
touch "$new/.added"
rm -rf "$folder"; mv "$new" "$folder"
total=$(( SECONDS - began ))
say "$folder/firstlight.efi: $(stat -c %s "$folder/firstlight.efi") bytes, image $(cat "$folder/.image-id")"
say "seconds: image and kernel's file $read_s, driver $driver_s, UKI $image_s, documents $(( total - read_s - driver_s - image_s )); all $total"
