#!/usr/bin/env bash
# enter.sh COMMAND..: runs a command in the Debian folder: the pinned tree `debian` (tools.sh) as the root, for systems that are
# not Debian 12 or 13. The command sees this host's kernel, devices, network, certificates, and all folders at the same paths,
# except those of the host's system (/usr, /etc, /var ..). Root is not needed if users may make namespaces.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
source "$REPO/image/lib/mirror.sh"
user=(); [ "$(id -u)" = 0 ] || user=(--map-root-user)
namespaces=("${user[@]}" --mount --pid --fork --kill-child)
why=$(unshare "${namespaces[@]}" -- sh -c 'mount --make-rprivate / && mount -t proc proc /proc' 2>&1) ||
    die "$(id -un) may not make namespaces, and the Debian folder needs them" \
        "run it as root, or let users make them: sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns; $(tail -1 <<< "$why")"
tree=$("$REPO/image/tools.sh" debian)

first() { local file; for file in "$@"; do [ ! -r "$file" ] || { realpath "$file"; return; }; done; }
cp "$(first /etc/resolv.conf /dev/null)" "$tree/etc/resolv.conf"
cp "$(first /etc/hosts /dev/null)" "$tree/etc/hosts"
mkdir -p "$tree/etc/ssl/certs"
certificates=/etc/ssl/certs/ca-certificates.crt
cp "$(first "${SSL_CERT_FILE:-}" $certificates /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /dev/null)" "$tree$certificates"
touch "$tree/etc/firstlight-folder"
archive=$(mirror_archive)

binds=()
for path in /* /var/home /var/roothome /var/mnt /var/opt /var/tmp; do
    case $path in
        /bin | /lib* | /sbin | /usr | /etc | /var | /proc | /old) ;;
        *) if [ -L "$path" ]; then ln -sfn "$(readlink "$path")" "$tree$path"
           elif [ -d "$path" ]; then binds+=("$path:$path"); fi ;;
    esac
done
# These folders may be below /usr or /var. A Rust for another C library does not run here.
rustup=${RUSTUP_HOME:-$HOME/.rustup}
compgen -G "$rustup/toolchains/*-linux-gnu" > /dev/null || rustup=$CACHE/rustup
mkdir -p "$rustup"
for path in "$REPO" "$CACHE" "$HOME" "${CARGO_HOME:-}" "$rustup"; do [ ! -d "$path" ] || binds+=("$path:$path"); done
# Programs linked in the Debian folder do not run on a host with an older C library, and vice versa.
for made in target/debug target/release; do
    mkdir -p "$REPO/$made" "$REPO/target/debian/$made"
    binds+=("$REPO/target/debian/$made:$REPO/$made")
done

# A driver of this machine is read from its system, which is below /host then, read-only. What else the words name there is at its
# own path. The kernel may look for firmware in a folder of its own, and NixOS has everything in /nix.
host='' firmware=$(cat /sys/module/firmware_class/parameters/path 2> /dev/null || true)
case $firmware in /usr/* | /lib* | /etc/* | /opt/* | /nix/* | /run/current-system/*) firmware= ;; esac
for word; do
    case ${before:-}:$word in
        --driver:installed | driver-look:installed)
            host=/host
            for path in /usr /bin /sbin /lib /lib64 /etc /opt /nix /sys /proc /run/opengl-driver /run/current-system ${firmware:+"$firmware"}; do
                if [ -L "$path" ]; then mkdir -p "$tree/host${path%/*}"; ln -sfn "$(readlink "$path")" "$tree/host$path"
                elif [ -d "$path" ]; then binds+=("$path:/host$path"); fi
            done ;;
        --driver:* | --modules:* | --for:* | --kernel:* | --to:* | driver-look:*)
            path=$(realpath -m "$word")
            # a description and an image are read with the files beside them; a folder to write to may not exist yet
            case $before:$path in --to:* | --driver:*.toml | --for:*.efi) path=${path%/*} ;; esac
            case $path/ in /usr/* | /etc/* | /var/* | /lib*)
                [ -z "$(find "$tree$path" ! -type d ! -empty -print -quit 2> /dev/null)" ] ||
                    die "$before $word: the Debian folder has a ${path} of its own" "use another folder, such as one in $HOME"
                [ ! -e "$path" ] || binds+=("$path:$path") ;;
            esac ;;
    esac
    before=$word
done

# shellcheck disable=SC2016  # expanded by the inner shell
exec unshare "${namespaces[@]}" -- bash -euc '
    root=$(realpath "$1") host=$2 here=$PWD; shift 2
    mount --make-rprivate /; mount --rbind "$root" "$root"
    while [ "$1" != -- ]; do
        from=${1%%:*} to=$root${1#*:}
        if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "${to%/*}"; : >> "$to"; fi
        mount --rbind "$from" "$to"; shift
    done; shift
    mount -t proc proc "$root/proc"
    if [ -n "$host" ]; then
        # every mount below: a read-only one on top leaves those on it writable
        below() { awk -v host="$root$host/" "index(\$5, host) == 1 { print \$6, \$5 }" /proc/self/mountinfo; }
        below | while read -r _ path; do mount -o remount,bind,ro "$(printf %b "$path")"; done
        if ! below | awk "!/^ro(,| )/ { writable = 1 } END { exit writable || NR == 0 }"; then
            echo "firstlight: error: the files of this machine cannot be made read-only in the Debian folder" >&2; exit 1
        fi
    fi
    # a real root, not a chroot: the build makes its own sandboxes, which is not possible in a chroot
    cd "$root"; mkdir -p old; pivot_root . old; PATH=/usr/sbin:/usr/bin; umount -l old
    cd "$here"; exec "$@"' enter "$tree" "$host" "${binds[@]}" -- \
    /usr/bin/env -u LD_PRELOAD -u LD_LIBRARY_PATH -u SSL_CERT_DIR -u CURL_CA_BUNDLE -u GIT_SSL_CAINFO SSL_CERT_FILE=$certificates \
    PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8 RUSTUP_HOME="$rustup" ${host:+FIRSTLIGHT_HOST="$host"} FIRSTLIGHT_CACHE="$CACHE" FIRSTLIGHT_ARCHIVE="$archive" "$@"
