#!/usr/bin/env bash
# build.sh [--resolve]: builds the arm64 kernel on x86-64 with the pinned cross compiler and prints the cache folder:
#   vmlinuz     an EFI program that unpacks itself; it goes into the UKI
#   Image       the same kernel as QEMU starts it without firmware
#   modules/    usr/lib/modules/VERSION, stripped, with depmod's indexes
# Done once for each set of inputs; the folder's name is their hash. The configuration is that of x86 without the options that
# base.config replaces, so a new shared option reaches both. --resolve stores the result as resolved.config.
set -euo pipefail
source "$(dirname "$0")/../../image/lib/common.sh"
here=$REPO/kernel-config/arm64 shared=$REPO/kernel-config
key=$( { locked source | grep '^linux-source-'; locked compiler-arm64; echo "$SOURCE_DATE_EPOCH"
         cat "$shared"/fragments/* "$shared"/{check,resolve,source}.sh "$here"/*; } | hash_of -)
kernels=$CACHE/kernel-arm64
result=$kernels/$key
if [ "${1:-}" = --resolve ]; then result=$kernels/resolve; rm -rf "$result"; fi
! whole "$result" || { echo "$result"; exit 0; }

mkdir -p "$kernels"
exec 9> "$kernels/lock"; flock 9
! whole "$result" || { echo "$result"; exit 0; }
began=$(date +%s)
rm -rf "$result"; mkdir -p "$result"/{source,build,modules,config/fragments,config/flavours}
"$shared/source.sh" "$result/source" compiler-arm64

# Prepares what the shared scripts expect: fragments without the options in base.config, and base.config as the flavour.
named='match($0, /CONFIG_[A-Za-z0-9_]+(=| is not set$)/) { name = substr($0, RSTART, RLENGTH); sub(/(=| is not set)$/, "", name) }'
cp "$shared"/{check,resolve}.sh "$result/config/"
cp "$here/base.config" "$result/config/flavours/arm64.config"
for fragment in "$shared"/fragments/*.config; do
    awk "{ name = \"\" } $named"' FNR == NR { own[name]; next } name == "" || !(name in own)' \
        "$here/base.config" "$fragment" > "$result/config/fragments/${fragment##*/}"
done

in_tools() {
    "$REPO/image/in-tools.sh" compiler-arm64 --bind "$result/source:/build/source" --bind "$result/build:/build/out" \
        --bind "$result/modules:/build/modules" --bind "$result/config:/build/kernel-config" \
        ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- KBUILD_BUILD_TIMESTAMP="$(date -u -d "@$SOURCE_DATE_EPOCH")" \
        KBUILD_BUILD_VERSION=1 KBUILD_BUILD_USER=firstlight KBUILD_BUILD_HOST=firstlight "$@"
}
# The compiler flags are explained in ../build.sh.
build() { in_tools make -C /build/source O=/build/out -j"$(( $(nproc) + 1 ))" \
    KCFLAGS="-ftrack-macro-expansion=0 -Wno-misleading-indentation" "$@" 2>&1 | progress 'arm64 kernel' 3300 "$result/build.log" || {
    tail -20 "$result/build.log" >&2; die "the arm64 kernel does not build" "the whole log: $result/build.log"; }; }

in_tools /build/kernel-config/resolve.sh /build/source /build/out arm64
if [ "${1:-}" = --resolve ]; then
    cp "$result/build/.config" "$here/resolved.config"
    rm -rf "$result"
    exit 0
fi
diff -u "$here/resolved.config" "$result/build/.config" >&2 ||
    die "the fragments resolve to something other than kernel-config/arm64/resolved.config" "look at the difference; '$0 --resolve' takes it over"
say "building the arm64 kernel (once, about 15 minutes on 2 cores; 2 GB while it runs)"
build Image vmlinuz.efi modules
cp "$result/build/arch/arm64/boot/Image" "$result/Image"
cp "$result/build/arch/arm64/boot/vmlinuz.efi" "$result/vmlinuz"
build INSTALL_MOD_PATH=/build/modules/usr INSTALL_MOD_STRIP=1 DEPMOD=true modules_install
release=$(cat "$result/build/include/config/kernel.release")
rm -f "$result/modules/usr/lib/modules/$release"/{build,source}
in_tools depmod -b /build/modules/usr "$release"
# No external modules are built against this kernel: there is no GPU driver for arm64 here.
rm -rf "$result"/{source,build,config}
echo "$release" > "$result/release"
seal "$result"
say "arm64 kernel $release built in $(( $(date +%s) - began )) s"
echo "$result"
