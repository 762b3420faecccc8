#!/usr/bin/env bash
# host.sh make SUITE ROOT: installs a small Debian of that suite into the folder ROOT, with what builds need.
# host.sh enter ROOT WORK REPO CACHE COMMAND..: runs a command with ROOT as its root; the three folders and this
# user's Rust are there as they are outside.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/lib/mirror.sh"

make() {
    local suite=$1 root=$2 uri
    command -v debootstrap > /dev/null || die "debootstrap is missing" "apt-get install debootstrap"
    uri=$(mirror_uri)
    [ -n "$uri" ] || die "no Debian archive among this host's apt sources"
    say "installing Debian $suite (about 400 MB; it goes again)"
    debootstrap --variant=minbase --include=ca-certificates,curl,git,gcc,libc6-dev,python3,util-linux,xz-utils,zstd,cpio,procps,hostname \
        "$suite" "$root" "$uri" > "$root.log" 2>&1 || { tail -5 "$root.log" >&2; die "Debian $suite cannot be installed" "the whole log: $root.log"; }
}

enter() {
    local root=$1 binds=("$2" "$3" "$4" "${CARGO_HOME:-$HOME/.cargo}" "${RUSTUP_HOME:-$HOME/.rustup}"); shift 4
    # shellcheck disable=SC2016  # expanded by the inner shell
    exec unshare --mount --pid --fork --kill-child -- bash -euc '
        root=$1; shift
        mount --make-rprivate /; mount --rbind "$root" "$root"
        while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --rbind "$1" "$root$1"; shift; done; shift
        mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"; mount --rbind /sys "$root/sys"; mount -t tmpfs tmp "$root/tmp"
        cp /etc/resolv.conf "$root/etc/resolv.conf"
        # a real root, not a chroot: the build makes sandboxes of its own, which a chroot may not
        cd "$root"; mkdir -p old; pivot_root . old; umount -l old; cd /
        exec "$@"' enter "$root" "${binds[@]}" -- "$@"
}

case ${1:-} in
    make) make "$2" "$3" ;;
    enter) shift; enter "$@" ;;
    *) die "host.sh make SUITE ROOT | enter ROOT WORK REPO CACHE COMMAND.." ;;
esac
