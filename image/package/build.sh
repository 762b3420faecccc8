#!/usr/bin/env bash
# build.sh: builds the package for ordinary hosts with glibc 2.28 or newer, in target/package/out:
#   firstlight_VERSION_amd64.deb         made by cargo-deb from [package.metadata.deb] in validator/Cargo.toml
#   firstlight-VERSION-x86_64.tar.xz     the same files, for hosts without dpkg
# The pinned rustc links in the pinned compiler tree. The linker is zig, which has the symbols of every glibc version: that
# tree's own glibc is newer than that of most hosts. The same inputs give the same bytes.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
glibc=2.28
work=$REPO/target/package target=x86_64-unknown-linux-gnu
mkdir -p "$work/rust" "$work/out"
exec 8> "$work/lock"; flock 8
cd "$REPO"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

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
# The C compiler and linker that cargo calls. The crate cc passes the target in a form that zig does not accept.
cat > "$work/cc" << EOF
#!/usr/bin/bash
# Made by image/package/build.sh: zig's C compiler and linker, for glibc $glibc.
words=()
for word in "\$@"; do case \$word in --target=*) ;; *) words+=("\$word") ;; esac; done
exec /build/zig/ziglang/zig cc -target x86_64-linux-gnu.$glibc "\${words[@]}"
EOF
chmod +x "$work/cc"

sysroot=$(rustc --print sysroot)
prove_rust "$sysroot"
cargo fetch --locked --quiet
programs=(firstlight firstlight-collect)
say "building ${programs[*]} for glibc $glibc"
"$REPO/image/in-tools.sh" compiler --bind "$REPO:/build/firstlight" --bind "$work/rust:/build/target" --bind "$work/cc:/build/cc" \
    --bind "$zig:/build/zig" --bind "$sysroot:/build/rust" --bind "${CARGO_HOME:-$HOME/.cargo}/registry:/build/cargo/registry" \
    --cwd /build/firstlight PATH=/build/rust/bin:/usr/sbin:/usr/bin CARGO_HOME=/build/cargo CARGO_TARGET_DIR=/build/target \
    ZIG_GLOBAL_CACHE_DIR=/build/target/zig ZIG_LOCAL_CACHE_DIR=/build/target/zig CC=/build/cc AR=ar \
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=/build/cc \
    cargo build --locked --offline --release --target "$target" "${programs[@]/#/--bin=}" >&2

# One folder with all files as they are installed; both packages are made from it.
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
firstlight=$stage/usr/bin/firstlight
"$firstlight" completions bash > "$share/bash-completion/completions/firstlight"
"$firstlight" completions zsh > "$share/zsh/vendor-completions/_firstlight"
"$firstlight" completions fish > "$share/fish/vendor_completions.d/firstlight.fish"
"$firstlight" man | gzip -9n > "$share/man/man1/firstlight.1.gz"
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

rm -rf "$work/out"; mkdir -p "$work/out"
"$REPO/target/tools/bin/cargo-deb" --quiet --package firstlight --no-build --no-strip --locked --offline --deb-revision "" \
    --output "$work/out/firstlight_${version}_amd64.deb" > /dev/null
folder=firstlight-$version-x86_64
tar -c -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --transform="s,^\.,$folder," . | xz -T1 > "$work/out/$folder.tar.xz"
say "made $(cd "$work/out" && du -h -- * | awk '{ printf "%s%s (%s)", sep, $2, $1; sep = ", " }') in target/package/out"
