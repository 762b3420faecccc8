#!/usr/bin/env bash
# with.sh RECIPE WORD.. with --driver WORD and its options anywhere among them: finds what the driver means (../choose.sh) and runs
# the recipe without these words, with FIRSTLIGHT_DRIVER. The script `run` calls it.
set -euo pipefail
source "$(dirname "$0")/../../lib/common.sh"
wrong() { printf '%s\n' "firstlight: error: $1${2:+ ($2)}" >&2; exit 64; }
rest=() options=() driver=''
while [ $# -gt 0 ]; do
    case $1 in
        --driver)
            case ${2:-} in '' | --*) wrong "--driver needs a word" "installed, none, a folder, a description (FILE.toml)" ;; esac
            [ -z "$driver" ] || wrong "--driver is given twice"
            driver=$2; shift 2 ;;
        --modules | --families | --libraries) case ${2:-} in '' | --*) wrong "$1 needs a word" ;; esac; options+=("$1" "$2"); shift 2 ;;
        --without-p2p) options+=("$1"); shift ;;
        *) rest+=("$1"); shift ;;
    esac
done
case ${rest[0]:-} in
    image | media | usb | pxe | sign | vendor | driver) ;;
    *) wrong "--driver is for image, media, usb, pxe, sign, vendor and driver" "./run image --driver WORD" ;;
esac
case " ${rest[*]} " in
    *' --offline '*) wrong "--driver and --offline do not go together" "the archive of inputs has the driver: ./run vendor --driver WORD" ;;
    *' --arch '*) wrong "--driver and --arch do not go together" "only the image for x86-64 has a driver" ;;
esac
[ -n "$driver" ] || wrong "${options[0]} is for --driver installed and --driver FOLDER" "./run ${rest[0]} --driver WORD ${options[*]}"
[ -z "${FIRSTLIGHT_DRIVER:-}" ] || wrong "both --driver and FIRSTLIGHT_DRIVER are given: '$driver' and '$FIRSTLIGHT_DRIVER'" "give one of them"
# The build prints the seconds of all its steps, and removes the file.
case ${rest[0]} in image | media) FIRSTLIGHT_SECONDS=$(mktemp); export FIRSTLIGHT_SECONDS ;; esac
FIRSTLIGHT_DRIVER=$("$REPO/image/driver/choose.sh" "$driver" "${options[@]}") || { status=$?; rm -f "${FIRSTLIGHT_SECONDS:-}"; exit "$status"; }
export FIRSTLIGHT_DRIVER
cd "$REPO"
exec just "${rest[@]}"
