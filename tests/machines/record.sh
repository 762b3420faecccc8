#!/bin/sh
# Records the running machine's /sys and /proc as far as firstlight reads them, and what tells of
# NVIDIA's driver, so that the machine can be examined elsewhere: firstlight --root DIR validate.
# Run as root: others see only 64 bytes of configuration space.
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
    point "$real/driver" "$real/iommu_group" "$real/physfn"
    if [ -L "$real/driver" ]; then folder "$(readlink -f "$real/driver")"; fi
done
for class in iommu infiniband; do
    for member in /sys/class/$class/*; do
        point "$member"
        [ -e "$member" ] || continue
        real=$(readlink -f "$member")
        folder "$real"
        point "$real/device"
        for port in "$real"/ports/*; do
            folder "$port/gids"
            keep "$port/state" "$port/phys_state" "$port/link_layer" "$port/rate"
            # The kernel answers EINVAL to whoever asks for the attributes of an empty slot.
            for slot in $(cd "$port/gids" 2>/dev/null && grep -lv '^[0:]*$' -- * 2>/dev/null); do
                keep "$port/gids/$slot" "$port/gid_attrs/types/$slot" "$port/gid_attrs/ndevs/$slot"
            done
        done
        for interface in "$real"/device/net/*; do
            [ -e "$interface" ] || continue
            point "/sys/class/net/$(basename "$interface")"
            real_interface=$(readlink -f "$interface")
            keep "$real_interface/operstate" "$real_interface/carrier" "$real_interface/speed" "$real_interface/dev_port"
        done
    done
done
for screen in /sys/class/graphics/fb[0-9]*; do
    point "$screen"
    if [ -d "$screen" ]; then folder "$(readlink -f "$screen")"; fi
done
for group in /sys/kernel/iommu_groups/*; do keep "$group/type"; done
# device NODE...: git holds no device nodes; `c MAJOR MINOR` stands for one.
device() {
    for from in "$@"; do
        [ -c "$from" ] || continue
        mkdir -p "$to$(dirname "$from")"
        printf 'c %d %d\n' "0x$(stat -c %t "$from")" "0x$(stat -c %T "$from")" > "$to$from"
    done
}

# names FILE...: files of which the name is all that counts.
names() {
    for from in "$@"; do
        [ -e "$from" ] || continue
        mkdir -p "$to$(dirname "$from")"
        : > "$to$from"
    done
}

device /dev/nvidia* /dev/nvidia-caps/*
names /usr/lib/firmware/nvidia/*/gsp_*.bin* /lib/firmware/nvidia/*/gsp_*.bin* \
    /run/firstlight/driver/firmware/nvidia/*/gsp_*.bin
for name in libcuda.so.1 libnvidia-ml.so.1 libnccl.so.2; do
    for folder in /run/firstlight/driver/lib /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/local/nvidia/lib64; do
        from=$folder/$name
        while [ -L "$from" ]; do
            point "$from"
            next=$(readlink "$from")
            case $next in /*) from=$next ;; *) from=$(dirname "$from")/$next ;; esac
        done
        names "$from"
    done
done
# The first record tells whether the log still has its beginning; of the others those that firstlight
# looks for, for a log may hold what its owner may not give away.
mkdir -p "$to/dev"
if log=$(mktemp) && { dd if=/dev/kmsg of="$log" iflag=nonblock bs=8192 2>/dev/null || [ -s "$log" ]; }; then
    awk 'NR == 1 || /NVRM|AER: |PCIe Bus Error|DMAR|AMD-Vi|iommu: |IO_PAGE_FAULT|x2apic|smpboot/' "$log" > "$to/dev/kmsg"
else
    echo "record.sh: /dev/kmsg left out" >&2
fi
rm -f "$log"
# Names only: the tables themselves hold serial numbers and licence keys.
for table in /sys/firmware/acpi/tables/*; do
    [ -f "$table" ] || continue
    mkdir -p "$to/sys/firmware/acpi/tables"
    : > "$to$table"
done
keep /sys/devices/system/node/online /sys/devices/system/cpu/possible /sys/devices/system/cpu/present /sys/devices/system/cpu/online \
    /sys/kernel/security/lockdown /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name \
    /sys/class/dmi/id/bios_version /sys/module/nvidia/version /sys/module/nvidia/srcversion \
    /sys/module/nvidia/notes/.note.gnu.build-id /proc/driver/nvidia/version /proc/driver/nvidia/params \
    /proc/driver/nvidia/gpus/*/information /proc/devices /run/firstlight/driver.json \
    /proc/cmdline /proc/sys/kernel/osrelease "/boot/config-$(uname -r)"
echo "recorded in $to"
