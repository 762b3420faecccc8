#!/usr/bin/env bash
# build.sh: builds what is stale and puts the image together in target/image/out:
#   firstlight.efi                  UKI, default kernel (iommu=off)
#   firstlight.vmlinuz .initrd      the same sections as files
#   firstlight-pt.efi -pt.vmlinuz   the `pt` kernel with the same initrd
#   firstlight.files                SHA256, path, package of every file in the image
#   firstlight.cmdline              the words that the UKI carries besides the kernel's built-in ones
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
work=$REPO/target/image; out=$work/out
mkdir -p "$work"
exec 8> "$work/lock"; flock 8

kernel=$("$REPO/kernel-config/build.sh")
binaries=$("$REPO/image/rust.sh")
release=$(cat "$kernel/release")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$REPO/Cargo.toml" | head -1)
image_id=$( {
    echo "$version $SOURCE_DATE_EPOCH $(basename "$kernel")"; locked image; locked source | grep ^mkosi; locked tools
    sha256sum < "$binaries/init"; sha256sum < "$binaries/firstlight"
    cd "$REPO/image"; find files base mkosi.* keep.list cmdline build.sh \( -type f -o -type l \) -printf '%p %m %l\n' | LC_ALL=C sort
    find files base mkosi.* keep.list cmdline build.sh -type f | LC_ALL=C sort | xargs sha256sum
} | hash_of -)
echo "$kernel/source $kernel/build" > "$work/kernel-tree"
if [ "$(cat "$out/.image-id" 2> /dev/null)" = "$image_id" ]; then exit 0; fi

say "making image $image_id"
began=$(date +%s)
"$REPO/image/fetch.sh" image source
read -r name mkosi_version arch _ < <(locked source | grep '^mkosi ')
mkosi=$CACHE/mkosi-$mkosi_version
[ -e "$mkosi/usr/bin" ] || dpkg-deb -x "$(deb_path "$name" "$mkosi_version" "$arch")" "$mkosi"

stage=$work/stage recipe=$work/recipe
rm -rf "$stage" "$recipe" "$work/base" "$work/new"; mkdir -p "$stage/usr/bin" "$stage/usr/lib/modules" "$recipe" "$work/new"
# copies that belong to whoever builds: mkosi keeps owners, and a plain user's tree has just one
own_copy() { cp -r --no-dereference --preserve=mode,timestamps,links "$@"; }
own_copy "$REPO/image/files/." "$stage/"
own_copy "$REPO/image/base" "$work/base"
cp "$binaries/init" "$stage/init"; cp "$binaries/firstlight" "$stage/usr/bin/firstlight"
own_copy "$kernel/modules/usr/lib/modules/$release" "$stage/usr/lib/modules/"
cp "$kernel/off/vmlinuz" "$stage/usr/lib/modules/$release/vmlinuz"
# no archive for mkosi's apt: it installs nothing
mkdir -p "$recipe/mkosi.sandbox/etc/apt/sources.list.d"; : > "$recipe/mkosi.sandbox/etc/apt/sources.list.d/mkosi.sources"
cp "$REPO/image"/{keep.list,inputs.lock,mkosi.conf,mkosi.prepare,mkosi.postinst,mkosi.finalize} "$recipe/"
echo "$version $image_id" > "$recipe/identity"

in_tools() {
    "$REPO/image/in-tools.sh" tools --bind "$mkosi/usr/lib/python3/dist-packages:/build/mkosi" --bind "$recipe:/build/recipe" \
        --bind "$CACHE/debs:/build/debs" --bind "$stage:/build/stage" --bind "$work/base:/build/base" \
        --bind "$work/new:/build/out" --bind "$kernel:/build/kernel" --cwd /build/recipe PYTHONPATH=/build/mkosi "$@"
}
in_tools sh -c 'mkdir /build/work && exec python3 -B -m mkosi --source-date-epoch "$SOURCE_DATE_EPOCH" \
    --kernel-command-line "$1" --force build' sh "$(cat "$REPO/image/cmdline")" > "$work/mkosi.log" 2>&1 ||
    { tail -20 "$work/mkosi.log" >&2; die "mkosi failed" "the whole log: $work/mkosi.log"; }
in_tools sh -c 'ukify build --linux=/build/kernel/pt/vmlinuz --initrd=/build/out/firstlight.initrd --cmdline="$1" --uname="$2" \
    --stub=/usr/lib/systemd/boot/efi/linuxx64.efi.stub --os-release=@/build/base/usr/lib/os-release \
    --output=/build/out/firstlight-pt.efi' sh "$(cat "$REPO/image/cmdline")" "$release" > "$work/ukify.log" 2>&1 ||
    { tail -20 "$work/ukify.log" >&2; die "ukify failed"; }
cp "$kernel/pt/vmlinuz" "$work/new/firstlight-pt.vmlinuz"
cp "$REPO/image/cmdline" "$work/new/firstlight.cmdline"
echo "$image_id" > "$work/new/.image-id"
rm -rf "$out"; mv "$work/new" "$out"
say "image made in $(( $(date +%s) - began )) s: $(cd "$out" && du -Lh --apparent-size firstlight.efi firstlight.vmlinuz firstlight.initrd | awk '{ printf "%s %s  ", $2, $1 }')"
