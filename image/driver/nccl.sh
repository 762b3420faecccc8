#!/usr/bin/env bash
# nccl.sh TO WORK: NCCL of the archive or of the Python registry, as the description chooses, cut to the GPUs of its families,
# and libstdc++, which it needs; prints lines as userspace.sh does, and says in TO/doc what was cut.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/driver/describe.sh"
to=$1 work=$2 multiarch=usr/lib/x86_64-linux-gnu
describe_driver

# PATH VERSION LICENCE ORIGIN: the library, cut
nccl() {
    local library=libnccl.so.$2
    # shellcheck disable=SC2086  # a list
    with_scripts --bind "$(dirname "$1"):/build/from" --bind "$to/lib:/build/to" \
        python3 -B scripts/prune.py "from/$(basename "$1")" "to/$library" $driver_compute > "$to/doc/nccl.dropped"
    chmod 0644 "$to/lib/$library"
    ln -s "$library" "$to/lib/libnccl.so.2"
    install -m 0644 "$3" "$to/doc/nccl.copyright"
    printf 'lib/%s\t%s, GPU code cut to %s\n' "$library" "$4" "$(awk '$1 == "kept" && $2 ~ /^sm_/ { printf "%s%s", sep, $2; sep = " " }' "$to/doc/nccl.dropped")"
    printf 'doc/nccl.copyright\t%s\n' "$4"
}

from_wheel() {
    local name version arch
    "$REPO/image/fetch.sh" "driver-nccl-$driver_nccl"
    read -r name version arch _ < <(locked "driver-nccl-$driver_nccl") || die "inputs.lock has no driver-nccl-$driver_nccl" "just relock driver-nccl-$driver_nccl"
    with_scripts --bind "$(deb_path "$name" "$version" "$arch"):/build/wheel.zip" --bind "$work:/build/to" \
        python3 -B -m zipfile -e wheel.zip to/wheel
    local licence=("$work"/wheel/*.dist-info/licenses/*)
    nccl "$work/wheel/nvidia/nccl/lib/libnccl.so.2" "$version" "${licence[0]}" "$name $version"
    rm -rf "$work/wheel"
}

mkdir -p "$to/lib" "$to/doc"
wanted=(driver-nccl/libstdc++6 driver-nccl/gcc-14-base)
if [ "$driver_nccl" = debian ]; then wanted+=(driver-nccl/libnccl2); else from_wheel; fi
"$REPO/image/fetch.sh" "${wanted[@]}"
while read -r name version arch _; do
    case " ${wanted[*]} " in *" driver-nccl/$name "*) ;; *) continue ;; esac
    dpkg-deb -x "$(deb_path "$name" "$version" "$arch")" "$work/$name"
    case $name in
        libnccl2)
            library=$(readlink "$work/$name/$multiarch/libnccl.so.2")
            nccl "$work/$name/$multiarch/$library" "${library#libnccl.so.}" "$work/$name/usr/share/doc/$name/copyright" "$name $version" ;;
        libstdc++6)
            library=$(readlink "$work/$name/$multiarch/libstdc++.so.6")
            install -m 0644 "$work/$name/$multiarch/$library" "$to/lib/$library"
            ln -s "$library" "$to/lib/libstdc++.so.6"
            printf 'lib/%s\t%s\n' "$library" "$name $version" ;;
        gcc-14-base)
            cp "$work/$name/usr/share/doc/$name/copyright" "$to/doc/libstdc++.copyright"
            printf 'doc/libstdc++.copyright\t%s\n' "$name $version" ;;
    esac
done < <(locked driver-nccl)
