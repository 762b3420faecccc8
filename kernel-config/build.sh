#!/usr/bin/env bash
# build.sh: builds both flavours of the kernel with the pinned compiler and prints the cache folder:
#   off/vmlinuz pt/vmlinuz   the two kernels: one build, linked twice, other command line
#   modules/                 usr/lib/modules/VERSION, stripped, with depmod's indexes
#   source/ build/           what building modules against this kernel needs
# Done once for each set of inputs; the folder's name is their hash.
set -euo pipefail
source "$(dirname "$0")/../image/lib/common.sh"
here=$REPO/kernel-config
key=$( { locked source | grep '^linux-source-'; locked compiler; echo "$SOURCE_DATE_EPOCH"
         cat "$here"/fragments/* "$here"/flavours/* "$here"/*.sh; } | hash_of -)
result=$CACHE/kernel/$key
! whole "$result" || { echo "$result"; exit 0; }

exec 9> "$CACHE/kernel.lock"; flock 9
! whole "$result" || { echo "$result"; exit 0; }
began=$(date +%s)
rm -rf "$result"; mkdir -p "$result"/{source,build,modules,off,pt}
"$here/source.sh" "$result/source" compiler

# in_tools FOLDER COMMAND..: with a folder of $result as the folder of what is built
in_tools() {
    local folder=$1; shift
    "$REPO/image/in-tools.sh" compiler --bind "$result/source:/build/source" --bind "$result/$folder:/build/out" \
        --bind "$result/modules:/build/modules" --bind "$here:/build/kernel-config" \
        KBUILD_BUILD_TIMESTAMP="$(date -u -d "@$SOURCE_DATE_EPOCH")" KBUILD_BUILD_VERSION=1 \
        KBUILD_BUILD_USER=firstlight KBUILD_BUILD_HOST=firstlight "$@"
}
# One more process than processors: some wait for files. Without PREFIX_SYMBOLS, which no configuration can switch off, the table of
# symbols does not name the padding before each function as a separate symbol: 45,000 of 116,000.
# The two compiler flags only make warnings less exact: the objects are the same bytes, after a tenth less time.
build() {
    local log=$result/$1.log
    in_tools "$1" make -C /build/source O=/build/out -j"$(( $(nproc) + 1 ))" CONFIG_PREFIX_SYMBOLS= \
        KCFLAGS="-ftrack-macro-expansion=0 -Wno-misleading-indentation" "${@:2}" 2>&1 | progress kernel "$files" "$log" ||
        { tail -20 "$log" >&2; die "the kernel does not build" "the whole log: $log"; }
}

in_tools build /build/kernel-config/resolve.sh /build/source /build/out off
diff -u "$here/resolved.config" "$result/build/.config" >&2 ||
    die "the fragments resolve to something other than kernel-config/resolved.config" "look at the difference; 'just kernel-resolve' takes it over"
say "building the kernel (once, about 10 minutes on 2 cores; 2.5 GB while it runs)"
files=2800
build build vmlinux_o KBUILD_MODULES=1   # compiles everything, modules too

# Linking keeps one processor busy: both flavours are linked at the same time, pt in a copy of the folder.
say "linking both flavours"
files=300
cp -a "$result/build" "$result/pt-build"
{ in_tools pt-build /build/kernel-config/resolve.sh /build/source /build/out pt && build pt-build bzImage; } & pt=$!
trap wait EXIT
build build bzImage modules
cp "$result/build/arch/x86/boot/bzImage" "$result/off/vmlinuz"
build build INSTALL_MOD_PATH=/build/modules/usr INSTALL_MOD_STRIP=1 DEPMOD=true modules_install
release=$(cat "$result/build/include/config/kernel.release")
rm -f "$result/modules/usr/lib/modules/$release"/{build,source}
in_tools build depmod -b /build/modules/usr "$release"
wait "$pt" || die "flavour pt cannot be linked"
cp "$result/pt-build/arch/x86/boot/bzImage" "$result/pt/vmlinuz"
rm -rf "$result/pt-build"

# Keeps what modules are built against and removes the rest of 3 GB.
find "$result/build" -name '*.o' -not -path '*/scripts/*' -delete
find "$result/build" \( -name '.*.cmd' -o -name '*.a' -o -name '*.ko' -o -name '*.mod*' \) -not -path '*/scripts/*' -not -name modules.\* -delete
rm -f "$result/build"/vmlinux* "$result/build/arch/x86/boot/compressed"/vmlinux*
find "$result/source" -mindepth 1 -maxdepth 1 \
    -not -name arch -not -name include -not -name scripts -not -name tools -not -name Makefile -not -name Kconfig -not -name Kbuild \
    -exec rm -rf {} +
echo "$release" > "$result/release"
seal "$result"
say "kernel $release built in $(( $(date +%s) - began )) s"
echo "$result"
