#!/usr/bin/env bash
# files.sh VERSION DIR [FAMILY..]: the earlier way to a driver from NVIDIA's two files; prints the command that does it now.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
version=${1:-} dir=${2:-}
shift $(( $# < 2 ? $# : 2 ))
[ -n "$version" ] && [ -n "$dir" ] || die "driver-files takes a version and a folder" "now: ./run image --driver FOLDER [--families NAME,NAME]"
families=$(IFS=,; echo "$*")
say "the driver's version is read from the files; the command is now:"
echo "./run image --driver $dir${families:+ --families $families}"
