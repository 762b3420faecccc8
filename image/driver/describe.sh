# The driver's description, for the build's scripts. Sourced after lib/common.sh.

# The file that describes the driver: the project's own, or the one that FIRSTLIGHT_DRIVER names.
DRIVER_FILE=${FIRSTLIGHT_DRIVER:-$REPO/image/driver/source.toml}
if [ "$DRIVER_FILE" = none ]; then DRIVER_FILE=; else
    [ -r "$DRIVER_FILE" ] || die "the driver's description $DRIVER_FILE cannot be read"
    DRIVER_FILE=$(realpath "$DRIVER_FILE")
fi

# Sets driver_version, driver_source .. (describe.py shell).
describe_driver() {
    local words
    words=$("$REPO/image/in-tools.sh" tools --bind "$REPO/image/driver:/build/scripts" \
        --bind "$DRIVER_FILE:/build/$(basename "$DRIVER_FILE")" \
        python3 -B scripts/describe.py shell "$(basename "$DRIVER_FILE")") || exit 1
    eval "$words"
}

# A path of the description: from its folder.
beside() { case $1 in '' | /*) echo "$1" ;; *) echo "$(dirname "$DRIVER_FILE")/$1" ;; esac; }

# NAME FILE HASH: refuses a file that is not the one that the description names.
proven_file() {
    local found
    [ -n "$2" ] || die "source = \"files\" needs files.$1"
    [ -f "$2" ] || die "files.$1: there is no file $2"
    [ -n "$3" ] || die "files.$1_sha256 is empty" "it is what 'sha256sum $2' prints, compared with what NVIDIA publishes"
    found=$(sha256sum < "$2"); found=${found%% *}
    [ "$found" = "$3" ] || die "$(basename "$2") is not the file that files.$1_sha256 names" "expected $3, found $found: another version, or cut off"
}
