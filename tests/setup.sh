#!/usr/bin/env bash
# setup.sh GIT [VERSION [quick]]: `firstlight setup` applied and undone in an unpacked Debian with its real DKMS, GRUB and initramfs-tools,
# and NVIDIA's public modules, on a modelled machine with two RTX 4090 whose IOMMU translates. Needs root, mmdebstrap and
# GIT, the git directory of a clone of open-gpu-kernel-modules. It is booted in QEMU before and after; nothing is loaded into this
# machine and nothing outside of the folder is changed.
# quick: the source is edited, and then small modules with our own file are built in the place of NVIDIA's (minutes less).
set -euo pipefail
source "$(dirname "$0")/../image/lib/common.sh"
source "$REPO/image/lib/mirror.sh"
git=$1 version=${2:-580.95.05} quick=${3:-}
[ "$(id -u)" = 0 ] || die "setup-tests needs root" "it mounts and enters a folder"
base=$REPO/target/setup/debian top=$REPO/target/setup/${quick:-whole} work=$REPO/target/setup/${quick:-whole}/work
mkdir -p "$top"
if [ ! -e "$base/etc/debian_version" ]; then
    from=$(mirror_archive)
    [ -n "$from" ] || die "there is no Debian archive among the apt sources of this host"
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    say "unpacking a Debian $suite with kernel, headers, DKMS and GRUB (once, some minutes)"
    rm -rf "$base.part"
    unshare --mount mmdebstrap --quiet --variant=minbase --mode=root \
        --include=dkms,linux-headers-amd64,linux-image-amd64,grub-pc,initramfs-tools,python3,systemd,make,gcc,kmod \
        "$suite" "$base.part" "deb $from $suite main"
    mv "$base.part" "$base"
fi
rm -rf "$work"; cp -a "$base" "$work"
release=$(ls "$work/lib/modules"); release=${release%%$'\n'*}
firstlight=$REPO/target/debug/firstlight
cp "$firstlight" "$work/usr/bin/firstlight"
mkdir -p "$work/usr/lib/systemd/system" "$work/opt/modules"
cp "$REPO"/image/package/firstlight-{fabric,setup}.service "$work/usr/lib/systemd/system/"
git --git-dir="$git" archive "$version" | tar -x -C "$work/opt/modules"
if [ -n "$quick" ]; then
    rm "$work/opt/modules/src/nvidia/Makefile" "$work/opt/modules/kernel-open/Kbuild"
    printf 'all:\n\tmkdir -p _out/Linux_$(shell uname -m)\n\ttouch _out/Linux_$(shell uname -m)/nv-kernel.o\n' > "$work/opt/modules/src/nvidia/Makefile"
    printf 'modules:\n\t$(MAKE) -C /lib/modules/$(KERNEL_UNAME)/build M=$(CURDIR) modules\n' > "$work/opt/modules/kernel-open/Makefile"
    printf 'obj-m := nvidia.o nvidia-uvm.o\nnvidia-y := own.o nvidia/firstlight_patch_level.o\nnvidia-uvm-y := uvm.o\n' > "$work/opt/modules/kernel-open/Kbuild"
    head='#include <linux/module.h>\nMODULE_LICENSE("Dual MIT/GPL");\nMODULE_VERSION("%s");\nextern int for_uvm;\n'
    printf "$head"'static char *NVreg_RegistryDwords;\nmodule_param(NVreg_RegistryDwords, charp, 0444);\nint for_uvm;\nEXPORT_SYMBOL(for_uvm);\n' "$version" > "$work/opt/modules/kernel-open/own.c"
    printf "$head"'static int __init begin(void)\n{\n\treturn for_uvm;\n}\nmodule_init(begin);\n' "$version" > "$work/opt/modules/kernel-open/uvm.c"
fi

# The machine, and a small module in the place of the distribution's driver, which DKMS builds and installs.
model=$top/model; rm -rf "$model"
"$REPO/target/debug/machine" iommu-translated "$model"
echo "$version" > "$model/sys/module/nvidia/version"
echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  $version  Release Build" > "$model/proc/driver/nvidia/version"
echo "$release" > "$model/proc/sys/kernel/osrelease"
printf 'processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu x2apic\n' > "$model/proc/cpuinfo"
own=$work/usr/src/nvidia-$version; mkdir "$own"
printf '#include <linux/module.h>\nMODULE_LICENSE("Dual MIT/GPL");\nMODULE_VERSION("%s");\n' "$version" > "$own/nvidia.c"
echo 'obj-m := nvidia.o' > "$own/Kbuild"
printf '%s\n' 'PACKAGE_NAME=nvidia' "PACKAGE_VERSION=$version" 'MAKE[0]="make -C /lib/modules/${kernelver}/build M=${dkms_tree}/nvidia/${PACKAGE_VERSION}/build modules"' \
    'BUILT_MODULE_NAME[0]=nvidia' 'DEST_MODULE_LOCATION[0]=/updates/dkms' 'AUTOINSTALL=yes' > "$own/dkms.conf"

# inside COMMAND..: in the folder, with the model's files in place of those of this machine's kernel.
inside() {
    unshare --mount --uts --pid --fork --kill-child bash -euc '
        work=$1 model=$2; shift 2
        mount --make-rprivate /
        mount --bind "$work" "$work"
        mount -t proc proc "$work/proc"
        mount -t tmpfs none "$work/proc/driver"; cp -a "$model/proc/driver/." "$work/proc/driver/"
        for file in cmdline cpuinfo sys/kernel/osrelease; do mount --bind "$model/proc/$file" "$work/proc/$file"; done
        mount --bind "$model/sys" "$work/sys"
        mount --bind /dev "$work/dev"
        exec chroot "$work" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"' _ "$work" "$model" "$@"
}
# Every file but logs, caches and what generators write anew, with its hash, permissions and owner.
state() {
    local left=(-path ./proc -o -path ./sys -o -path ./dev -o -path ./var/log -o -path ./var/cache -o -path ./tmp -o -path ./run -o -path ./opt
        -o -path ./var/lib/initramfs-tools -o -name 'initrd.img*' -o -path './lib/modules/*/modules.*' -o -path './usr/lib/modules/*/modules.*')
    (cd "$work" && { find . \( "${left[@]}" \) -prune -o -printf '%p %y %m %u %g %l\n'
        find . \( "${left[@]}" \) -prune -o -type f -print0 | xargs -0 sha256sum; }) | LC_ALL=C sort
}
# boot NAME: the folder as the disk of a virtual machine, by its own kernel, initrd and the words of GRUB's menu; what was seen there is
# in $top/seen-NAME. It has no NVIDIA GPU: NVIDIA's module is loaded, finds none and says so; the small ones stay loaded.
boot() {
    local words; words=$(sed -n 's/^[[:space:]]*linux[[:space:]]*[^ ]* //p' "$work/boot/grub/grub.cfg" | sed -n 1p | tr ' ' '\n' | grep -v '^root=' | tr '\n' ' ')
    mkdir -p "$work/opt"
    cat > "$work/opt/look.sh" << 'END'
#!/bin/sh
exec > /dev/ttyS0 2>&1
echo; echo "SEEN line $(cat /proc/cmdline)"
modprobe nvidia; echo "SEEN modprobe ended with $?"
echo "SEEN loaded $(cat /sys/module/nvidia/version) $(ls /sys/module/nvidia/parameters)"
dmesg | sed -n 's/.*\(NVRM: .*\)/SEEN \1/p; s/.*\(nvidia: loading out-of-tree.*\)/SEEN \1/p'
systemctl start firstlight-setup
for unit in firstlight-fabric firstlight-setup; do
    echo "SEEN $unit $(systemctl is-enabled $unit) $(systemctl show -P Result $unit)"
    journalctl -b -o cat -u $unit | sed "s/^/SEEN $unit: /"
done
END
    chmod +x "$work/opt/look.sh"
    rm -f "$top/disk.img"; truncate -s 8G "$top/disk.img"
    mke2fs -q -t ext4 -d "$work" "$top/disk.img"
    timeout 600 qemu-system-x86_64 -accel tcg -m 2048 -smp 2 -display none -no-reboot -monitor none -serial "file:$top/console-$1" -kernel "$work/boot/vmlinuz-$release" \
        -initrd "$work/boot/initrd.img-$release" -drive "file=$top/disk.img,format=raw,if=virtio" \
        -append "root=/dev/vda rw $words console=ttyS0 init=/lib/systemd/systemd systemd.run=/opt/look.sh" || die "the virtual machine did not end" "its console is in $top/console-$1"
    rm "$top/disk.img" "$work/opt/look.sh"
    tr -d '\r' < "$top/console-$1" | sed -n 's/^SEEN //p' > "$top/seen-$1"
}
inside dkms install -m nvidia -v "$version" -k "$release" > "$top/own.log" 2>&1 || die "the small module is not installed" "$(tail -3 "$top/own.log")"
inside update-grub 2>&1 | tail -2
state > "$top/before"
installed=$(sha256sum < "$work/lib/modules/$release/updates/dkms/nvidia.ko")

inside firstlight setup --plan --modules /opt/modules
say "applying (the modules are built: minutes)"
inside firstlight setup --apply --yes --modules /opt/modules > "$top/apply.log" 2>&1 || die "apply failed" "$(tail -5 "$top/apply.log")"

wrong=0
holds() { if eval "$2"; then say "holds: $1"; else say "DOES NOT HOLD: $1"; wrong=1; fi; }
edited=/usr/lib/firstlight/edited
holds "GRUB's menu has iommu=pt on each kernel's line" "grep -q '^[[:space:]]*linux.* iommu=pt' '$work/boot/grub/grub.cfg' && ! grep -E '^[[:space:]]*linux[[:space:]]' '$work/boot/grub/grub.cfg' | grep -vq iommu=pt"
holds "both edited modules are in a tree of their own" "[ \"\$(ls '$work$edited/usr/lib/modules/$release/updates' | wc -l)\" = 2 ]"
holds "the edited nvidia.ko shows the level and the version" "inside modinfo $edited/usr/lib/modules/$release/updates/nvidia.ko | grep -q '^firstlight.patch: *3' && inside modinfo $edited/usr/lib/modules/$release/updates/nvidia.ko | grep -q '^version: *$version'"
holds "it has the parameter that the loaded module shows" "inside modinfo -p $edited/usr/lib/modules/$release/updates/nvidia.ko | grep -q ^NVreg_ && grep -qa firstlight_patch $work$edited/usr/lib/modules/$release/updates/nvidia.ko"
holds "the distribution's module is installed as before" "[ \"\$(sha256sum < '$work/lib/modules/$release/updates/dkms/nvidia.ko')\" = '$installed' ]"
holds "modprobe would run the script" "inside modprobe -S $release -D nvidia | grep -q load-nvidia"
holds "the script's modprobe finds the edited module, and gives it the keys" "inside modprobe -S $release -d $edited --ignore-install -D nvidia NVreg_RegistryDwords=ForceP2P=17 | grep -q 'insmod .*$edited.*/updates/nvidia.ko.*ForceP2P=17'"
holds "nvidia-uvm's dependency is the edited nvidia.ko" "inside modprobe -S $release -d $edited --ignore-install -D nvidia-uvm | grep -q load-nvidia"
holds "the units are enabled" "[ -L '$work/etc/systemd/system/sysinit.target.wants/firstlight-fabric.service' ] && [ -L '$work/etc/systemd/system/multi-user.target.wants/firstlight-setup.service' ]"
holds "before a reboot the check says that nothing is in force" "inside firstlight setup --check > '$top/check.log' 2>&1; [ \$? = 2 ] && grep -q '^P2P is off' '$top/check.log'"

say "booting it in QEMU"
boot applied
holds "the booted kernel has iommu=pt" "grep -q '^line .* iommu=pt' '$top/seen-applied'"
holds "the unit of BAR1 and ACS ran, and that of the check said that no driver is loaded" "grep -qx 'firstlight-fabric enabled success' '$top/seen-applied' && grep -q '^firstlight-setup: .*/proc/driver/nvidia/version' '$top/seen-applied'"
if [ -n "$quick" ]; then
    holds "the booted kernel loads the edited module" "grep -qx 'modprobe ended with 0' '$top/seen-applied' && grep -q '^loaded $version .*NVreg_RegistryDwords' '$top/seen-applied'"
else
    holds "the booted kernel loads NVIDIA's edited module, which finds no GPU" "grep -q '^NVRM: No NVIDIA GPU found' '$top/seen-applied'"
fi

say "undoing"
inside firstlight setup --undo --yes > "$top/undo.log" 2>&1 || { say "DOES NOT HOLD: undo ended with $?: $(tail -3 "$top/undo.log")"; wrong=1; }
state > "$top/after"
holds "every file is as it was before, by hash, permissions and owner" "diff '$top/before' '$top/after' > '$top/difference'"
say "booting it in QEMU"
boot undone
holds "the booted kernel's line is as before" "grep -q ^line '$top/seen-undone' && ! grep -q iommu= '$top/seen-undone'"
holds "it loads the distribution's module" "grep -qx 'modprobe ended with 0' '$top/seen-undone' && grep -qx 'loaded $version ' '$top/seen-undone'"
[ "$wrong" = 0 ] || die "some of it does not hold" "the logs are in $top"
say "all of it holds, with driver $version and kernel $release"
