#!/usr/bin/env bash
# arm64.sh image: builds the image for arm64 machines on x86-64, in target/image/arm64/out:
#   firstlight.efi                 UKI with a profile for each boot entry; it has no GPU driver
#   firstlight.vmlinuz .initrd     the same sections as files; firstlight.Image is the kernel for machines without firmware
#   firstlight.entries .cmdline .files   as in image/build.sh
# arm64.sh boot [SCENARIO|none|list] [KERNEL-WORD..]: boots it in QEMU under emulation, with UEFI firmware, ACPI and an SMMU, and
# exits with the verdict's code. `none` (the default) boots the UKI; a scenario of tests/simgpu boots the kernel and the
# initrd, with the simulated GPUs appended to it.
# arm64.sh simulated: builds the simulated libraries and prints their folder.
# Recipe, keep-list and boot entries are those of the x86-64 image; the differences are below.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
work=$REPO/target/image/arm64 out=$REPO/target/image/arm64/out
most=25000000   # bytes of a UKI without a driver
deadline=600    # seconds, against a guest that hangs
# The kernel has no built-in words: the image supplies those of kernel-config/flavours. `iommu=off` has no meaning on arm64.
common='console=tty0 console=ttyAMA0 loglevel=4 printk.devkmsg=on iommu.passthrough=1 pci=config_acs=0000000@pci:0:0 pcie_aspm.policy=performance'

# The boot entries with the words of arm64. There is one kernel.
entries() {
    "$REPO/image/in-tools.sh" tools --bind "$REPO/image/media:/build/media" python3 -B media/entries.py media/entries.toml table |
        awk -F'\t' -v OFS='\t' -v common="$common" '$2 == "pt" { next }
            !own { own = $4 } index($4, own) != 1 { exit 1 } { $4 = common substr($4, length(own) + 1); print }'
}

image() {
    mkdir -p "$work"
    exec 8> "$work/lock"; flock 8
    local kernel binaries entries release version image_id name mkosi_version arch mkosi began=$SECONDS
    kernel=$("$REPO/kernel-config/arm64/build.sh")
    binaries=$("$REPO/image/rust.sh" --arm64)
    entries=$(entries)
    release=$(cat "$kernel/release")
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$REPO/Cargo.toml" | head -1)
    image_id=$( {
        echo "arm64 $version $SOURCE_DATE_EPOCH $(basename "$kernel")"; echo "$entries"; locked image-arm64; locked source | grep ^mkosi; locked tools
        sha256sum < "$binaries/init"; sha256sum < "$binaries/firstlight"
        cd "$REPO/image"; find recipe arm64.sh \( -type f -o -type l \) -printf '%p %m %l\n' | LC_ALL=C sort
        find recipe arm64.sh -type f | LC_ALL=C sort | xargs sha256sum
    } | hash_of -)
    [ "$(cat "$out/.image-id" 2> /dev/null)" != "$image_id" ] || return 0

    say "making arm64 image $image_id"
    "$REPO/image/fetch.sh" image-arm64
    "$REPO/image/fetch.sh" image/busybox-static source/mkosi
    read -r name mkosi_version arch _ < <(locked source | grep '^mkosi ')
    mkosi=$CACHE/mkosi-$mkosi_version
    [ -e "$mkosi/usr/bin" ] || dpkg-deb -x "$(deb_path "$name" "$mkosi_version" "$arch")" "$mkosi"

    local stage=$work/stage recipe=$work/recipe parts=$work/parts new=$work/new
    rm -rf "$stage" "$recipe" "$parts" "$work/base" "$new"
    mkdir -p "$stage/usr/bin" "$stage/usr/lib/modules" "$recipe/mkosi.sandbox/etc/apt/sources.list.d" "$parts" "$new"
    own_copy() { cp -r --no-dereference --preserve=mode,timestamps,links "$@"; }
    own_copy "$REPO/image/recipe/files/." "$stage/"
    own_copy "$REPO/image/recipe/base" "$work/base"
    cat >> "$stage/etc/firstlight/config.toml" << 'CONFIG'

[fabric]
# An SMMU cannot be switched off: each group must be an identity map.
iommu = "pt"

[console]
# The kernel's own console is enough. ttyS0, the usual line, exists on arm64 even if it is not connected to anything.
serial = []
CONFIG
    cp "$binaries/init" "$stage/init"; cp "$binaries/firstlight" "$stage/usr/bin/firstlight"
    own_copy "$kernel/modules/usr/lib/modules/$release" "$stage/usr/lib/modules/"
    cp "$kernel/vmlinuz" "$stage/usr/lib/modules/$release/vmlinuz"

    # The recipe of x86-64, with the packages and paths of arm64.
    cp "$REPO/image/recipe"/mkosi.* "$recipe/"
    : > "$recipe/mkosi.sandbox/etc/apt/sources.list.d/mkosi.sources"
    echo "$version $image_id" > "$recipe/identity"
    sed '/^image /d; s/^image-arm64 /image /' "$LOCK" > "$recipe/inputs.lock"
    sed -E '\,^/(usr/)?lib64[/ ],d; s,x86_64-linux-gnu,aarch64-linux-gnu,; s,ld-linux-x86-64\.so\.2  ,ld-linux-aarch64.so.1 ,' \
        "$REPO/image/recipe/keep.list" > "$recipe/keep.list"
    echo '/usr/lib/ld-linux-aarch64.so.1   the path of the dynamic loader in every ELF file' >> "$recipe/keep.list"
    # busybox of arm64 cannot run here to list its applets; that of x86-64, from the same source, can.
    applets "$parts/busybox" > "$recipe/applets"
    sed -i 's,\./usr/bin/busybox --list,cat "$SRCDIR/recipe/applets",' "$recipe/mkosi.finalize"
    grep -qF '$(cat "$SRCDIR/recipe/applets")' "$recipe/mkosi.finalize" || die "mkosi.finalize does not list the applets as expected"
    read -r name version arch _ < <(locked image-arm64 | grep '^systemd-boot-efi ')
    dpkg-deb -x "$(deb_path "$name" "$version" "$arch")" "$parts/stubs"

    in_tools() {
        "$REPO/image/in-tools.sh" tools --bind "$mkosi/usr/lib/python3/dist-packages:/build/mkosi" --bind "$recipe:/build/recipe" \
            --bind "$DEBS:/build/debs" --bind "$stage:/build/stage" --bind "$work/base:/build/base" --bind "$parts:/build/parts" \
            --bind "$new:/build/out" --bind "$kernel:/build/kernel" --cwd /build/recipe PYTHONPATH=/build/mkosi "$@"
    }
    # shellcheck disable=SC2016  # expanded by the inner shell
    in_tools sh -c 'mkdir /build/work && exec python3 -B -m mkosi --source-date-epoch "$SOURCE_DATE_EPOCH" \
        --architecture arm64 --kernel-command-line "$1" --force build' sh "$common" > "$work/mkosi.log" 2>&1 ||
        { tail -20 "$work/mkosi.log" >&2; die "mkosi failed" "the whole log: $work/mkosi.log"; }
    in_tools zstd -q --ultra -22 --long=27 -T1 --rm -o /build/out/initrd.zst /build/out/firstlight.initrd
    mv "$new/initrd.zst" "$new/firstlight.initrd"
    rm -f "$new"/firstlight "$new"/*.efi
    printf '%s\n' "$entries" > "$new/firstlight.entries"
    echo "$common" > "$new/firstlight.cmdline"
    echo 'driver 0' > "$new/firstlight.sizes"
    cp "$kernel/vmlinuz" "$new/firstlight.vmlinuz"; cp "$kernel/Image" "$new/firstlight.Image"
    unify "$release" > "$work/ukify.log" 2>&1 || { tail -20 "$work/ukify.log" >&2; die "ukify failed" "the whole log: $work/ukify.log"; }
    [ "$(stat -c %s "$new/firstlight.efi")" -le "$most" ] || die "firstlight.efi has $(stat -c %s "$new/firstlight.efi") bytes" "at most $most"
    echo "$image_id" > "$new/.image-id"
    rm -rf "$out"; mv "$new" "$out"
    say "arm64 image made in $((SECONDS - began)) s: $(cd "$out" && du -Lh --apparent-size firstlight.efi firstlight.vmlinuz firstlight.initrd | awk '{ printf "%s %s  ", $2, $1 }')"
}

# FILE: prints the applets of busybox, by running the x86-64 program, which is written to FILE.
applets() {
    local name version arch other
    read -r name version arch _ < <(locked image | grep '^busybox-static ')
    other=$(locked image-arm64 | awk -v name="$name" '$1 == name { print $2 }')
    [ "$version" = "$other" ] || die "the lock has $name $version for x86-64 and $other for arm64" "'just relock image image-arm64'"
    dpkg-deb --fsys-tarfile "$(deb_path "$name" "$version" "$arch")" | tar -xO ./usr/bin/busybox > "$1"
    chmod +x "$1"
    "$1" --list
}

# RELEASE: assembles the UKI in the tools tree; the first entry is its main profile, each other entry a further profile.
unify() {
    local stubs=/build/parts/stubs/usr/lib/systemd/boot/efi id title words about first=() join=()
    while IFS=$'\t' read -r id _ title words; do
        about=("--profile=ID=$id"$'\n'"TITLE=$id: $title" "--cmdline=$words")
        if [ ${#first[@]} = 0 ]; then first=("${about[@]}"); continue; fi
        in_tools ukify build --efi-arch=aa64 --stub="$stubs/addonaa64.efi.stub" --output="/build/parts/$id" "${about[@]}" < /dev/null
        join+=("--join-profile=/build/parts/$id")
    done < "$new/firstlight.entries"
    in_tools ukify build --efi-arch=aa64 --stub="$stubs/linuxaa64.efi.stub" --output=/build/out/firstlight.efi \
        --linux=/build/kernel/vmlinuz --initrd=/build/out/firstlight.initrd --uname="$1" \
        --os-release=@/build/base/usr/lib/os-release "${first[@]}" "${join[@]}"
}

boot() {
    local scenario=none log=$work/boot.log words=firstlight.expect.gpus=0 simulated=$work/simulated start
    case ${1:-} in '' | -* | *.* | *=*) ;; list) exec "$REPO/image/boot.sh" list ;; *) scenario=$1; shift ;; esac
    if [ "$scenario" = none ]; then
        start=(-kernel "$out/firstlight.efi")
        # The UKI has its own words: those given here are passed through SMBIOS.
        start+=(-smbios "type=11,value=io.systemd.stub.kernel-cmdline-extra=$(sed 's/,/,,/g' <<< "$words $*")")
    else
        say "laying out simulated GPUs: scenario $scenario"
        FIRSTLIGHT_SIMULATED=$(simulated) cargo run --release --locked --quiet --bin simgpu -- "$scenario" "$simulated.cpio" >&2
        { cat "$out/firstlight.initrd"; head -c $(((4 - $(stat -c %s "$out/firstlight.initrd") % 4) % 4)) /dev/zero; cat "$simulated.cpio"; } > "$simulated.initrd"
        words='firstlight.policy.on_fail=poweroff firstlight.policy.on_error=poweroff'
        start=(-kernel "$out/firstlight.vmlinuz" -initrd "$simulated.initrd" -append "$(cat "$out/firstlight.cmdline") $words $*")
    fi
    cp /usr/share/AAVMF/AAVMF_VARS.fd "$work/variables"
    say "booting arm64 by emulation, console also in ${log#"$REPO/"}"
    local began=$SECONDS
    timeout --foreground "$deadline" qemu-system-aarch64 -M virt,gic-version=3,iommu=smmuv3 -cpu max,pauth-impdef=on -accel tcg \
        -smp 2 -m 2048 -nodefaults -display none -no-reboot -monitor none \
        -drive if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/AAVMF/AAVMF_CODE.fd \
        -drive if=pflash,format=raw,unit=1,file="$work/variables" \
        -device pcie-root-port,id=rp1,chassis=1,slot=1 -device pcie-root-port,id=rp2,chassis=2,slot=2 \
        -device x3130-upstream,id=up,bus=rp1 \
        -device xio3130-downstream,id=dn1,bus=up,chassis=3,slot=1 -device xio3130-downstream,id=dn2,bus=up,chassis=4,slot=2 \
        -netdev user,id=net,restrict=on -device virtio-net-pci,netdev=net,bus=dn1,romfile= -device virtio-rng-pci,bus=dn2 \
        -chardev stdio,id=console,logfile="$log",signal=off -serial chardev:console "${start[@]}" <&0 ||
        say "QEMU ended with status $? (124: the guest hung for $deadline s)"
    say "from QEMU's start to its end: $((SECONDS - began)) s"
    exit_by_verdict "$log"
}

simulated() { "$REPO/image/rust.sh" --arm64 --simulated; }

what=${1:-}
case $what in
    image | boot | simulated) shift; "$what" "$@" ;;
    *) die "unknown command '$what'" "arm64.sh image | boot [SCENARIO|none|list] [KERNEL-WORD..] | simulated" ;;
esac
