# A private apt state for Debian: the archive is the one that gives this host its own packages, so no
# mirror is named in the project, and the host's apt state is not touched. FIRSTLIGHT_ARCHIVE=URL names
# another one, a snapshot of an earlier day for example; as in a line of apt's sources, options in brackets may
# stand before the URL.
# Sourced; sets APT_OPTIONS. Needs: CACHE (folder). Works on Debian 12 and 13.

# The archive of this host's own packages; nothing where the host is not Debian
mirror_uri() {
    ( . /etc/os-release && [ "$ID" = debian ] && command -v apt-get ) > /dev/null 2>&1 || return 0
    apt-get indextargets --format '$(CREATED_BY) $(REPO_URI) $(COMPONENT) $(CODENAME)' |
        awk '$1 == "Packages" && $3 == "main" && $2 !~ /security|debug/ { print $2 }' |
        sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }'
}

# The archive that FIRSTLIGHT_ARCHIVE names, or else this host's; nothing where there is neither
mirror_archive() {
    case ${FIRSTLIGHT_ARCHIVE:-} in
        '') mirror_uri ;;
        '['*']'*:/* | [!'[']*:/*) echo "$FIRSTLIGHT_ARCHIVE" ;;
        *) die "FIRSTLIGHT_ARCHIVE is '$FIRSTLIGHT_ARCHIVE'" "allowed: the URL of a Debian archive, options of apt's sources in brackets before it" ;;
    esac
}

# ARCHIVE NAMES: what is locked and cannot be had any more
die_gone() {
    die "no longer in the archive${1:+ $1}: $2" \
        "three ways on: './run image --offline FILE' with an archive of inputs that 'just vendor' made earlier; FIRSTLIGHT_ARCHIVE=URL of a Debian archive or snapshot that still has it; 'just relock' for newer versions"
}

# The archive's parts of one scope. `main` is what everything is built from and with. The GPU driver
# lies in other sections and, in the version that can be patched, in another suite.
mirror_parts() {
    case $1 in
        main) echo "deb trixie main" ;;
        driver)
            for suite in trixie sid experimental; do
                echo "deb $suite main contrib non-free non-free-firmware"
                echo "deb-src $suite contrib"
            done ;;
    esac
}

# mirror_setup main|driver [ARCHITECTURE]: packages of a further architecture are asked for as NAME:ARCHITECTURE
mirror_setup() {
    local state=$CACHE/apt-$1${2:+-$2} from key kind parts
    for key in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do [ -e "$key" ] && break; done
    [ -e "$key" ] || die "Debian's archive keys are missing" "apt-get install debian-archive-keyring"
    from=$(mirror_archive)
    case $from in
        '') die "no Debian archive among this host's apt sources" \
            "add one to /etc/apt/sources.list.d and run 'apt-get update', or name one: FIRSTLIGHT_ARCHIVE=URL" ;;
        '['*) ;;
        *) from="[signed-by=$key] $from" ;;
    esac
    mkdir -p "$state"/lists/partial "$state"/cache/archives/partial
    : > "$state/empty-status"
    while read -r kind parts; do echo "$kind $from $parts"; done \
        < <(mirror_parts "$1") > "$state/sources.list"
    APT_OPTIONS=(
        -o "Dir::Etc::sourcelist=$state/sources.list" -o Dir::Etc::sourceparts=/nonexistent
        -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache"
        -o "Dir::State::status=$state/empty-status"
        -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=3
        -o APT::Architecture=amd64 -o APT::Architectures::=amd64
    )
    [ -z "${2:-}" ] || APT_OPTIONS+=(-o "APT::Architectures::=$2")
    # A snapshot's signature is good and its day is past.
    [ -z "${FIRSTLIGHT_ARCHIVE:-}" ] || APT_OPTIONS+=(-o Acquire::Check-Valid-Until=false)
    apt-get "${APT_OPTIONS[@]}" -qq update || die "the archive's package lists cannot be read" \
        "check the network, and ${FIRSTLIGHT_ARCHIVE:+FIRSTLIGHT_ARCHIVE or }'apt-get update'"
}
