# firstlight's recipes. `./run RECIPE` installs what a recipe needs and calls it.
set shell := ["bash", "-euo", "pipefail", "-c"]
set positional-arguments

# The recipes, by group.
default:
    @just --list --unsorted

# Build what is stale and boot the image in QEMU; words go to the kernel (firstlight.KEY=VALUE).
[group('use')]
boot *words: image
    @image/boot.sh "$@"

# Build what is stale: kernel, binaries, image (target/image/out).
[group('use')]
image:
    @image/build.sh

# Build the two binaries for this host only (target/release).
[group('use')]
binaries:
    cargo build --release --locked -p firstlight -p firstlight-init

# Everything that must hold: lints, unit tests, short fuzzing, and the shipped image in QEMU.
[group('check')]
test: lint unit fuzz boots

# Formatting, compiler and clippy lints of all crates.
[group('check')]
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Tests that need no image.
[group('check')]
unit:
    cargo test --locked -p firstlight -p firstlight-init
    cargo test --locked -p firstlight-tests --test house --test kernel_config

# Each parser of hostile input, fuzzed for some seconds.
[group('check')]
fuzz:
    tests/fuzz/short.sh

# The shipped image in QEMU: faults, policies, hand-overs.
[group('check')]
boots: image
    tests/fakepci/build.sh
    cargo test --locked -p firstlight-tests -- --test-threads=2

# The driver's modules, built again in another folder, must be the same bytes (minutes).
[group('check')]
driver-repeat:
    image/driver/repeat.sh

# Licences, advisories, duplicates and origins of all crates (needs cargo-deny).
[group('check')]
deny:
    cargo deny --locked check

# Boot times against their limits, over several runs.
[group('measure')]
bench-boot runs="5": image
    cargo run --release --locked -p firstlight-tests --bin bench-boot -- {{runs}}

# Take over what the kernel fragments resolve to (kernel-config/resolved.config).
[group('maintain')]
kernel-resolve:
    kernel-config/resolve-here.sh

# Ask the archive for newer versions of everything that is pinned, or of some uses (driver tools ..).
[group('maintain')]
relock *uses:
    image/relock.sh "$@"

# Record this machine's sysfs and procfs into a folder, for `firstlight --root`.
[group('maintain')]
record dir:
    tests/machines/record.sh "{{dir}}"

# Remove what was built here; `clean all` also the cache of kernel, tools and downloads.
[group('maintain')]
clean what="":
    rm -rf target tests/fuzz/target
    [ "{{what}}" != all ] || rm -rf "${FIRSTLIGHT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/firstlight}"
