#!/usr/bin/env bash
# rust.sh [--arm64] [--crates | --simulated]: builds init (static) and the validator inside the compiler tree: linked by its
# linker against its libc, at paths that are the same on every host. Prints the folder with both programs. --crates instead
# prints the crates linked into them: PROGRAM|NAME vVERSION|LICENCE. --simulated builds the simulated libraries of tests and
# prints their folder.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
arch=
if [ "${1:-}" = --arm64 ]; then arch=-arm64; shift; fi
target=$REPO/target/image/rust${arch}${INPUTS:+-offline}
mkdir -p "$target"
cd "$REPO"
if [ -n "$INPUTS" ]; then
    sysroot=$INPUTS/rust crates=$INPUTS/cargo:/build/cargo
else
    sysroot=$(rustc --print sysroot)
    cargo fetch --locked --quiet
    crates=${CARGO_HOME:-$HOME/.cargo}/registry:/build/cargo/registry
fi
prove_rust "$sysroot"
system=x86_64-unknown-linux-gnu cross=()
if [ -n "$arch" ]; then
    system=aarch64-unknown-linux-gnu cross=(CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc)
    prove_rust_std "$sysroot" "$system"
fi

in_tools() {
    "$REPO/image/in-tools.sh" "compiler$arch" --bind "$REPO:/build/firstlight" --bind "$target:/build/target" \
        --bind "$sysroot:/build/rust" --bind "$crates" --cwd /build/firstlight \
        PATH=/build/rust/bin:/usr/sbin:/usr/bin CARGO_HOME=/build/cargo CARGO_TARGET_DIR=/build/target "${cross[@]}" "$@"
}
if [ "${1:-}" = --crates ]; then
    for program in firstlight firstlight-init; do
        in_tools cargo tree --locked --offline -p "$program" --target "$system" \
            -e normal,no-proc-macro --no-dedupe --prefix none --format '{p}|{l}' | sed "s/^/$program|/"
    done | LC_ALL=C sort -u
    exit 0
fi
cargo_build=(cargo build --locked --offline --target "$system")
if [ "${1:-}" = --simulated ]; then
    in_tools "${cargo_build[@]}" --release -p simgpu-cuda -p simgpu-nvml -p simgpu-nccl -p simgpu-verbs --lib >&2
    echo "$target/$system/release"
    exit 0
fi
# In parallel, because each spends most of its time in one thread, at the end.
in_tools "${cargo_build[@]}" --release -p firstlight >&2 &
validator=$!
# Not position-independent, because the program is alone in its address space; and static, so no loader runs before it.
in_tools RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static" \
    CARGO_TARGET_DIR=/build/target/static "${cargo_build[@]}" --profile init -p firstlight-init >&2 ||
    { wait "$validator" || true; exit 1; }   # leave no build in the background after a failure
wait "$validator"
out=$target/bin
mkdir -p "$out"
install -m 0755 "$target/static/$system/init/init" "$out/init"
install -m 0755 "$target/$system/release/firstlight" "$out/firstlight"
echo "$out"
