#!/usr/bin/env bash
# Everything that must hold and needs no image: format, lints, unit tests and the rules of the house, with the seconds of
# each step. Needs cargo, a C compiler and git. Linters that are not installed are named, and left out.
# check.sh with COMMAND..: runs only this command, for which cargo compiles as it does here.
# check.sh in-memory COMMAND..: the same, with its temporary files in memory.
set -euo pipefail
cd "$(dirname "$0")/.."

# Clippy is the compiler with more lints, so it builds the tests too: nothing is compiled twice.
clippy=$(rustc --print sysroot)/bin/clippy-driver
[ -x "$clippy" ] || { echo "check: clippy is missing; install it: rustup component add clippy" >&2; exit 1; }
# These two are what `cargo clippy -- -D warnings` sets.
export RUSTC_WORKSPACE_WRAPPER=$clippy CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# The build script of ring runs again, and half of all crates are compiled again, where one of these changes: cargo's description
# of the package to a test that calls cargo itself, and the date of image/lib/common.sh.
unset "${!CARGO_PKG_@}" "${!CARGO_MANIFEST_@}" OUT_DIR SOURCE_DATE_EPOCH
if [ "${1:-}" = with ]; then
    shift
    exec "$@"
fi

# The tests write thousands of small files, in memory where there is room and programs may run. By a link: a path that
# begins with /dev/ means a device to the program.
fast=$(mktemp -d -p /dev/shm firstlight-check.XXXXXX 2> /dev/null || mktemp -d) temporary=$(mktemp -d)
beside=
trap '[ -z "$beside" ] || kill -- "-$beside" 2> /dev/null || true; rm -rf "$fast" "$temporary"' EXIT
memory=$temporary
printf '#!/bin/sh\n' > "$fast/runs" && chmod +x "$fast/runs"
if [ "$(df --output=avail -k "$fast" | tail -1)" -gt 2000000 ] && "$fast/runs" 2> /dev/null; then
    memory=$temporary/memory
    ln -s "$fast" "$memory"
fi

if [ "${1:-}" = in-memory ]; then
    shift
    TMPDIR=$memory "$@"
    exit
fi

# step NAME COMMAND..: runs it, and says how long it took.
step() {
    local name=$1 from=$SECONDS
    shift
    "$@" || { echo "check: FAILED in step '$name' after $SECONDS s" >&2; exit 1; }
    printf 'check  %-10s %4d s\n' "$name" $((SECONDS - from))
}

# linter NAME PACKAGES FILES..: runs a linter that may be missing on the files.
linter() {
    local name=$1 packages=$2
    shift 2
    if ! command -v "${name%% *}" > /dev/null; then
        echo "check  ${name%% *} is missing, and its files are not checked; install it: $packages"
        return
    fi
    # shellcheck disable=SC2086  # a command with its words
    step "${name%% *}" $name "$@"
}

# One call for all crates: two would build what they share twice.
tests=(--workspace --lib --test cli --test collect --test pcie --test driver --test nccl --test house --test hardware)
root=(--workspace --test process_one) skip=()
if [ "$(id -u)" != 0 ] || ! command -v mke2fs > /dev/null; then
    echo "check  tests of process 1, of mounted disks and of held processes are left out; they need root and mke2fs"
    root=() skip+=(--skip as_root::)
fi
if ! command -v mksquashfs > /dev/null; then
    echo "check  mksquashfs is missing, and the driver's start is not tested; install it: apt install squashfs-tools"
    skip+=(--skip driver::start::)
fi
if ! ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1; then
    echo "check  PostgreSQL is missing, and the receiver's store in it is not tested; install it: apt install postgresql"
    skip+=(--skip on_postgres:: --skip postgres_server::)
fi
if ! command -v lspci > /dev/null; then
    echo "check  lspci is missing, and what it reads is not compared; install it: apt install pciutils"
    skip+=(--skip lspci::)
fi
if ! python3 -c 'import jsonschema' 2> /dev/null; then
    echo "check  Python's jsonschema is missing, and the report's schema is not held against it; install it: pip install jsonschema"
    skip+=(--skip schema::jsonschema::)
fi
if ! python3 -c 'import ntia_conformance_checker' 2> /dev/null; then
    echo "check  NTIA's checker is missing, and the list of materials is not held against it; install it: pip install ntia-conformance-checker"
    skip+=(--skip sbom::ntia::)
fi
NODE_PATH=${NODE_PATH:-$(npm root --global 2> /dev/null || true)}
export NODE_PATH
if ! node -e 'require("ajv/dist/2020")' 2> /dev/null; then
    echo "check  ajv 8 is missing, and the report's schema is not held against it; install it: npm install --global ajv@8"
    skip+=(--skip schema::ajv::)
fi

step format cargo fmt --all --check
# Process 1 mostly waits for deadlines: its tests run beside everything that follows. It empties a root in memory when it
# leaves it: this one is on a disk. They are a process group of their own, so that all of it ends where another step fails.
if [ ${#root[@]} != 0 ]; then
    step build-1 cargo test --locked --quiet "${root[@]}" --no-run
    : > "$temporary/process-1"
    set -m
    step process-1 cargo test --locked --quiet "${root[@]}" > "$temporary/process-1" 2>&1 < /dev/null &
    set +m
    beside=$!
    # Until it runs, it waits for the lock of the build that would follow.
    until grep -q '^running ' "$temporary/process-1" || ! kill -0 "$beside" 2> /dev/null; do sleep 0.1; done
fi
# Tests that need an image or other programs are named: `--tests` would leave them out.
step clippy cargo build --locked --quiet --workspace --lib --bins --benches --examples --test image --test boots --test deploy --test handout --test arm64
step build cargo test --locked --quiet "${tests[@]}" --test process_one --no-run
step tests env TMPDIR="$memory" cargo test --locked --quiet "${tests[@]}" -- "${skip[@]}"
# What must not compile, as a span of memory that is freed already.
step examples cargo test --locked --quiet -p firstlight-gpu --doc
if [ -n "$beside" ]; then
    wait "$beside" && failed= || failed=yes
    beside=
    cat "$temporary/process-1"
    [ -z "$failed" ] || exit 1
fi
mapfile -t shell < <(git grep -lIE '^#!.*[/ ](ba|da)?sh$' -- ':!*.md')   # the scripts in pages are tested where they are run
linter "shellcheck -S warning" "apt install shellcheck" "${shell[@]}"
mapfile -t python < <(git ls-files '*.py')
linter "ruff check --quiet" "pipx install ruff" "${python[@]}"
# What is missing is not fetched here.
advisories() {
    tests/advisories.sh --offline || {
        [ $? = 3 ] || return 1
        echo "check  so the crates are not held against RustSec's advisories; './run advisories' brings what is missing"
    }
}
step advisories advisories
printf 'check  all held   %4d s\n' "$SECONDS"
