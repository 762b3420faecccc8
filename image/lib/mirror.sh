# A private apt state for Debian. It uses the archive from which this host gets its own packages, or else the default of an
# installed debootstrap or mmdebstrap, so the project names no mirror, and the host's apt state is not touched.
# FIRSTLIGHT_ARCHIVE=URL names another archive, for example a snapshot of an earlier day; options in brackets may precede
# the URL, as in a line of apt's sources.
# Sourced; sets APT_OPTIONS. Needs: CACHE (folder). Works on Debian 12 and 13.

# The Debian archive of this host's own packages; prints nothing if it has none. Relatives of Debian may have one beside their
# own, which its signed name shows; on Debian a mirror may have any name.
mirror_uri() {
    local origin=Debian
    command -v apt-get > /dev/null || return 0
    if ( . /etc/os-release && [ "$ID" = debian ] ) > /dev/null 2>&1; then origin=; fi
    apt-get indextargets --format '$(CREATED_BY) $(REPO_URI) $(COMPONENT) $(ORIGIN)' 2> /dev/null |
        awk -v origin="$origin" '$1 == "Packages" && $3 == "main" && $2 !~ /security|debug/ && (origin == "" || $4 == origin) { print $2 }' |
        sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }'
}

# The Debian archive that an installed debootstrap or mmdebstrap uses when none is named; prints nothing if there is neither.
mirror_default() {
    local program
    if program=$(command -v debootstrap); then
        sed -n 's/^DEF_MIRROR="\([a-z]*:[^" $]*\)"$/\1/p' "$program"
    fi
    if program=$(command -v mmdebstrap); then
        sed -n "s/^ *my \\\$mirror *= *'\\([a-z]*:[^' ]*\\)';\$/\\1/p" "$program"
    fi
}

# The archive that FIRSTLIGHT_ARCHIVE names, or else this host's, or else the default of its programs that make Debian
# systems; prints nothing if there is none. A relative of Debian may have changed that default to its own archive.
mirror_archive() {
    local own
    case ${FIRSTLIGHT_ARCHIVE:-} in
        '')
            own=$(mirror_uri)
            [ -n "$own" ] || own=$(mirror_default | awk '!/ubuntu/ && !seen { print; seen = 1 }')
            [ -z "$own" ] || echo "$own" ;;
        '['*']'*:/* | [!'[']*:/*) echo "$FIRSTLIGHT_ARCHIVE" ;;
        *) die "FIRSTLIGHT_ARCHIVE is '$FIRSTLIGHT_ARCHIVE'" "allowed: the URL of a Debian archive, options of apt's sources in brackets before it" ;;
    esac
}

# ARCHIVE NAMES: stops because these locked packages are no longer available
die_gone() {
    die "no longer in the archive${1:+ $1}: $2" \
        "three ways on: './run image --offline FILE' with an archive of inputs that 'just vendor' made earlier; FIRSTLIGHT_ARCHIVE=URL of a Debian archive or snapshot that still has it; 'just relock' for newer versions"
}

# The archive's parts of one scope. Everything is built from and with `main`. The GPU driver is in
# other sections and, in the version that can be patched, in another suite.
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

# mirror_setup main|driver [ARCHITECTURE]: packages of an additional architecture are requested as NAME:ARCHITECTURE
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
    # A snapshot has a valid signature but an expired Valid-Until date.
    [ -z "${FIRSTLIGHT_ARCHIVE:-}" ] || APT_OPTIONS+=(-o Acquire::Check-Valid-Until=false)
    apt-get "${APT_OPTIONS[@]}" -qq update || die "the archive's package lists cannot be read" \
        "check the network, and ${FIRSTLIGHT_ARCHIVE:+FIRSTLIGHT_ARCHIVE or }'apt-get update'"
}
