#!/usr/bin/env bash
# relock.sh [USE..]: renews image/inputs.lock from image/packages.list: asks the host's own archive
# for the newest version of every package, and for the trees of tools also for their dependencies.
# With USEs only their lines are renewed: a newer compiler, for example, means a new kernel.
# Finally prints the changes (image/reproduce/changes.sh).
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/lib/mirror.sh"

# The driver's packages must all have the version that image/driver/source.toml names.
driver_version=$(toml_word "$REPO/image/driver/source.toml" version)
# The test kernel's name contains the version of the kernel source, which is above it in the new lock.
kernel_version() { awk '$2 ~ /^linux-source-/ { sub(/-.*/, "", $3); print $3 }' "$new"; }
packages() {
    awk -v use="[$1]" '{ sub(/#.*/, "") } /^\[/ { inside = $1 == use; next } inside && NF { print $1 }' "$REPO/image/packages.list"
}
names() { packages "$1" | sed "s/@driver@/$driver_version/; s/@kernel@/$(kernel_version)/"; }
uris() { apt-get "${APT_OPTIONS[@]}" -o Acquire::ForceHash=SHA256 -qq -y --no-install-recommends --print-uris "$@"; }

# USE APT-VERB NAMES..: the files that apt would fetch, as lock lines. `--print-uris` prints
# 'URI' FILE SIZE SHA256:HASH, with the version's colon as %3a in FILE.
lines() {
    local use=$1; shift
    uris "$@" | awk -v use="$use" '{
        split($2, part, "_"); sub(/\.deb$/, "", part[3]); gsub(/%3a/, ":", part[2])
        sub(/^SHA256:/, "", $4)
        print use, part[1], part[2], part[3], $3, $4 }' | LC_ALL=C sort
}

# NAME: prints NAME=VERSION, the newest packaging of the driver's version for which the archive has the source.
sourced() {
    local found
    found=$(apt-cache "${APT_OPTIONS[@]}" showsrc --only-source "$1" |
        awk -v upstream="$driver_version-" '$1 == "Version:" && index($2, upstream) == 1 { print $2 }' | sort -V | tail -1)
    [ -n "$found" ] || die "the archive has no source of $1 $driver_version"
    echo "$1=$found"
}

# The newest driver version for which the archive has every part: the modules' source and all packages of [driver].
newest_driver() {
    local name versions
    versions=$(apt-cache "${APT_OPTIONS[@]}" showsrc --only-source "$(packages driver-source)" | awk '$1 == "Version:" { sub(/-[^-]*$/, "", $2); print $2 }' | sort -u)
    for name in $(packages driver | sed 's/=.*//'); do
        versions=$(comm -12 <(echo "$versions") <(apt-cache "${APT_OPTIONS[@]}" madison "$name" | awk '{ sub(/-[^-]*$/, "", $3); print $3 }' | sort -u))
    done
    sort -V <<< "$versions" | tail -1
}

# USE NAMES..: the upstream tarballs of source packages. Their version is in the name of the .dsc file.
source_lines() {
    local use=$1 name; shift
    for name in "$@"; do uris source "$(sourced "$name")"; done | awk -v use="$use" '
        $2 ~ /\.dsc$/ { split($2, part, "_"); sub(/\.dsc$/, "", part[2]); version[part[1]] = part[2] }
        $2 ~ /\.orig\.tar\.xz$/ { split($2, part, "_"); sub(/^SHA256:/, "", $4); size[part[1]] = $3; hash[part[1]] = $4 }
        END { for (name in hash) print use, name, version[name], "source", size[name], hash[name] }' | LC_ALL=C sort
}

# USE NAME: the registry's newest wheel. It is downloaded, because the registry does not state its size.
wheel_line() {
    local work file
    work=$(mktemp -d "$DEBS/relock.XXXXXX")
    fetch_wheel "$2" '' "$work" || { rm -rf "$work"; die "the Python registry does not deliver $2"; }
    file=("$work"/*.whl)
    version=${file[0]##*/"$2"-}
    version=${version%.whl}
    echo "$1 $2 $version wheel $(stat -c %s "${file[0]}") $(sha256sum < "${file[0]}" | cut -d' ' -f1)"
    mv "${file[0]}" "$(deb_path "$2" "$version" wheel)"
    rm -rf "$work"
}

# In the lock's order
uses='source image image-arm64 media compiler compiler-arm64 tools signing testing debian driver-source driver driver-nccl driver-nccl-cu12 driver-nccl-cu13 package test-kernel'

# Renews one use: chooses the scope of the archive and the query to apt.
# shellcheck disable=SC2046  # lists of names
renew() {
    case $1 in
        source | image | media | test-kernel) mirror_setup main; lines "$1" download $(names "$1") ;;
        image-arm64) mirror_setup main arm64; lines "$1" download $(names image | sed 's/$/:arm64/') ;;
        compiler-arm64) mirror_setup main; lines "$1" install $(names compiler) $(names "$1") ;;
        compiler | tools | signing | testing | debian) mirror_setup main; lines "$1" install $(names "$1") ;;
        driver-source) mirror_setup driver; source_lines "$1" $(names "$1") ;;
        driver-nccl-cu*) wheel_line "$1" "nvidia-${1#driver-}" ;;
        package) wheel_line "$1" ziglang ;;
        driver | driver-nccl) mirror_setup driver; lines "$1" download $(names "$1") ;;
    esac
}

for use in "$@"; do case " $uses " in *" $use "*) ;; *) die "there is no use '$use'" "$uses" ;; esac; done
new=$(mktemp) old=$(mktemp); trap 'rm -f "$new" "$old"' EXIT
wanted=" ${*:-$uses} "
touch "$LOCK"
cp "$LOCK" "$old"
driver_line=$(grep '^# Driver ' "$LOCK" || echo '# Driver: not looked for') newest=
case $wanted in *' driver '*)
    mirror_setup driver
    newest=$(newest_driver)
    driver_line="# Driver $driver_version; the newest of which the archive has every part: ${newest:-none}" ;;
esac
{
    echo "# Every package that goes into a build. Made by 'just relock'; not edited by hand."
    echo "# USE NAME VERSION ARCHITECTURE BYTES SHA256"
    echo "$driver_line"
    for use in $uses; do
        case $wanted in *" $use "*) renew "$use" ;; *) awk -v use="$use" '$1 == use' "$LOCK" ;; esac
    done
} > "$new"
[ -z "$newest" ] || [ "$newest" = "$driver_version" ] || say "the archive has all of the driver $newest; image/driver/source.toml names $driver_version"
awk '!/^#/ && (NF != 6 || length($6) != 64) { exit 1 }' "$new" || die "the archive gave an incomplete answer" "run it again"
cp "$new" "$LOCK"
"$REPO/image/reproduce/changes.sh" "$old"
