#!/usr/bin/env bash
# choose.sh WORD [--modules FILE] [--families NAME,NAME|all] [--libraries DIR] [--without-p2p]: prints the description of the driver
# that `--driver WORD` means, for FIRSTLIGHT_DRIVER:
#   installed   the driver that this machine runs
#   FOLDER      .deb files, or NVIDIA's installer and the archive of its open modules
#   FILE        a description that is there already
#   none        no driver
# The files of `installed` and FOLDER are checked and copied to the cache, into a folder that is named by their hashes; the
# description beside them names each with its SHA256. Only reads: no module is loaded or removed, no setting is changed.
# choose.sh --look installed|FOLDER [--modules FILE] [--libraries DIR] [--sizes]: only prints the parts, and what is missing.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
# shellcheck disable=SC2034  # the description of another driver is not read here
FIRSTLIGHT_DRIVER=
source "$REPO/image/driver/describe.sh"
here=$REPO/image/driver began=$(date +%s)
# In the Debian folder (image/debian/enter.sh) the machine's own files are in another place.
host=${FIRSTLIGHT_HOST:-/}

wrong() { printf '%s\n' "firstlight: error: $1${2:+ ($2)}" >&2; exit 64; }
# FILE OPTION: refuses a file that the description cannot name, or that is no part of a driver.
named_file() {
    local name; name=$(basename "$1")
    [ -e "$1" ] || die "${2:+$2: }there is no $1"
    case $name in *[!A-Za-z0-9._+~:@%=-]*) [ -d "$1" ] || die "'$name' has blanks or other characters in its name" "rename it; allowed: letters, digits and . _ + ~ : @ % = -" ;; esac
    [ -f "$1" ] || [ -d "$1" ] || die "$1 is not an ordinary file"
    [ -r "$1" ] || die "$1 cannot be read"
    [ -d "$1" ] || [ "$(stat -Lc %s "$1")" -le $((1 << 30)) ] || die "$name has $(stat -Lc %s "$1") bytes, more than 1 GiB: it is no part of a driver"
}
word='' modules='' families='' libraries='' without=no look='' sizes=''
while [ $# -gt 0 ]; do
    case $1 in
        --modules | --families | --libraries) case ${2:-} in '' | --*) wrong "$1 needs a word" ;; esac; declare "${1#--}=$2"; shift 2 ;;
        --without-p2p) without=yes; shift ;;
        --look) look=yes; shift ;;
        --sizes) sizes=--sizes; shift ;;
        -*) wrong "unknown word '$1'" ;;
        *) [ -z "$word" ] || wrong "unknown word '$1'"; word=$1; shift ;;
    esac
done
allowed="allowed: installed, none, a folder with .deb files or with NVIDIA's installer and modules, a description (FILE.toml)"
case $word in
    '') wrong "--driver needs a word" "$allowed" ;;
    none) kind=none ;;
    installed) kind=installed ;;
    *) if [ -d "$word" ]; then kind=folder; elif [ -f "$word" ] && [ "${word%.toml}" != "$word" ]; then kind='file'
           grep -qsE '^schema *= *"firstlight\.driver-source/' "$word" ||
               wrong "--driver is '$word', which is no description of a driver: no line says schema = \"firstlight.driver-source/4\"" "$allowed"
       else wrong "--driver is '$word'" "$allowed"; fi ;;
esac
case $kind in none | file)
    [ -z "$modules$families$libraries" ] && [ "$without" = no ] ||
        wrong "--modules, --families, --libraries and --without-p2p are for --driver installed and --driver FOLDER" "a description says all of it itself"
    if [ $kind = none ]; then echo none; else realpath "$word"; fi
    exit 0 ;;
esac

case $kind:$host in installed:*) [ -d "$host" ] || die "there is no folder $host" "FIRSTLIGHT_HOST names it" ;; esac
[ -z "$modules" ] || named_file "$modules" --modules
mkdir -p "$CACHE/driver"
work=$(mktemp -d "$CACHE/driver/source.XXXXXX"); trap 'rm -rf "$work"' EXIT
mkdir "$work/root" "$work/to"
: > "$work/from"
# FILE: notes its hash
note() { local hash; hash=$(sha256sum < "$1"); printf '%s\t%s\n' "${hash%% *}" "$(basename "$1")" >> "$work/from"; }
# FILE: refuses a file that a link brings into the folder from elsewhere.
inside() {
    local real; real=$(realpath -e "$1" 2> /dev/null) || die "$1 is a link to nothing"
    case $real in "$folder"/*) ;; *) die "$(basename "$1") is a link out of the folder $folder" "it leads to $real" ;; esac
    named_file "$1" ''
}

root=$work/root options=() archive=''
case $kind in
    installed) root=$host ;;
    folder)
        folder=$(realpath "$word")
        shopt -s nullglob
        debs=("$folder"/*.deb) runs=("$folder"/*.run) archives=("$folder"/open-gpu-kernel-modules-* "$folder"/[0-9]*.tar.gz)
        for file in "${debs[@]}" "${runs[@]}" "${archives[@]}"; do inside "$file"; done
        [ ${#archives[@]} -le 1 ] || die "$folder has ${#archives[@]} archives of NVIDIA's open modules, not one" "${archives[*]##*/}"
        [ -n "$modules" ] || modules=${archives[0]:-}
        case ${#debs[@]}:${#runs[@]} in
            0:0) die "$folder has neither .deb files nor NVIDIA's installer" \
                "allowed: the .deb files of one version, or NVIDIA-Linux-x86_64-VERSION.run (nvidia.com/drivers, Linux 64-bit)" ;;
            0:1)
                say "unpacking $(basename "${runs[0]}")"
                kind=installer
                note "${runs[0]}"
                "$here/run-file.sh" "${runs[0]}" "$root" > "$work/version" ;;
            0:*) die "$folder has ${#runs[@]} installers, not one" "${runs[*]##*/}" ;;
            *:0)
                say "unpacking ${#debs[@]} package$([ ${#debs[@]} = 1 ] || echo s)"
                kind=packages
                python3 -B "$here/sources/unpack.py" "$root" "${debs[@]}"
                for file in "${debs[@]}"; do note "$file"; done ;;
            *) die "$folder has .deb files and an installer of NVIDIA's" "leave one of both in it" ;;
        esac ;;
esac
[ -z "$modules" ] || options+=(--modules "$modules")
[ -z "$libraries" ] || options+=(--libraries "$libraries")
if [ -n "$look" ]; then
    status=0
    python3 -B "$here/sources/parts.py" look "$kind" "$root" "${options[@]}" $sizes || status=$?
    exit "$status"
fi
python3 -B "$here/sources/parts.py" take "$kind" "$root" "$work/to" "${options[@]}"
fact() { sed -n "s/^$1=//p" "$work/to/facts"; }
version=$(fact version)

# The modules: a tarball of their own, or what parts.py packed
if [ -n "$modules" ]; then
    if [ -d "$modules" ]; then
        python3 -B "$here/sources/parts.py" pack "$modules" "$work/to/modules.tar" || exit 1
        archive=modules.tar
    else archive=$(basename "$modules"); cp "$modules" "$work/to/$archive"; chmod 0644 "$work/to/$archive"; fi
else archive=modules.tar; fi
found=$("$here/tree.sh" "$work/to/$archive" "$work/tree")
[ "$found" = "$version" ] || die "the modules in $(basename "${modules:-$archive}") are version $found, libcuda.so is version $version"
if [ -d "$work/tree/src/nvidia" ]; then how=whole; else how=prebuilt; lend_header "$work/tree" "$version"; fi

patches=no; [ ! -d "$here/patches/$version" ] || patches=yes
header=; [ ! -s "$work/tree/$REGISTRY_HEADER" ] || header=tree/$REGISTRY_HEADER
hash=$(sha256sum < "$work/to/$archive"); hash=${hash%% *}
with_scripts --bind "$work/tree:/build/tree" --bind "$work/to:/build/to" --bind "$work/from:/build/from" \
    python3 -B scripts/description/choose.py "version=$version" "modules=$how" "modules_file=$archive" "modules_sha256=$hash" "header=$header" \
    tree=tree edits=scripts/edits "patches=$patches" "gpus=$(fact gpus)" "families=$families" "without_p2p=$without" \
    taken=to/taken from=from > "$work/driver.toml"
rm "$work/to/taken" "$work/to/facts"
mv "$work/driver.toml" "$work/to/driver.toml"
DRIVER_FILE=$work/to/driver.toml
describe_driver
# Refused here, not after minutes of compiling: keys, and firmware for the families
registry_keys "$DRIVER_FILE" "$work/tree" > "$work/keys"
for gsp in $driver_gsp; do
    [ -e "$work/to/firmware/nvidia/$version/$gsp" ] ||
        die "firmware/nvidia/$version/$gsp is missing, and the families need it" "--families NAME,NAME names others"
done
result=$CACHE/driver/source-$(hash_of "$work/to/driver.toml")
if [ ! -e "$result/driver.toml" ]; then rm -rf "$result"; mv "$work/to" "$result"; fi
case $how:$without in
    prebuilt:*) built="modules with a prebuilt resource manager, which cannot be changed" ;;
    *:yes) built="modules without peer-to-peer changes" ;;
    *) built="modules with ${driver_patch:+patch level $driver_patch}"; [ -n "$driver_patch" ] || built="modules as they are" ;;
esac
say "driver $version, $(grep -c . <(tr ' ' '\n' <<< "$driver_parts")) files, $built: $result/driver.toml"
sed 's/^/  /' "$work/keys" >&2
spent gathering "$began"
echo "$result/driver.toml"
