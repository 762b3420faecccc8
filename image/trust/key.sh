# A key and its certificate, and what is signed with them. Sourced after lib/common.sh, by scripts that have a folder $work.

# KEY CERT USAGE: sets `key` and `cert`, and refuses what cannot sign for a firmware.
signing_key() {
    local file key_public cert_public about bits ends starts
    for file in "$1" "$2"; do
        [ -f "$file" ] || die "$file is not there" "$3"
        [ -r "$file" ] || die "$file cannot be read by $(id -un)"
        case $file in *:*) die "$file: a name with a colon is not allowed" ;; esac
    done
    key=$(realpath "$1") cert=$(realpath "$2")
    ! grep -q ENCRYPTED "$key" || die "$1 is encrypted" "decrypt it to a file on a RAM disk: openssl pkey -in FILE -out PLAIN"
    key_public=$(openssl_signing pkey -inform PEM -in /build/key -passin pass: -pubout) || die "$1 is not a private key in PEM"
    cert_public=$(openssl_signing x509 -inform PEM -in /build/cert -noout -pubkey) || die "$2 is not a certificate in PEM"
    [ "$key_public" = "$cert_public" ] || die "$1 is not the key of the certificate $2"
    about=$(openssl_signing x509 -in /build/cert -noout -text)
    bits=$(sed -n 's/.*Public-Key: (\([0-9]*\) bit).*/\1/p' <<< "$about" | head -1)
    { grep -q 'Public Key Algorithm: rsaEncryption' <<< "$about" && [ "${bits:-0}" -ge 2048 ]; } ||
        die "$2: firmware cannot verify with this kind of key" "allowed: RSA of 2048 bits or more"
    ends=$(openssl_signing x509 -in /build/cert -noout -enddate); starts=$(openssl_signing x509 -in /build/cert -noout -startdate)
    openssl_signing x509 -in /build/cert -noout -checkend 0 > /dev/null || die "$2 has expired" "it was valid until ${ends#*=}"
    [ "$(date -d "${starts#*=}" +%s)" -le "$(date +%s)" ] || die "$2 is not valid yet" "it will be from ${starts#*=}"
    say "signing as $(openssl_signing x509 -in /build/cert -noout -subject -nameopt oneline | sed 's/^subject=//')"
}

in_signing() { "$REPO/image/in-tools.sh" signing --bind "$work:/build/made" --bind "$key:/build/key" --bind "$cert:/build/cert" "$@"; }
openssl_signing() { in_signing openssl "$@" 2> /dev/null; }

# Signs the files in $work/unsigned for Secure Boot, as $work/signed/NAME and NAME.sig, and writes $work/certificate.pem. Each
# signature is verified before it is used, and NAME.sig is verified to be the same signature.
sign_for_firmware() {
    mkdir -p "$work/signed"
    # shellcheck disable=SC2016  # expanded by the inner shell
    in_signing --cwd /build/made sh -euc '
        for file in unsigned/*; do
            name=${file#unsigned/}
            sbsign --key /build/key --cert /build/cert --output "signed/$name" "$file"
            sbverify --cert /build/cert "signed/$name"
            cp "signed/$name" again; sbattach --detach "signed/$name.sig" again
            cp "$file" again; sbattach --attach "signed/$name.sig" again
            cmp again "signed/$name"
        done
        openssl x509 -in /build/cert -out certificate.pem
    ' > "$work/log" 2>&1 || { tail -5 "$work/log" >&2; die "signing failed"; }
}
