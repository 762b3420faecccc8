#!/bin/sh
# Records the running machine's /sys and /proc as far as firstlight reads them, so that its fabric
# can be examined elsewhere: firstlight --root DIR fabric show. Run as root: others see only 64
# bytes of configuration space.
#
#   record.sh DIR
set -eu

to=${1:?usage: record.sh DIR}
[ "$(id -u)" = 0 ] || { echo "record.sh: run as root, others see 64 bytes of configuration space" >&2; exit 64; }
[ ! -e "$to" ] || { echo "record.sh: $to exists already" >&2; exit 64; }
mkdir -p "$to"

# keep FILE...: copies what exists and can be read; sysfs files have no size worth trusting.
keep() {
    for from in "$@"; do
        [ -r "$from" ] && [ -f "$from" ] || continue
        mkdir -p "$to$(dirname "$from")"
        cat "$from" > "$to$from" 2>/dev/null || { rm -f "$to$from"; echo "record.sh: $from left out" >&2; }
    done
}

# point LINK...: copies links as they are.
point() {
    for from in "$@"; do
        [ -L "$from" ] || continue
        mkdir -p "$to$(dirname "$from")"
        cp -P "$from" "$to$from"
    done
}

# folder DIR...: an empty folder is evidence too.
folder() {
    for from in "$@"; do
        if [ -d "$from" ]; then mkdir -p "$to$from"; touch "$to$from/.keep"; fi
    done
}

folder /sys/bus/pci/devices /sys/class/iommu /sys/kernel/iommu_groups /sys/class/infiniband /sys/module/*
for device in /sys/bus/pci/devices/*; do
    point "$device"
    real=$(readlink -f "$device")
    for name in config vendor device class revision irq subsystem_vendor subsystem_device numa_node \
        local_cpulist resource boot_vga current_link_speed current_link_width max_link_speed max_link_width; do
        keep "$real/$name"
    done
    point "$real/driver" "$real/iommu_group"
    if [ -L "$real/driver" ]; then folder "$(readlink -f "$real/driver")"; fi
done
for class in iommu infiniband; do
    for member in /sys/class/$class/*; do
        point "$member"
        [ -e "$member" ] || continue
        real=$(readlink -f "$member")
        folder "$real"
        point "$real/device"
    done
done
for screen in /sys/class/graphics/fb[0-9]*; do
    point "$screen"
    if [ -d "$screen" ]; then folder "$(readlink -f "$screen")"; fi
done
for group in /sys/kernel/iommu_groups/*; do keep "$group/type"; done
# Names only: the tables themselves hold serial numbers and licence keys.
for table in /sys/firmware/acpi/tables/*; do
    [ -f "$table" ] || continue
    mkdir -p "$to/sys/firmware/acpi/tables"
    : > "$to$table"
done
keep /sys/devices/system/node/online /sys/devices/system/cpu/possible /sys/devices/system/cpu/present /sys/devices/system/cpu/online \
    /sys/kernel/security/lockdown /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name \
    /sys/class/dmi/id/bios_version /sys/module/nvidia/version /proc/driver/nvidia/gpus/*/information \
    /proc/cmdline /proc/sys/kernel/osrelease
echo "recorded in $to"
