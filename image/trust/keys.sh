#!/usr/bin/env bash
# keys.sh FOLDER: makes keys for Secure Boot on your own machines: PK, KEK and db, each as NAME.key (private, PEM),
# NAME.pem (certificate) and NAME.cer (the same for the firmware's setup). FOLDER must not exist yet.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
[ $# = 1 ] || die "expected one folder" "keys FOLDER"
[ ! -e "$1" ] || die "$1 already exists" "keys are never replaced; name a new folder"
umask 077
mkdir -p "$1"
# shellcheck disable=SC2016  # expanded by the inner shell
"$REPO/image/in-tools.sh" signing --bind "$(realpath "$1"):/build/keys" --cwd /build/keys sh -euc '
    for name in PK KEK db; do
        openssl req -x509 -newkey rsa:2048 -noenc -sha256 -days 3650 -subj "/CN=firstlight $name" \
            -config /dev/null -addext basicConstraints=critical,CA:FALSE -keyout "$name.key" -out "$name.pem"
        openssl x509 -in "$name.pem" -outform DER -out "$name.cer"
    done
' > /dev/null 2>&1 || { rm -rf "$1"; die "the keys could not be made"; }
say "keys for ten years in $1: enrol db.cer, KEK.cer and PK.cer in the firmware's setup, sign with db.key; keep *.key to yourself"
