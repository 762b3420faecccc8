#!/usr/bin/env bash
# vendor.sh [FILE]: collects everything that image and media are built from in one archive: packages and source tarballs
# (image/inputs.lock), crates (Cargo.lock), rustc, cargo and std (rust-toolchain.toml), and the driver's files, if `--driver` took
# them from a machine or a folder. FILE is by default
# target/firstlight-inputs-HASH.tar. `just image --offline FILE` builds from it (image/reproduce/offline.sh).
# The same inputs give the same archive. Missing inputs are fetched first.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/driver/describe.sh"
case $# in
    0) to= ;;
    1) to=$1; case $to in '' | -*) die "unknown word '$to'" "vendor [FILE]" ;; esac ;;
    *) die "unknown word '$2'" "vendor [FILE]" ;;
esac
[ -z "$to" ] || [ -d "$(dirname "$to")" ] || die "there is no folder $(dirname "$to")"
[ ! -d "$to" ] || die "$to is a folder" "vendor [FILE]"
cd "$REPO"
stage=$(mktemp -d "$CACHE/vendor.XXXXXX") part=
trap 'rm -rf "$stage" ${part:+"$part"}' EXIT

# Everything that is locked for x86-64, except that of NCCL's wheels, which are large, only the described driver's is taken.
driver_nccl=
[ -z "$DRIVER_FILE" ] || describe_driver
needed() { awk -v wheel="driver-nccl-$driver_nccl" '!/^#/ && $1 !~ /-arm64$/ && ($4 != "wheel" || $1 == wheel)' "$LOCK"; }
# shellcheck disable=SC2046  # a list
"$REPO/image/fetch.sh" $(needed | awk '!seen[$1]++ { print $1 }')
other=$(grep '^source = ' Cargo.lock | grep -v '"registry+https://github.com/rust-lang/crates.io-index"' || true)
[ -z "$other" ] || die "Cargo.lock names a crate that is not from crates.io" "$(head -1 <<< "$other")"
say "fetching crates that are missing"
cargo fetch --locked --quiet
# Cargo's name for the folder of crates from crates.io: it appears in the binaries' panic messages.
registry=$(cargo metadata --locked --format-version 1 | grep -o '/registry/src/index\.crates\.io-[0-9a-f]*/' | sed -n 1p)
[ -n "$registry" ] || die "cargo uses no crate from crates.io" "a source replacement in cargo's configuration?"
registry=$(basename "$registry")
sysroot=$(rustc --print sysroot)
prove_rust "$sysroot"

# A tree of links to the files of the archive.
mkdir -p "$stage/debs" "$stage/crates/$registry" "$stage/rust"
cp image/inputs.lock Cargo.lock rust-toolchain.toml "$stage/"
while read -r _ name version arch _; do
    ln -sf "$(deb_path "$name" "$version" "$arch")" "$stage/debs/"
done < <(needed)
while read -r name version hash; do
    crate=${CARGO_HOME:-$HOME/.cargo}/registry/cache/$registry/$name-$version.crate
    [ "$(sha256 "$crate")" = "$hash  $crate" ] || die "$crate is not the crate that Cargo.lock names" "remove it"
    ln -s "$crate" "$stage/crates/$registry/"
done < <(locked_crates)
if [ -n "$DRIVER_FILE" ] && [ "$driver_source" = parts ]; then
    for entry in "$(sha256sum < "$DRIVER_FILE" | cut -d' ' -f1):driver.toml" $driver_parts "$driver_files_modules_sha256:$driver_files_modules"; do
        path=${entry#*:} file=$DRIVER_FILE
        [ "$path" = driver.toml ] || { file=$(beside "$path"); proven_file driver "$file" "${entry%%:*}" "$path"; }
        mkdir -p "$stage/driver/$(dirname "$path")"
        ln -s "$(realpath "$file")" "$stage/driver/$path"
    done
fi
for component in rustc cargo rust-std; do
    list=$sysroot/lib/rustlib/manifest-$component-x86_64-unknown-linux-gnu
    [ -e "$list" ] || die "the toolchain in $sysroot has no list of $component's files" "it must be rustup's"
    sed -n 's/^file://p' "$list" | while read -r file; do
        mkdir -p "$stage/rust/$(dirname "$file")"; ln -s "$sysroot/$file" "$stage/rust/$file"
    done
done

files=$(cd "$stage" && find . \( -type f -o -type l \) -printf '%P\n' | LC_ALL=C sort)
size=$(du -smL "$stage" | cut -f1)
count() { grep -c "^$1/" <<< "$files"; }
say "collecting ${driver_source:+$([ "$driver_source" != parts ] || echo "driver $driver_version, ")}$(count debs) packages, $(count crates) crates, $("$sysroot/bin/rustc" --version): $size MB"
( cd "$stage" && sha256_list <<< "$files" ) > "$stage/SHA256SUMS"
[ -n "$to" ] || { mkdir -p target; to=$REPO/target/firstlight-inputs-$(hash_of "$stage/SHA256SUMS").tar; }
part=$(mktemp "$to.XXXXXX")
# The list comes first, so that an archive that does not fit is refused before a gigabyte is unpacked.
printf '%s\n' SHA256SUMS "$files" > "$stage/order"
export FIRSTLIGHT_SIZE=$size
# shellcheck disable=SC2016  # expanded by tar's shell
tar --create --file="$part" --directory="$stage" --dereference --hard-dereference --format=gnu --transform='s,^,firstlight-inputs/,' \
    --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' --mtime="@$SOURCE_DATE_EPOCH" --blocking-factor=2048 --files-from="$stage/order" \
    --checkpoint=200 --checkpoint-action='exec=echo "firstlight: packed $TAR_CHECKPOINT of $FIRSTLIGHT_SIZE MB" >&2' ||
    die "the archive cannot be written" "$(df -h --output=avail "$(dirname "$to")" | tail -1 | xargs) are free in $(dirname "$to")"
hash=$(sha256 "$part"); hash=${hash%% *}
chmod 0644 "$part"
mv "$part" "$to"; part=
say "$(realpath "$to"): $(stat -c %s "$to") bytes, SHA256 $hash"
say "builds from it without network: ./run image --offline $(realpath "$to")"
