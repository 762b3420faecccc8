# shellcheck shell=bash
# system.sh: the common part of stick and ISO, sourced by stick.sh and iso.sh: an EFI system partition with systemd-boot,
# which shows the boot entries, and the UKI, which has them as profiles. $image is the file that is made, $medium its name.

# COMMAND..: its output goes to $image.log, and is shown if the command fails.
log() { "$@" >> "${image:?}.log" 2>&1 || { tail -20 "$image.log" >&2; die "${medium:?} could not be made" "the whole log: $image.log"; }; }

# OUT WORK SIGNED [ADDON]: writes the partition's files to WORK/tree/esp, and its description for systemd-repart. SIGNED
# is empty, or a folder with signed versions of firstlight.efi and of loader.sh's files, which are used instead. ADDON
# is the one of these files that belongs beside the UKI.
system_partition() {
    local out=$1 work=$2 signed=$3 addon=${4:-} loader=$3 size mib
    mkdir -p "$work"/{tree/esp/EFI/{BOOT,Linux},tree/esp/loader,repart.d}
    [ -n "$signed" ] || { loader=$work/loader; mkdir "$loader"; log "$REPO/image/media/loader.sh" "$loader"; }
    cp "${signed:-$out}/firstlight.efi" "$work/tree/esp/EFI/Linux/"
    cp "$loader/BOOTX64.EFI" "$work/tree/esp/EFI/BOOT/"
    cat > "$work/tree/esp/loader/loader.conf" <<'END'
# systemd-boot shows the boot entries for a second; any key stops the countdown.
timeout 1
default firstlight.efi
editor yes
auto-entries no
auto-firmware no
END
    if [ -n "$addon" ]; then
        mkdir "$work/tree/esp/EFI/Linux/firstlight.efi.extra.d"
        cp "$loader/$addon" "$work/tree/esp/EFI/Linux/firstlight.efi.extra.d/"
    fi
    # The size of its files and 5 % more, for the file system itself and for later versions.
    size=$(stat -c %s "$out/firstlight.efi")
    mib=$(( size * 21 / 20 / 1048576 + 4 ))
    cat > "$work/repart.d/10-esp.conf" <<END
[Partition]
Type=esp
Format=vfat
Label=FL-SYSTEM
SplitName=system
CopyFiles=/esp:/
SizeMinBytes=${mib}M
SizeMaxBytes=${mib}M
END
}

# WORK [OPTION..]: makes WORK/image with the partitions of WORK/repart.d. OPTIONs are systemd-repart's.
partitioned() {
    local work=$1; shift
    # 512: with systemd-repart's default of 4096, firmware cannot read the ESP. The ids of GPT and FAT come from the seed.
    # shellcheck disable=SC2016  # expanded by the inner shell
    log "$REPO/image/in-tools.sh" tools --bind "$work:/build/medium" TMPDIR=/build/medium sh -euc '
        chmod -R u=rwX,go=rX /build/medium/tree
        find /build/medium/tree -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
        systemd-repart --empty=create --size=auto --offline=yes --dry-run=no --no-pager --sector-size=512 \
            --seed=7c2f0d7e-6a52-4d1c-9c0a-2f3f1ad3a5b1 --definitions=/build/medium/repart.d \
            --copy-source=/build/medium/tree "$@" /build/medium/image
    ' sh "$@"
}
