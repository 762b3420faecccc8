#!/usr/bin/env bash
# run-file.sh FILE.run TO: unpacks NVIDIA's installer without running it, and prints the driver's version
# that is in it. The file is a shell script; its assignment `skip=N` gives the line at which a packed tar begins.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
file=$1 to=$2 name=$(basename "$1")
header=$(head -c 200000 "$file" | tr -d '\0' | LC_ALL=C grep -a -E '^(skip|MD5)=' || true)
word() { sed -n "s/^$1=\"\{0,1\}\([0-9a-fA-F]*\)\"\{0,1\} *$/\1/p" <<< "$header" | sed -n 1p; }
skip=$(word skip) md5=$(word MD5)
[ -n "$skip" ] || die "$name is not an installer of NVIDIA's: its first lines do not name skip="

mkdir -p "$to"
payload() { tail -n +"$skip" "$file"; }
if [ ${#md5} = 32 ] && [ "$md5" != 00000000000000000000000000000000 ]; then
    found=$(payload | md5sum)
    [ "${found%% *}" = "$md5" ] || die "$name is cut off or damaged" "the packed part's MD5 is ${found%% *}, its header says $md5"
fi
case $(payload | head -c 4 | od -An -tx1 | tr -d ' ') in
    fd377a58) unpack=(xz -dc) ;;
    28b52ffd) unpack=(zstd -dcq) ;;
    1f8b*) unpack=(gzip -dc) ;;
    *) die "$name is not an installer of NVIDIA's, or is cut off: no packed part at line $skip" ;;
esac
payload | "${unpack[@]}" 2> "$to.log" | tar -C "$to" --no-same-owner -xf - 2>> "$to.log" ||
    die "$name is cut off or damaged" "$(tail -1 "$to.log")"
rm -f "$to.log"
libraries=("$to"/libcuda.so.[0-9]*)
version=${libraries[0]##*/libcuda.so.}
[ ${#libraries[@]} = 1 ] && [ -e "${libraries[0]}" ] || die "$name holds no libcuda.so.VERSION"
echo "$version"
