#!/usr/bin/env bash
# cargo-tool.sh NAME VERSION SHA256 [OPTION..]: builds a program of the crates' registry into target/tools, unless it is there.
# The registry is not believed: its file must have this SHA256 before anything of it is built, and what it depends on is in its
# own lock file, with the hashes of all crates. OPTION: for cargo install.
set -euo pipefail
cd "$(dirname "$0")/../.."
name=$1 version=$2 sum=$3
shift 3
tools=$PWD/target/tools
stamp=$tools/.$name-$version-$(printf '%s ' "$sum" "$@" | sha256sum | cut -c1-16)
[ ! -e "$stamp" ] || [ ! -x "$tools/bin/$name" ] || exit 0
echo "run: installing the crate: $name $version, into target/tools (some minutes)" >&2
mkdir -p "$tools"
# Outside of this folder: below it, cargo would take the program for a part of this workspace, and refuse it.
work=$(mktemp -d) build=$(mktemp -d -p "$tools")
trap 'rm -rf "$work" "$build"' EXIT
# A package that depends on it, so that cargo fetches it as it fetches all crates.
mkdir -p "$work/fetch/src"
: > "$work/fetch/src/lib.rs"
printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' \
    "$name" "$version" > "$work/fetch/Cargo.toml"
cargo fetch --quiet --manifest-path "$work/fetch/Cargo.toml"
for file in "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"$name-$version.crate"; do
    # What is checked is what is built, whatever happens to cargo's copy.
    cp "$file" "$work/crate" && [ "$(sha256sum < "$work/crate")" = "$sum  -" ] && break
    rm -f "$work/crate"
done
[ -e "$work/crate" ] || { echo "run: error: $name $version in the registry is not the one with SHA256 $sum" >&2; exit 1; }
tar -xzf "$work/crate" -C "$work"
CARGO_TARGET_DIR=$build cargo install --quiet --locked --root "$tools" --path "$work/$name-$version" "$@"
rm -f "$tools/.$name-"*
touch "$stamp"
