#!/usr/bin/env bash
# userspace.sh TO WORK: NVIDIA's libraries, nvidia-smi and GSP firmware of the described version, laid out
# as in the driver image; prints TAB-separated lines: path in TO, and the package or file that it is from.
set -euo pipefail
shopt -s nullglob
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/driver/describe.sh"
to=$1 work=$2
describe_driver

# MODE FROM PATH ORIGIN
put() {
    [ -e "$2" ] || die "$4 holds no $(basename "$2")"
    install -D -m "$1" "$2" "$to/$3"
    printf '%s\t%s\n' "$3" "$4"
}
# NAME.so FOLDER ORIGIN: the library and the link that programs load
library() {
    local file name
    file=("$2/$1".[0-9]*.*)
    [ ${#file[@]} = 1 ] || die "$3 holds ${#file[@]} files $1.VERSION, not one"
    name=$(basename "${file[0]}")
    put 0644 "${file[0]}" "lib/$name" "$3"
    ln -s "$name" "$to/lib/$1.1"
}

# Takes the files from Debian packages, which are unpacked below $work.
from_debian() {
    local name version arch
    "$REPO/image/fetch.sh" driver
    while read -r name version arch _; do
        dpkg-deb -x "$(deb_path "$name" "$version" "$arch")" "$work/$name"
        [ "${version%-*}" = "$driver_version" ] ||
            die "inputs.lock has $name $version, the driver is $driver_version" "just relock driver driver-source"
        declare -g "origin_${name//-/_}=$name $version"
    done < <(locked driver)
    local libraries=usr/lib/x86_64-linux-gnu/nvidia/current gsp
    library libcuda.so "$work/libcuda1/$libraries" "$origin_libcuda1"
    library libnvidia-ml.so "$work/libnvidia-ml1/$libraries" "$origin_libnvidia_ml1"
    [ "$driver_ptxjitcompiler" = no ] ||
        library libnvidia-ptxjitcompiler.so "$work/libnvidia-ptxjitcompiler1/$libraries" "$origin_libnvidia_ptxjitcompiler1"
    put 0755 "$work/nvidia-smi/usr/lib/nvidia/current/nvidia-smi" bin/nvidia-smi "$origin_nvidia_smi"
    for gsp in $driver_gsp; do
        put 0644 "$work/firmware-nvidia-gsp/usr/lib/firmware/nvidia/$driver_version/$gsp" \
            "firmware/nvidia/$driver_version/$gsp" "$origin_firmware_nvidia_gsp"
    done
    put 0644 "$work/libcuda1/usr/share/doc/libcuda1/copyright" doc/nvidia-driver.copyright "$origin_libcuda1"
}

# The same from NVIDIA's installer, as `--no-kernel-modules` would install it.
from_files() {
    local file found origin gsp modules
    file=$(beside "$driver_files_run")
    proven_file run "$file" "$driver_files_run_sha256"
    found=$("$REPO/image/driver/run-file.sh" "$file" "$work/run")
    modules=$("$REPO/image/driver/tree.sh" "$(beside "$driver_files_modules")")
    [ "$found" = "$modules" ] || die "$(basename "$file") is version $found, the modules in $(basename "$driver_files_modules") are version $modules"
    [ "$found" = "$driver_version" ] || die "$(basename "$file") and the modules are version $found, $(basename "$DRIVER_FILE") says $driver_version"
    origin=$(basename "$file")
    library libcuda.so "$work/run" "$origin"
    library libnvidia-ml.so "$work/run" "$origin"
    [ "$driver_ptxjitcompiler" = no ] || library libnvidia-ptxjitcompiler.so "$work/run" "$origin"
    put 0755 "$work/run/nvidia-smi" bin/nvidia-smi "$origin"
    for gsp in $driver_gsp; do put 0644 "$work/run/firmware/$gsp" "firmware/nvidia/$found/$gsp" "$origin"; done
    put 0644 "$work/run/LICENSE" doc/nvidia-driver.copyright "$origin"
    if [ -n "$driver_files_fabric_manager" ]; then
        file=$(beside "$driver_files_fabric_manager")
        proven_file fabric_manager "$file" "$driver_files_fabric_manager_sha256"
        grep -qaF "$driver_version" "$file" || die "$(basename "$file") does not contain $driver_version, the version of the driver"
        put 0755 "$file" bin/nv-fabricmanager "$(basename "$file")"
        [ -z "$driver_files_fabric_topologies" ] || topologies "$(beside "$driver_files_fabric_topologies")"
    fi
}

# FOLDER: files that say, for each kind of machine, which GPU is connected to which switch. Only the fabric manager reads
# them.
topologies() {
    local files=("$1"/*) file
    [ ${#files[@]} -gt 0 ] || die "files.fabric_topologies: $1 holds no files"
    for file in "${files[@]}"; do put 0644 "$file" "nvswitch/$(basename "$file")" "$(basename "$1")"; done
}

# The files that `--driver` took, which lie beside the description as in the image.
from_parts() {
    local origin="nvidia-driver $driver_version" entry path library
    for entry in $driver_parts; do
        path=${entry#*:}
        proven_file parts "$(beside "$path")" "${entry%%:*}" "parts.$path"
        case $path in
            firmware/*) case " $driver_gsp " in *" ${path##*/} "*) ;; *) continue ;; esac ;;
            lib/libnvidia-ptxjitcompiler.so.*) [ "$driver_ptxjitcompiler" = yes ] || continue ;;
        esac
        case $path in bin/*) put 0755 "$(beside "$path")" "$path" "$origin" ;; *) put 0644 "$(beside "$path")" "$path" "$origin" ;; esac
        case $path in lib/*.so."$driver_version") library=${path%".$driver_version"}; ln -s "${path##*/}" "$to/$library.1" ;; esac
    done
    for entry in $driver_gsp; do
        [ -e "$to/firmware/nvidia/$driver_version/$entry" ] || die "the driver's files lack firmware/nvidia/$driver_version/$entry, which the families need" \
            "parts in $(basename "$DRIVER_FILE")"
    done
}

case $driver_source in debian) from_debian ;; files) from_files ;; parts) from_parts ;; esac
