#!/usr/bin/env bash
# iso.sh OUT IMAGE [SIGNED]: assembles the ISO, for machines that accept nothing else, such as virtual CDs of a BMC.
# UEFI finds the EFI system partition (system.sh), a file of the ISO, through El Torito, or through a GPT if the ISO was
# written to a stick. BIOS does not boot it. SIGNED is as for stick.sh.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/media/system.sh"
out=$1 image=$2 signed=${3:-} medium="the ISO"
work=$(mktemp -d "$(dirname "$image")/iso.XXXXXX"); trap 'rm -rf "$work"' EXIT
: > "$image.log"
mkdir "$work"/{files,xorriso}
cat > "$work/files/README.TXT" <<'END'
This is firstlight as a CD, for machines with UEFI: booting from it shows the menu of boot entries.

Nothing can be written here. For settings and reports use a stick with a FAT partition labelled
FIRSTLIGHT, or a server: firstlight.config=URL and report.url.
END
# xorriso and its own libraries; other libraries are in the tools tree.
while read -r name version arch _; do
    case $name in xorriso | libiso* | libburn* | libjte*) dpkg-deb -x "$(deb_path "$name" "$version" "$arch")" "$work/xorriso" ;; esac
done < <(locked media)
system_partition "$out" "$work" "$signed"
partitioned "$work" --split=yes
# All dates and ids come from the pinned date: xorriso reads SOURCE_DATE_EPOCH.
# shellcheck disable=SC2016  # expanded by the inner shell
log "$REPO/image/in-tools.sh" tools --bind "$work:/build/medium" --cwd /build/medium \
    LD_LIBRARY_PATH=/build/medium/xorriso/usr/lib/x86_64-linux-gnu sh -euc '
    mv image.system files/system.img; chmod -R u=rwX,go=rX files; find files -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    xorriso/usr/bin/xorriso -no_rc -as mkisofs -V FIRSTLIGHT-ISO -J -R -uid 0 -gid 0 -o result \
        -e system.img -no-emul-boot -efi-boot-part --efi-boot-image files
'
mv "$work/result" "$image"
rm "$image.log"
