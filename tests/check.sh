#!/usr/bin/env bash
# Everything that must hold and needs no image: format, lints, unit tests and the rules of the house, with the seconds of
# each step. Needs cargo, a C compiler and git. Linters that are not installed are named, and left out.
set -euo pipefail
cd "$(dirname "$0")/.."

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
tests=(--workspace --lib --test cli --test codes --test pcie --test driver --test nccl --test house --test hardware)
skip=()
if [ "$(id -u)" = 0 ] && command -v mke2fs > /dev/null; then
    tests+=(--test process_one)
else
    echo "check  tests of process 1, of mounted disks and of held processes are left out; they need root and mke2fs"
    skip+=(--skip as_root::)
fi
if ! command -v lspci > /dev/null; then
    echo "check  lspci is missing, and what it reads is not compared; install it: apt install pciutils"
    skip+=(--skip lspci::)
fi

step format cargo fmt --all --check
step clippy cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
step build cargo test --locked --quiet "${tests[@]}" --no-run
step tests cargo test --locked --quiet "${tests[@]}" -- "${skip[@]}"
mapfile -t shell < <(git grep -lIE '^#!.*[/ ](ba|da)?sh$')
linter "shellcheck -S warning" "apt install shellcheck" "${shell[@]}"
mapfile -t python < <(git ls-files '*.py')
linter "ruff check --quiet" "pipx install ruff" "${python[@]}"
printf 'check  all held   %4d s\n' "$SECONDS"
