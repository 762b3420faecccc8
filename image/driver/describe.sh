# The driver's description, for the build's scripts. Sourced after lib/common.sh.

# The file that describes the driver: the project's own, or the one that FIRSTLIGHT_DRIVER names.
DRIVER_FILE=${FIRSTLIGHT_DRIVER:-$REPO/image/driver/source.toml}
[ "$DRIVER_FILE" != none ] || DRIVER_FILE=

# [--bind FROM:TO].. COMMAND..: in the tools tree, with the scripts of image/driver at /build/scripts.
with_scripts() { "$REPO/image/in-tools.sh" tools --bind "$REPO/image/driver:/build/scripts" "$@"; }

# Sets driver_version, driver_source .. (describe.py shell).
describe_driver() {
    local words name
    [ ! -d "$DRIVER_FILE" ] || die "FIRSTLIGHT_DRIVER is the folder $DRIVER_FILE, not a description" "--driver $DRIVER_FILE takes the driver in it"
    [ -r "$DRIVER_FILE" ] || die "the driver's description $DRIVER_FILE cannot be read"
    DRIVER_FILE=$(realpath "$DRIVER_FILE")
    name=$(basename "$DRIVER_FILE")
    words=$(with_scripts --bind "$DRIVER_FILE:/build/$name" python3 -B scripts/description/describe.py shell "$name") || exit 1
    eval "$words"
}

# The header of a tree of NVIDIA's modules that names the registry keys and their values
REGISTRY_HEADER=src/nvidia/interface/nvrm_registry.h

# FILE TREE: prints the registry keys of each family of the description FILE, by the header of that tree.
registry_keys() {
    with_scripts --bind "$1:/build/$(basename "$1")" --bind "$2:/build/tree" \
        python3 -B scripts/description/describe.py keys "$(basename "$1")" "tree/$REGISTRY_HEADER"
}

# TREE EDITS LEVEL FAMILY..: edits a tree by names, for the chips of these families, and prints each edit.
edit_tree() {
    with_scripts --bind "$1:/build/tree" --bind "$2:/build/edits" python3 -B scripts/description/edit.py tree edits "${@:3}"
}

# The families that can be chosen without being named, and all.
common_families() { with_scripts python3 -B scripts/description/describe.py families; }
all_families() { with_scripts python3 -B scripts/description/describe.py families all; }

# Resolves a path in the description relative to the description's folder.
beside() {
    case $1 in
        '' | /*) echo "$1" ;;
        firstlight:*) echo "$REPO/image/driver/${1#firstlight:}" ;;
        *) echo "$(dirname "$DRIVER_FILE")/$1" ;;
    esac
}

# TREE VERSION: gives a tree whose resource manager is prebuilt the header that it lacks: seen.h if the version was seen, else
# an empty one, in which no key is found.
lend_header() {
    mkdir -p "$1/$(dirname "$REGISTRY_HEADER")"
    if [ "${2%%.*}" -ge 580 ] && grep -qF "\"$2\"" "$REPO/image/driver/description/seen.toml"; then cp "$REPO/image/driver/description/seen.h" "$1/$REGISTRY_HEADER"
    else : > "$1/$REGISTRY_HEADER"; fi
}

# NAME FILE HASH [KEY]: refuses a file that is not the one that the description names.
proven_file() {
    local found key=${4:-files.$1_sha256}
    [ -n "$2" ] || die "source = \"$driver_source\" needs files.$1"
    [ -f "$2" ] || die "${key%_sha256}: there is no file $2"
    [ -n "$3" ] || die "$key is empty" "it is what 'sha256sum $2' prints, compared with what NVIDIA publishes"
    found=$(sha256sum < "$2"); found=${found%% *}
    [ "$found" = "$3" ] || die "$(basename "$2") is not the file that $key names" "expected $3, found $found: another version, or cut off"
}
