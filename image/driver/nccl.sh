#!/usr/bin/env bash
# nccl.sh TO WORK: NCCL, cut to the GPU architectures of the description, and libstdc++, which it needs;
# prints lines as userspace.sh does, and says in TO/doc what was cut.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/driver/describe.sh"
to=$1 work=$2 multiarch=usr/lib/x86_64-linux-gnu
describe_driver

"$REPO/image/fetch.sh" driver-nccl
mkdir -p "$to/lib" "$to/doc"
while read -r name version arch _; do
    dpkg-deb -x "$(deb_path "$name" "$version" "$arch")" "$work/$name"
    case $name in
        libnccl2)
            library=$(readlink "$work/$name/$multiarch/libnccl.so.2")
            "$REPO/image/in-tools.sh" tools --bind "$REPO/image/driver:/build/scripts" --bind "$work/$name/$multiarch:/build/from" \
                --bind "$to/lib:/build/to" python3 -B scripts/prune.py "from/$library" "to/$library" "$driver_nccl_keep" > "$to/doc/nccl.dropped"
            chmod 0644 "$to/lib/$library"
            ln -s "$library" "$to/lib/libnccl.so.2"
            cp "$work/$name/usr/share/doc/$name/copyright" "$to/doc/nccl.copyright"
            printf 'lib/%s\t%s, GPU code cut to sm_%s\n' "$library" "$name $version" "${driver_nccl_keep//,/ sm_}"
            printf 'doc/nccl.copyright\t%s\n' "$name $version" ;;
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
