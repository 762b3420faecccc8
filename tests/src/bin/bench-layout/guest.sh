#!/usr/bin/busybox sh
# guest.sh: replaces init in bench-layout. It fetches the driver image from where the kernel words say
# (layout.from=initrd|stick|URL layout.file=NAME), mounts it, reads the files that a start of the driver reads, and
# prints when each step was complete, in seconds since the kernel's start, and how much memory was in use then.
set -eu
mount -t proc proc /proc
read -r init _ < /proc/uptime
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir /medium
read -r words < /proc/cmdline
for word in $words; do
    case $word in layout.from=*) from=${word#*=} ;; layout.file=*) file=${word#*=} ;; esac
done
case $from in
    initrd) at=/usr/lib/firstlight/$file ;;
    stick)
        until [ -b /dev/sda ]; do usleep 20000; done
        mount -t vfat -o ro /dev/sda /medium
        at=/medium/$file ;;
    *)
        ip link set eth0 up
        udhcpc -i eth0 -n -q -t 10 -T 1 -s /usr/lib/firstlight/udhcpc.script
        mount -t tmpfs tmpfs /medium
        at=/medium/$file
        wget -q -O "$at" "$from" ;;
esac
mount -t "${file##*.}" -o ro,loop "$at" /mnt
read -r mounted _ < /proc/uptime
cd /mnt
set -- modules/nvidia.ko modules/nvidia-uvm.ko lib/libcuda.so.1 lib/libnvidia-ml.so.1 lib/libnccl.so.2 \
    firmware/nvidia/*/gsp_ga10x.bin
cat "$@" > /dev/null
read -r read _ < /proc/uptime
memory=$(cat /proc/meminfo)
kib() { echo "$memory" | sed -n "s/^$1: *\([0-9]*\) kB$/\1/p"; }
bytes=0
for name; do bytes=$((bytes + $(stat -L -c %s "$name"))); done
case $from in
    initrd) later=0 ;;
    stick) read -r _ _ sectors _ < /sys/block/sda/stat; later=$((sectors * 512)) ;;
    *) later=$(stat -c %s "$at") ;;
esac
total=$(kib MemTotal) available=$(kib MemAvailable) free=$(kib MemFree)
read -r now _ < /proc/uptime
echo "LAYOUT init=$init mounted=$mounted read=$read now=$now bytes=$bytes later=$later \
used=$((total - available)) taken=$((total - free))"
echo "LAYOUT-END"
# process 1 must not exit; the machine is stopped from outside
exec sleep 3600
