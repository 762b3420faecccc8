#!/usr/bin/env bash
# build.sh [--arch amd64|arm64|all]: builds the package for ordinary hosts with glibc 2.28 or newer, in target/package/out; for
# amd64 (x86-64) unless named:
#   firstlight_VERSION_amd64.deb         made by cargo-deb from [package.metadata.deb] in validator/Cargo.toml
#   firstlight-VERSION-1.x86_64.rpm      made by cargo-generate-rpm from [package.metadata.generate-rpm] there
#   firstlight-VERSION-x86_64.tar.xz     the same files, for hosts without either
# and with the names of arm64 (_arm64.deb, .aarch64.rpm, -aarch64.tar.xz) for that.
# The pinned rustc compiles. The linker is zig, which has the symbols of every glibc version and architecture: the glibc of most
# builders is newer than that of most hosts. On Debian 12 and 13, and in the Debian folder, this runs in the pinned compiler tree, and
# the same inputs give the same bytes; elsewhere it runs on the host itself, with the same rustc and zig, and gives other bytes.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
glibc=2.28
usage='package [--arch amd64|arm64|all]'
case $# in 0) set -- --arch amd64 ;; 2) ;; *) die "expected --arch and an architecture, not $# words" "$usage" ;; esac
[ "$1" = --arch ] || die "unknown word '$1'" "$usage"
case $2 in
    amd64 | arm64) wanted=("$2") ;;
    all) wanted=(arm64 amd64) ;;
    *) die "unknown architecture '$2'" "$usage" ;;
esac
work=$REPO/target/package
mkdir -p "$work/rust" "$work/out"
exec 8> "$work/lock"; flock 8
cd "$REPO"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
tree=yes
{ ( . /etc/os-release && case "${ID:-} ${VERSION_ID:-}" in 'debian 12' | 'debian 13') ;; *) exit 1 ;; esac ) && command -v apt-get && command -v dpkg-deb; } > /dev/null 2>&1 || tree=

# zig is a package of the Python registry, pinned like the others.
"$REPO/image/fetch.sh" package
read -r name zig_version arch _ < <(locked package)
zig=$CACHE/zig-$zig_version
if [ ! -e "$zig" ]; then
    rm -rf "$zig.part"
    python3 -m zipfile -e "$(deb_path "$name" "$zig_version" "$arch")" "$zig.part"
    chmod +x "$zig.part/ziglang/zig"
    mv "$zig.part" "$zig"
fi
sysroot=$(rustc --print sysroot)
prove_rust "$sysroot"
cargo fetch --locked --quiet
programs=(firstlight firstlight-collect)
cargo_home=${CARGO_HOME:-$HOME/.cargo}

# ARCH: sets what the architecture is called by Rust (target) and by zig, rpm and tar (machine).
name_architecture() {
    case $1 in
        amd64) machine=x86_64 ;;
        arm64) machine=aarch64 ;;
    esac
    target=$machine-unknown-linux-gnu
}

# ARCH: builds the programs in $work/rust/TARGET/release.
build() {
    name_architecture "$1"
    [ "$1" = amd64 ] || prove_rust_std "$sysroot" "$target"
    say "building ${programs[*]} for $machine and glibc $glibc"
    local key=${target//-/_} zig_at=$zig cc=$work/cc-$1 call out=$work/rust
    [ -z "$tree" ] || { zig_at=/build/zig cc=/build/cc out=/build/target; }
    # The C compiler and linker that cargo calls. The crate cc passes the target in a form that zig does not accept.
    cat > "$work/cc-$1" << EOF
#!/usr/bin/env bash
# Made by image/package/build.sh: zig's C compiler and linker, for glibc $glibc.
words=()
for word in "\$@"; do case \$word in --target=*) ;; *) words+=("\$word") ;; esac; done
exec "$zig_at/ziglang/zig" cc -target $machine-linux-gnu.$glibc "\${words[@]}"
EOF
    chmod +x "$work/cc-$1"
    if [ -n "$tree" ]; then
        call=("$REPO/image/in-tools.sh" compiler --bind "$REPO:/build/firstlight" --bind "$work/rust:/build/target" --bind "$work/cc-$1:/build/cc"
            --bind "$zig:/build/zig" --bind "$sysroot:/build/rust" --bind "$cargo_home/registry:/build/cargo/registry"
            --cwd /build/firstlight PATH=/build/rust/bin:/usr/sbin:/usr/bin CARGO_HOME=/build/cargo)
    else
        # Messages of panics and of C's assertions have paths of sources: the builder's folders do not belong into a package.
        call=(env -i "HOME=$HOME" "PATH=$sysroot/bin:$PATH" "CARGO_HOME=$cargo_home" LC_ALL=C TZ=UTC "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH"
            "CFLAGS_$key=-ffile-prefix-map=$cargo_home=/build/cargo"
            RUSTFLAGS="--remap-path-prefix=$cargo_home=/build/cargo --remap-path-prefix=$REPO=/build/firstlight")
    fi
    "${call[@]}" CARGO_TARGET_DIR="$out" ZIG_GLOBAL_CACHE_DIR="$out/zig" ZIG_LOCAL_CACHE_DIR="$out/zig" "CC_$key=$cc" "AR_$key=ar" \
        "CARGO_TARGET_${key^^}_LINKER=$cc" \
        cargo build --locked --offline --release --target "$target" "${programs[@]/#/--bin=}" >&2
}

# Completions and manual are the same on each architecture; a program of another one need not run here.
if [ "$(uname -m)" = x86_64 ]; then own=amd64; else own=arm64; fi
for arch in "${wanted[@]}"; do build "$arch"; done
case " ${wanted[*]} " in *" $own "*) ;; *) build "$own" ;; esac
name_architecture "$own"
runs=$work/rust/$target/release/firstlight

# ARCH: one folder with all files as they are installed; all packages are made from it.
pack() {
    name_architecture "$1"
    stage=$work/stage share=$work/stage/usr/share
    rm -rf "$stage"
    mkdir -p "$stage"/{usr/bin,etc/firstlight,usr/lib/systemd/system} \
        "$share"/{doc/firstlight,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d,man/man1}
    for program in "${programs[@]}"; do
        install -m 0755 "$work/rust/$target/release/$program" "$stage/usr/bin/$program"
        # The program must not need a newer glibc than the package declares.
        newest=$(objdump -T "$stage/usr/bin/$program" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
        [ "$(printf '%s\n' "GLIBC_$glibc" "$newest" | sort -V | tail -1)" = "GLIBC_$glibc" ] ||
            die "$program needs $newest" "the package is for glibc $glibc and newer"
    done
    "$runs" completions bash > "$share/bash-completion/completions/firstlight"
    "$runs" completions zsh > "$share/zsh/vendor-completions/_firstlight"
    "$runs" completions fish > "$share/fish/vendor_completions.d/firstlight.fish"
    "$runs" man | gzip -9n > "$share/man/man1/firstlight.1.gz"
    install -m 0644 "$REPO/image/package/config.toml" "$stage/etc/firstlight/"
    install -m 0644 "$REPO"/image/package/firstlight*.{service,timer} "$stage/usr/lib/systemd/system/"
    # Licences: ours, and those of everything that is linked into the programs.
    crates=$(for program in "${programs[@]}"; do
        cargo tree --locked --offline --package "$program" --target "$target" --edges normal,no-proc-macro --no-dedupe --prefix none \
            --format '{p}|{l}'
    done | sed -E 's/ \([^)]*\)//; s/^([^ ]+) v([^|]+)\|(.*)$/ \1 \2: \3/' | grep -v '^ firstlight' | LC_ALL=C sort -u)
    {
        # cargo-deb uses a file with such lines unchanged.
        printf 'Upstream-Name: firstlight\nCopyright: %s\nLicense: MIT or Apache-2.0, at your option\n\n' "$(sed -n 's/^Copyright (c) //p' LICENSE-MIT)"
        printf 'These crates are linked into the programs, with these licences:\n%s\n\n' "$crates"
        printf 'And from zig %s: parts of LLVM (Apache-2.0 WITH LLVM-exception, MIT), the start code of glibc (LGPL-2.1 with exception).\n\n' \
            "$zig_version"
        cat LICENSE-MIT LICENSE-APACHE
    } > "$share/doc/firstlight/copyright"
    chmod 0644 "$share/doc/firstlight/copyright"
    find "$stage" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +

    folder=firstlight-$version-$machine
    rm -f "$work"/out/firstlight*"_$1.deb" "$work"/out/firstlight*".$machine.rpm" "$work"/out/firstlight*"-$machine.tar.xz"
    "$REPO/target/tools/bin/cargo-deb" --quiet --package firstlight --no-build --no-strip --locked --offline --deb-revision "" --target "$target" \
        --output "$work/out/firstlight_${version}_$1.deb" > /dev/null
    # xz is what rpm of RHEL 8 reads, too.
    "$REPO/target/tools/bin/cargo-generate-rpm" --package validator --target "$target" --auto-req no --payload-compress xz \
        --output "$work/out/firstlight-$version-1.$machine.rpm" > /dev/null
    tar -c -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --transform="s,^\.,$folder," . | xz -T1 > "$work/out/$folder.tar.xz"
}
for arch in "${wanted[@]}"; do pack "$arch"; done
say "made $(cd "$work/out" && du -h -- * | awk '{ printf "%s%s (%s)", sep, $2, $1; sep = ", " }') in target/package/out"
