#!/usr/bin/env bash
# in-tools.sh TREE [--bind FROM:TO].. [--cwd DIR] [NAME=VALUE].. COMMAND..: runs a command inside one of tools.sh's
# pinned trees: with its own mounts and processes, no network, a fixed environment, and only the
# bound folders from outside. TO is a path below /build, so that no path of the host appears in an output.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
tree=$("$REPO/image/tools.sh" "$1"); shift

binds=() cwd=/build
while [ $# -gt 0 ]; do
    case $1 in
        --bind) binds+=("$2"); shift 2 ;;
        --cwd) cwd=$2; shift 2 ;;
        *) break ;;
    esac
done
user=(); [ "$(id -u)" = 0 ] || user=(--map-root-user)
# shellcheck disable=SC2016  # expanded by the inner shell
exec unshare "${user[@]}" --mount --pid --net --fork --kill-child -- bash -euc '
    tree=$1 cwd=$2; shift 2
    mount --make-rprivate /; mount --rbind "$tree" "$tree"
    mount -t tmpfs -o mode=0755 build "$tree/build"
    for empty in tmp run root var/tmp; do [ ! -d "$tree/$empty" ] || mount -t tmpfs "${empty##*/}" "$tree/$empty"; done
    mount -t proc proc "$tree/proc"
    mount --rbind /dev "$tree/dev"
    while [ "$1" != -- ]; do
        from=${1%%:*} to=$tree${1#*:}
        if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "$(dirname "$to")"; touch "$to"; fi
        mount --rbind "$from" "$to"; shift
    done; shift
    # The tree must stay as it was made. A Python that ignores its environment (-I, as mkosi starts its sandbox) would keep
    # compiled files in it.
    mount -o remount,bind,ro "$tree"
    # a real root, not a chroot: mkosi makes its own sandbox, which is not possible in a chroot
    cd "$tree"; pivot_root . .; umount -l .; cd /
    exec /usr/bin/env -i -C "$cwd" PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C TZ=UTC PYTHONDONTWRITEBYTECODE=1 \
        SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" "$@"
' in-tools "$tree" "$cwd" "${binds[@]}" -- "$@"
