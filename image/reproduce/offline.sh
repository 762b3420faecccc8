#!/usr/bin/env bash
# offline.sh image|media --offline FILE: builds only from an archive that vendor.sh made: verifies the archive, unpacks
# it below target/, and builds in a network namespace without interfaces, with the archive's packages, crates and Rust.
# Kernel, driver and tool trees may come from the cache, where they are named by the hash of their inputs. An archive that was
# made with `--driver` has that driver's files, and the image is built with it.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
wrong() { say "error: $1 ($2)"; exit 64; }
what=${1:-}
case $what in image | media) ;; *) wrong "unknown target '$what'" "offline.sh image|media --offline FILE" ;; esac
usage="./run $what [--offline FILE | --driver installed|FOLDER|FILE|none]"
case " $* " in *' --driver '*) wrong "--driver and --offline do not go together" "the archive of inputs has the driver: ./run vendor --driver WORD" ;; esac
[ "${2:-}" = --offline ] || wrong "unknown word '${2:-}'" "$usage"
[ $# -le 3 ] || wrong "unknown word '$4'" "$usage"
archive=${3:-}
[ -n "$archive" ] || wrong "--offline needs the archive" "$what --offline FILE; 'just vendor' makes it"
[ -f "$archive" ] || die "there is no archive $archive" "'just vendor' makes it, where there is a network"
archive=$(realpath "$archive")
for program in awk dpkg-deb flock gzip pivot_root tar unshare xz; do
    command -v "$program" > /dev/null || die "$program is missing" "offline nothing is installed; './run' installs it where there is a network"
done
mkdir -p "$REPO/target"
exec 7> "$REPO/target/offline.lock"; flock 7
top=$REPO/target/offline inputs=$REPO/target/offline/firstlight-inputs
rm -rf "$top"; trap 'rm -rf "$top"' EXIT
mkdir "$top"

# First checks that the list is complete and fits this checkout, then checks the other files against the list.
locks=(image/inputs.lock Cargo.lock rust-toolchain.toml)
tar --extract --file="$archive" --directory="$top" --no-same-owner --occurrence=1 firstlight-inputs/SHA256SUMS 2> /dev/null ||
    die "$archive is not an archive of inputs, or is damaged" "it does not begin with firstlight-inputs/SHA256SUMS"
sums=$inputs/SHA256SUMS
for file in "${locks[@]}"; do
    [ "$(awk -v name="$(basename "$file")" '$2 == name { print $1 }' "$sums")" = "$(sha256sum < "$REPO/$file" | cut -d' ' -f1)" ] ||
        die "$archive was made with another $file than this checkout's" "use the checkout that it was made in, or run 'just vendor'"
done
registry=$(sed -n 's,.*  crates/\(index\.crates\.io-[0-9a-f]*\)/.*,\1,p' "$sums" | sed -n 1p)
# Both lock files contain the hashes of what they lock: the list must agree with them. image/rust.sh verifies Rust.
{
    # The archive has a wheel only if the driver's description needed it; fetch.sh refuses a build that lacks it.
    grep -v -e '^#' -e ' wheel ' -e '^[a-z]*-arm64 ' "$LOCK" | while read -r _ name version arch _ hash; do echo "$hash  debs/$(basename "$(deb_path "$name" "$version" "$arch")")"; done
    locked_crates | while read -r name version hash; do echo "$hash  crates/$registry/$name-$version.crate"; done
} | LC_ALL=C sort -u > "$top/wanted"
lacking=$(LC_ALL=C sort -u "$sums" | LC_ALL=C comm -13 - "$top/wanted")
[ -z "$lacking" ] || die "$archive lacks $(wc -l <<< "$lacking") locked files" "the first: $(head -1 <<< "$lacking" | cut -c67-)"

say "unpacking $archive ($(( $(stat -Lc %s "$archive") / 1000000 )) MB)"
tar --extract --file="$archive" --directory="$top" --no-same-owner --no-same-permissions 2> "$top/tar.log" ||
    die "$archive is cut off or damaged, or there is no room" "$(head -1 "$top/tar.log")"
strange=$(cd "$inputs" && find . -type f -printf '%P\n' | grep -vx SHA256SUMS | LC_ALL=C sort | LC_ALL=C comm -23 - <(cut -c67- "$sums" | LC_ALL=C sort)
    find "$top" ! -type f ! -type d -printf '%P\n'; find "$top" -mindepth 1 -maxdepth 1 -printf '%P\n' | grep -vxE 'wanted|tar.log|firstlight-inputs' || true)
[ -z "$strange" ] || die "$archive contains files that its list does not name" "the first: $(head -1 <<< "$strange")"
say "verifying $(wc -l < "$sums") files"
missing=$(cut -c67- "$sums" | while read -r file; do [ -e "$inputs/$file" ] || echo "$file"; done)
[ -z "$missing" ] || die "$archive is cut off: it lacks $(wc -l <<< "$missing") of $(wc -l < "$sums") files" "the first: $(head -1 <<< "$missing")"
changed=$(cd "$inputs" && cut -c67- SHA256SUMS | sha256_list 2> /dev/null | LC_ALL=C sort | LC_ALL=C comm -23 - <(LC_ALL=C sort SHA256SUMS)) ||
    die "$archive is damaged: its list names something that is not a file"
[ -z "$changed" ] || die "$archive is damaged: $(head -1 <<< "$changed" | cut -c67-) is not the file that its list names"

if [ -e "$inputs/driver/driver.toml" ]; then
    [ -z "${FIRSTLIGHT_DRIVER:-}" ] || die "$archive has a driver of its own, and FIRSTLIGHT_DRIVER is '$FIRSTLIGHT_DRIVER'" "leave it out"
    export FIRSTLIGHT_DRIVER=$inputs/driver/driver.toml
fi

# Crates in the form in which cargo reads them from a folder, at the path where it unpacks those of the registry.
crates=$inputs/cargo/registry/src/$registry
mkdir -p "$crates"
while read -r name version hash; do
    tar --extract --gzip --file="$inputs/crates/$registry/$name-$version.crate" --directory="$crates" --no-same-owner
    printf '{"files":{},"package":"%s"}' "$hash" > "$crates/$name-$version/.cargo-checksum.json"
done < <(locked_crates)
printf '[source.crates-io]\nreplace-with = "archive"\n[source.archive]\ndirectory = "/build/cargo/registry/src/%s"\n' "$registry" \
    > "$inputs/cargo/config.toml"

user=(); [ "$(id -u)" = 0 ] || user=(--map-root-user)
say "building without network"
cd "$REPO"
# shellcheck disable=SC2016  # expanded by the inner shell
PATH=$inputs/rust/bin:$PATH FIRSTLIGHT_CACHE=$CACHE FIRSTLIGHT_INPUTS=$inputs unshare "${user[@]}" --net -- bash -euc '
    others=$(awk -F: "NR > 2 && \$1 !~ /^ *lo\$/ { print \$1 }" /proc/self/net/dev)
    [ -z "$others" ] || { echo "firstlight: error: the network namespace has interfaces:" $others >&2; exit 1; }
    image/build.sh
    [ "$1" = image ] || image/media.sh
' offline "$what" 7>&- || die "the offline build failed"
say "built offline from $archive: target/image/out$([ "$what" = image ] || echo ', target/image/media'), image $(cat "$REPO/target/image/out/.image-id")"
