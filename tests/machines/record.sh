#!/bin/sh
# Records what this machine's kernel and GPU driver show, as far as firstlight reads it, as one text file. The README
# beside this script describes the text and shows how to examine it elsewhere.
# Run as root: others see only 64 bytes of configuration space. With ROOT, the machine in that folder is recorded.
#
#   record.sh FILE [ROOT]
set -eu

usage="usage: record.sh FILE [ROOT]"
[ $# -ge 1 ] && [ $# -le 2 ] || { echo "$usage" >&2; exit 64; }
file=$1 root=${2:-/}
[ -d "$root" ] || { echo "record.sh: $root is no folder" >&2; exit 64; }
[ $# = 2 ] || [ "$(id -u)" = 0 ] || { echo "record.sh: run as root, others see 64 bytes of configuration space" >&2; exit 64; }
[ ! -e "$file" ] || { echo "record.sh: $file exists already" >&2; exit 64; }
: > "$file" || exit 64
file=$(readlink -f "$file") root=$(readlink -f "$root")
[ "$root" != / ] || root=
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
# All names below are relative to the machine's root.
cd "$root/"

# real PATH: where it leads to, without links.
real() { path=$(readlink -f "$1"); echo "${path#"$root"/}"; }

# keep FILE...: copies what exists and can be read; sysfs files have no size worth trusting.
keep() {
    for from in "$@"; do
        [ -r "$from" ] && [ -f "$from" ] || continue
        mkdir -p "$to/${from%/*}"
        cat "$from" > "$to/$from" 2>/dev/null || { rm -f "$to/$from"; echo "record.sh: $from left out" >&2; }
    done
}

# point LINK...: copies links as they are.
point() {
    for from in "$@"; do
        [ -L "$from" ] || continue
        mkdir -p "$to/${from%/*}"
        cp -P "$from" "$to/$from"
    done
}

# folder DIR...: an empty folder is evidence too.
folder() {
    for from in "$@"; do
        if [ -d "$from" ]; then mkdir -p "$to/$from"; fi
    done
}

# device NODE...: a file with `c MAJOR MINOR` stands for a device node.
device() {
    for from in "$@"; do
        if [ -c "$from" ]; then
            mkdir -p "$to/${from%/*}"
            printf 'c %d %d\n' "0x$(stat -c %t "$from")" "0x$(stat -c %T "$from")" > "$to/$from"
        else
            keep "$from"
        fi
    done
}

# names FILE...: files of which the name is all that counts.
names() {
    for from in "$@"; do
        [ -e "$from" ] || continue
        mkdir -p "$to/${from%/*}"
        : > "$to/$from"
    done
}

pci() {
    folder sys/bus/pci/devices sys/class/iommu sys/kernel/iommu_groups sys/class/infiniband sys/module/*
    for device in sys/bus/pci/devices/*; do
        point "$device"
        real=$(real "$device")
        for name in config vendor device class revision irq subsystem_vendor subsystem_device numa_node \
            local_cpulist resource boot_vga current_link_speed current_link_width max_link_speed max_link_width; do
            keep "$real/$name"
        done
        point "$real/driver" "$real/iommu_group" "$real/physfn"
        if [ -L "$real/driver" ]; then folder "$(real "$real/driver")"; fi
    done
    for group in sys/kernel/iommu_groups/*; do keep "$group/type"; done
}

# The ports of an RDMA device in the folder $1, and its network interfaces.
rdma() {
    for port in "$1"/ports/*; do
        folder "$port/gids"
        keep "$port/state" "$port/phys_state" "$port/link_layer" "$port/rate"
        # The kernel answers EINVAL to whoever asks for the attributes of an empty slot.
        for slot in $(cd "$port/gids" 2>/dev/null && grep -lv '^[0:]*$' -- * 2>/dev/null); do
            keep "$port/gids/$slot" "$port/gid_attrs/types/$slot" "$port/gid_attrs/ndevs/$slot"
        done
    done
    for interface in "$1"/device/net/*; do
        [ -e "$interface" ] || continue
        point "sys/class/net/$(basename "$interface")"
        real=$(real "$interface")
        keep "$real/operstate" "$real/carrier" "$real/speed" "$real/dev_port"
    done
}

classes() {
    for member in sys/class/iommu/* sys/class/infiniband/*; do
        point "$member"
        [ -e "$member" ] || continue
        real=$(real "$member")
        folder "$real"
        point "$real/device"
        rdma "$real"
    done
    for screen in sys/class/graphics/fb[0-9]*; do
        point "$screen"
        if [ -d "$screen" ]; then folder "$(real "$screen")"; fi
    done
}

driver() {
    device dev/nvidia* dev/nvidia-caps/*
    names usr/lib/firmware/nvidia/*/gsp_*.bin* lib/firmware/nvidia/*/gsp_*.bin* \
        usr/local/nvidia/firmware/nvidia/*/gsp_*.bin* run/firstlight/driver/firmware/nvidia/*/gsp_*.bin
    for name in libcuda.so.1 libnvidia-ml.so.1 libnccl.so.2; do
        for folder in run/firstlight/driver/lib usr/lib/x86_64-linux-gnu usr/lib64 usr/local/nvidia/lib64; do
            from=$folder/$name
            while [ -L "$from" ]; do
                point "$from"
                next=$(readlink "$from")
                case $next in /*) from=${next#/} ;; *) from=$(dirname "$from")/$next ;; esac
            done
            names "$from"
        done
    done
    keep sys/module/*/initstate sys/module/firmware_class/parameters/path sys/module/nvidia/version \
        sys/module/nvidia/srcversion sys/module/nvidia/notes/.note.gnu.build-id proc/driver/nvidia/version \
        proc/driver/nvidia/params proc/driver/nvidia/gpus/*/information proc/devices run/firstlight/driver.json
}

# The first record tells whether the log still has its beginning; of the others those that firstlight
# looks for, for a log may hold what its owner may not give away.
log() {
    mkdir -p "$to/dev"
    all=$to/log
    if dd if=dev/kmsg of="$all" iflag=nonblock bs=8192 2>/dev/null || [ -s "$all" ]; then
        awk 'NR == 1 || /NVRM|AER: |PCIe Bus Error|DMAR|AMD-Vi|iommu: |IO_PAGE_FAULT|x2apic|smpboot/' "$all" > "$to/dev/kmsg"
    else
        echo "record.sh: dev/kmsg left out" >&2
    fi
    rm -f "$all"
}

host() {
    # Names only: the tables themselves hold serial numbers and licence keys.
    names sys/firmware/acpi/tables/[A-Z]*
    keep sys/devices/system/node/online sys/devices/system/cpu/possible sys/devices/system/cpu/present \
        sys/devices/system/cpu/online sys/kernel/security/lockdown sys/class/dmi/id/sys_vendor \
        sys/class/dmi/id/product_name sys/class/dmi/id/bios_version proc/cmdline proc/sys/kernel/osrelease
    keep "boot/config-$(cat proc/sys/kernel/osrelease)"
}

# One entry of the text: KIND PATH, then its content, each line behind a tab.
entry() {
    if [ -L "$1" ]; then
        printf 'link %s\n\t%s\n' "$1" "$(readlink "$1")"
    elif [ -d "$1" ]; then
        [ -n "$(ls -A "$1")" ] || echo "folder $1"
    elif [ "$(LC_ALL=C tr -d '\11\12\40-\176' < "$1" | wc -c)" = 0 ] && [ -z "$(tail -c 1 "$1")" ]; then
        echo "text $1"
        awk '{ print "\t" $0 }' "$1"
    else
        echo "bytes $1"
        od -An -v -tx1 "$1" | awk '
            function flush() { if (zeros) print "\tzeros " zeros; zeros = 0 }
            { gsub(/ /, "") }
            /^0+$/ { zeros += length($0) / 2; if (zeros >= 4096) flush(); next }
            { flush(); print "\t" $0 }
            END { flush() }'
    fi
}

pci
classes
driver
log
host
cd "$to"
{ echo "firstlight machine 1"; find . -mindepth 1 | sed 's|^\./||' | LC_ALL=C sort | while read -r path; do entry "$path"; done; } > "$file"
echo "recorded in $file"
