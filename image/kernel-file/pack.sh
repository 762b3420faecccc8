#!/usr/bin/env bash
# pack.sh KERNEL IMAGE-ID FOLDER: writes FOLDER/firstlight-kernel-VERSION.tar, with which modules are built for the kernel of an
# image without building that kernel. KERNEL is what kernel-config/build.sh printed. The file has three members:
#   kernel.toml     release and vermagic, the SHA256 of both vmlinuz and of the tree, and the image beside which it was written
#   compiler.lock   the packages of the compiler, as in inputs.lock
#   tree.tar.zst    release, source/ and build/ as in KERNEL, cut down to what a module needs (the list in the kernel's
#                   scripts/package/install-extmod-build), one of the kernel's own modules to compare with, and SHA256SUMS
# The same kernel gives the same tree; it is packed once.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
kernel=$1 image_id=$2 folder=$3
release=$(cat "$kernel/release")
made=$CACHE/kernel-file/packed-$( { basename "$kernel"; cat "$0"; locked tools; } | hash_of -)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

# The names of the parts of KERNEL/source and KERNEL/build that modules need, from within that folder
of_source() {
    printf '%s\n' Makefile Kbuild
    find arch/x86 -maxdepth 1 -name 'Makefile*'
    find arch/x86/include include -type f -o -type l
    scripts
}
of_build() {
    printf '%s\n' .config Makefile Module.symvers source tools/objtool/objtool include/config/{auto.conf,kernel.release}
    find arch/x86/include include/generated -type f -o -type l
    scripts
}
scripts() {
    find scripts \( -name atomic -o -name dtc -o -name kconfig -o -name package \) -prune -o \
        ! -name '.*.cmd' ! -name '*.o' \( -type f -o -type l \) -print
}
reference=$(cd "$kernel" && find modules -name '*.ko' | LC_ALL=C sort | sed -n 1p)
[ -n "$reference" ] || die "the kernel in $kernel has no module to compare with"

if [ ! -e "$made" ]; then
    mkdir -p "$CACHE/kernel-file"
    tree=$work/tree
    mkdir -p "$tree/$(dirname "$reference")"
    cp "$kernel/release" "$tree/"
    cp "$kernel/$reference" "$tree/$reference"
    for part in source build; do
        mkdir "$tree/$part"
        ( cd "$kernel/$part" && "of_$part" | tar -c --no-recursion -T - ) | tar -x -C "$tree/$part"
    done
    ( cd "$tree" && find . -type f -printf '%P\n' | LC_ALL=C sort | sha256_list ) > "$work/sums"
    mv "$work/sums" "$tree/SHA256SUMS"
    chmod -R u=rwX,go=rX "$tree"
    say "packing what modules of this kernel are built with ($(wc -l < "$tree/SHA256SUMS") files, once)"
    "$REPO/image/in-tools.sh" tools --bind "$work:/build/work" --cwd /build/work sh -c '
        tar -c --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C tree . > tree.tar
        zstd -q --ultra -22 --long=27 -T1 --rm tree.tar -o tree.tar.zst' || die "the kernel's files cannot be packed"
    cp "$work/tree.tar.zst" "$made.part.$$" && mv "$made.part.$$" "$made"
fi

file=$work/file; mkdir "$file"
cp "$made" "$file/tree.tar.zst"
locked compiler > "$file/compiler.lock"
sum() { local hash; hash=$(sha256 "$1"); echo "${hash%% *}"; }
cat > "$file/kernel.toml" << EOF
# A kernel of firstlight: what modules for it are built with, by ./run driver --for IMAGE
schema = "firstlight.kernel-file/1"
release = "$release"
vermagic = "$(tr '\0' '\n' < "$kernel/$reference" | sed -n 's/^vermagic=//p' | sed -n 1p)"
vmlinuz_sha256 = "$(sum "$kernel/off/vmlinuz")"
vmlinuz_pt_sha256 = "$(sum "$kernel/pt/vmlinuz")"
tree_sha256 = "$(sum "$made")"
# The image beside which this file was written; others with the same kernel fit as well.
image_id = "$image_id"
EOF
chmod 0644 "$file"/*
"$REPO/image/in-tools.sh" tools --bind "$file:/build/file" --bind "$folder:/build/folder" --cwd /build/file sh -c '
    tar -c --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -f "/build/folder/$1" kernel.toml compiler.lock tree.tar.zst' \
    sh "firstlight-kernel-${release%%-*}.tar" || die "the kernel's file cannot be written to $folder"
