#!/usr/bin/env bash
# bind.sh [FILE]: builds the modules of the driver that FILE describes (by default the project's own), boots them in QEMU
# with four GPUs that answer as an RTX 4090, 3090, 5090 and RTX PRO 6000, and reports for each whether the module bound to it.
# Userspace and firmware are empty files, so no GPU starts. Needs an image (`./run media`).
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
[ $# -le 1 ] || die "driver-bind takes one description" "driver-bind [FILE]"
export FIRSTLIGHT_DRIVER=${1:-$REPO/image/driver/source.toml}
source "$REPO/image/driver/describe.sh"
describe_driver
kernel=$("$REPO/kernel-config/build.sh")
modules=$("$REPO/image/driver/modules.sh" "$kernel")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
with_scripts --bind "$DRIVER_FILE:/build/$(basename "$DRIVER_FILE")" --bind "$modules:/build/modules" \
    python3 -B scripts/description/describe.py image "$(basename "$DRIVER_FILE")" modules/nvrm_registry.h \
    "kernel=$(cat "$kernel/release")" nccl=none fabric_manager= > "$work/driver.toml"
"$REPO/tests/fakepci/build.sh"
cd "$REPO"
cargo run --quiet --release --locked --bin bind-driver -- "$modules" "$work/driver.toml" "$driver_version"
