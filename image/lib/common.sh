# Functions and settings that all build scripts share. Sourced, after `set -euo pipefail`.

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CACHE=${FIRSTLIGHT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/firstlight}
LOCK=$REPO/image/inputs.lock
# In an offline build (image/reproduce/offline.sh) the folder with all inputs: nothing is fetched, the host's Rust is not used.
INPUTS=${FIRSTLIGHT_INPUTS:-}
DEBS=${INPUTS:-$CACHE}/debs
# The date of everything that is built: the release date of the pinned kernel. Not the date of the build,
# so that the same inputs give the same bytes.
export SOURCE_DATE_EPOCH=1788000000
umask 022
mkdir -p "$CACHE"

say() { printf '%s\n' "firstlight: $*" >&2; }
die() { printf '%s\n' "firstlight: error: $1${2:+ ($2)}" >&2; exit 1; }

# WHAT BEGAN: notes how many seconds a step took, where somebody prints them (image/report.sh) and has set a file for them.
spent() { [ -z "${FIRSTLIGHT_SECONDS:-}" ] || echo "$1 $(( $(date +%s) - $2 ))" >> "$FIRSTLIGHT_SECONDS"; }

# The lock's lines for one use: NAME VERSION ARCH SIZE SHA256
locked() { awk -v use="$1" '$1 == use { print $2, $3, $4, $5, $6 }' "$LOCK"; }

# Crates that Cargo.lock names: NAME VERSION SHA256
locked_crates() {
    awk -F'"' '/^name = /{ name = $2 } /^version = "/{ version = $2 } /^checksum = /{ print name, version, $2 }' "$REPO/Cargo.lock"
}

# sha256 FILE..: prints what sha256sum prints. OpenSSL has the processor compute it, in a fifth of the time that sha256sum of
# Debian 12 needs; hosts without it have sha256sum.
sha256() {
    if command -v openssl > /dev/null; then openssl dgst -sha256 -r -- "$@" | sed 's/ \*/  /'; else sha256sum -- "$@"; fi
}

# sha256_list: the same for the files that standard input names, one on each line.
sha256_list() {
    local list
    mapfile -t list
    sha256 "${list[@]}"
}

# hash_of_list: one hash of all the files that standard input names, whatever their order.
hash_of_list() { sha256_list | LC_ALL=C sort | sha256sum | cut -d' ' -f1; }

# The hash of a sysroot's rustc, cargo and std: of every file in bin, lib and libexec that their lists name. An archive of
# inputs contains only these files, and no lists.
rust_hash() (
    cd "$1"
    if [ "$1" = "$INPUTS/rust" ]; then find bin lib libexec -type f; else
        for component in rustc cargo rust-std; do
            sed -nE 's,^file:((bin|lib|libexec)/),\1,p' "lib/rustlib/manifest-$component-x86_64-unknown-linux-gnu"
        done
    fi | hash_of_list
)

# Proves by its hash that a sysroot is the Rust that rust-toolchain.toml names: a version number alone proves nothing.
prove_rust() {
    local toolchain=$REPO/rust-toolchain.toml pinned found
    [ "$1" = "$INPUTS/rust" ] || [ -e "$1/lib/rustlib/manifest-rust-std-x86_64-unknown-linux-gnu" ] ||
        die "the Rust in $1 has no lists of its files" "it must be rustup's"
    pinned=$(sed -n 's/^# \(commit\|sha256\) //p' "$toolchain" | paste -sd' ')
    found="$("$1/bin/rustc" -vV | sed -n 's/^commit-hash: //p') $(rust_hash "$1")"
    [ "$found" = "$pinned" ] ||
        die "the Rust in $1 is not the one that rust-toolchain.toml names" "commit and SHA256 are $found, expected $pinned; install it again by rustup"
}

# The same for std of another target; rustup installs it if it is missing.
prove_rust_std() {
    local list=$1/lib/rustlib/manifest-rust-std-$2 found
    [ -e "$list" ] || { [ -z "$INPUTS" ] && rustup -q target add "$2" >&2; } || die "the Rust in $1 has no std for $2" "rustup target add $2"
    found=$(cd "$1" && sed -n 's,^file:,,p' "$list" | hash_of_list)
    grep -qxF "# $2 $found" "$REPO/rust-toolchain.toml" ||
        die "std for $2 is not the one that rust-toolchain.toml names" "its SHA256 is $found; install it again by rustup"
}

# The path of a locked file, by NAME VERSION ARCH; ARCH `source` is a source package's upstream tarball, `wheel` a package of
# the Python registry. The hash is verified whenever a file is used.
deb_path() {
    case $3 in
        source) local upstream=${2#*:}; echo "$DEBS/$1_${upstream%-*}.orig.tar.xz" ;;
        wheel) echo "$DEBS/$1-$2.whl" ;;
        *) echo "$DEBS/$1_${2//:/%3a}_$3.deb" ;;
    esac
}

# NAME VERSION FOLDER: a package of the Python registry as FOLDER/NAME-VERSION.whl; the newest one if VERSION is empty.
fetch_wheel() {
    local file
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --platform manylinux_2_28_x86_64 \
        --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux_2_12_x86_64 --dest "$3/wheel" "$1${2:+==$2}" >&2 || return 1
    for file in "$3"/wheel/*.whl; do
        # NAME-VERSION-PYTHON-ABI-PLATFORM.whl
        mv "$file" "$3/$1-$(basename "$file" | cut -d- -f2).whl" || return 1
    done
    rmdir "$3/wheel"
}

# One `KEY = "value"` of a TOML file's first level, for scripts that have no parser available yet.
toml_word() { sed -n "/^\[/q; s/^$2 *= *\"\([^\"]*\)\".*/\1/p" "$1"; }

# The hash of files or of standard input: everything in the cache is named by such a hash.
hash_of() { cat -- "$@" | sha256sum | cut -c1-16; }

# All scripts that one script starts are one run; for `whole`.
export FIRSTLIGHT_RUN=${FIRSTLIGHT_RUN:-$$.$(date +%s%N)}

# contents TREE: prints what a tree of the cache contains: kind, mode, path and target of everything in it, then SHA256 and path
# of each file.
contents() (
    cd "$1" || exit 1
    find . -mindepth 1 -not -path ./.complete -not -path ./.proven -printf '%y %m %P %l\n' | LC_ALL=C sort
    find . -type f -not -path ./.complete -not -path ./.proven -printf '%P\n' | sha256_list | LC_ALL=C sort -k 2
)

# seal TREE: declares a tree of the cache complete, and notes what it contains.
seal() { contents "$1" > "$1.contents"; mv "$1.contents" "$1/.complete"; }

# whole TREE: whether a tree of the cache is complete and still contains exactly what it did then. A run looks once: the file
# .proven names the last run that did. A tree that differs is complete no more, and whoever asked makes it again.
whole() {
    [ -e "$1/.complete" ] || return 1
    [ "$(cat "$1/.proven" 2> /dev/null)" != "$FIRSTLIGHT_RUN" ] || return 0
    local changed
    if ! changed=$(contents "$1" | diff "$1/.complete" -); then
        changed=$(sed -nE 's/^[<>] ([a-z] [0-7]+|[0-9a-f]{64} ) //p' <<< "$changed" | tail -1)
        rm -f "$1/.complete"
        say "${1#"$CACHE/"} in the cache is not what it was when it was made, and is made again: $changed"
        return 1
    fi
    { echo "$FIRSTLIGHT_RUN" > "$1/.proven"; } 2> /dev/null || true
}

# WHAT TOTAL LOG: reads a build's output on standard input, reports progress at every 200th file, and writes all lines to
# LOG. The shell reads line by line; some awks wait for full buffers.
progress() {
    local line files=0 began=$SECONDS
    while IFS= read -r line; do
        printf '%s\n' "$line" >> "$3"
        [[ $line =~ (^|[[:space:]])(CC|AS|LD|AR)([[:space:]]|$) ]] || continue
        files=$(( files + 1 ))
        (( files % 200 )) || say "$1: $files files of about $2, $(( SECONDS - began )) s"
    done
}

# FILE: exits with the code of the last verdict in this console log: 0 PASS, 1 FAIL, 2 ERROR or no verdict, 3 DEGRADED.
exit_by_verdict() {
    local verdict
    verdict=$(tr -d '\r' < "$1" | sed -n 's/^FIRSTLIGHT verdict=\([A-Z]*\) .*/\1/p' | tail -1)
    case $verdict in
        PASS) exit 0 ;;
        FAIL) exit 1 ;;
        ERROR) exit 2 ;;
        DEGRADED) exit 3 ;;
        *) say "error: the console shows no verdict"; exit 2 ;;
    esac
}
